from .arrow_json import (
    Faults as Faults,
    to_json_values as to_json_values,
    to_rows as to_rows,
    write_json as write_json,
    write_objects as write_objects,
)
from .columnar import build_row_batch as build_row_batch
from .csv import find_csv_columns as find_csv_columns, find_csv_spaces as find_csv_spaces, read_csv as read_csv
from .json_lines import (
    find_json_file_columns as find_json_file_columns,
    find_json_file_spaces as find_json_file_spaces,
    find_json_lines_columns as find_json_lines_columns,
    find_json_lines_spaces as find_json_lines_spaces,
    has_url_lines as has_url_lines,
    holds_documents as holds_documents,
    read_json_file as read_json_file,
    read_json_lines as read_json_lines,
)
from .parquet import (
    find_parquet_columns as find_parquet_columns,
    find_parquet_spaces as find_parquet_spaces,
    read_parquet as read_parquet,
)
from .row_documents import read_json_row as read_json_row
from .xlsx import find_xlsx_columns as find_xlsx_columns, find_xlsx_spaces as find_xlsx_spaces, read_xlsx as read_xlsx
