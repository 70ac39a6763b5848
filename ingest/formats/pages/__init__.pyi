from .bounds import bound_markup as bound_markup, check_depth as check_depth
from .inline import strip_data_addresses as strip_data_addresses, to_roman as to_roman
from .main_text import (
    MainText as MainText,
    extract_fragment as extract_fragment,
    extract_fragment_text as extract_fragment_text,
    extract_main_text as extract_main_text,
    find_title as find_title,
)
from .markdown_table import Cell as Cell, write_cells as write_cells, write_table as write_table
from .markup_tables import has_tables as has_tables
