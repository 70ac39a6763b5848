from .parent import SHARED as SHARED, TABLES as TABLES, Sandbox as Sandbox, set_rules as set_rules
from .result import (
    MAX_HEADINGS as MAX_HEADINGS,
    Extracted as Extracted,
    check_answer as check_answer,
    check_notice as check_notice,
    headings as headings,
    sandboxed_reader as sandboxed_reader,
    stream_file as stream_file,
)
from .tesseract import find_tesseract as find_tesseract, recogniser as recogniser
from .walls import available as available, check_walls as check_walls
