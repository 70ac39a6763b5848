from .batch import EMPTY_OBJECT as EMPTY_OBJECT, Columns as Columns, RowBatch as RowBatch
from .charsets import Decoded as Decoded, decode as decode, find_codec as find_codec, find_mark as find_mark
from .dates import normalize_timestamp as normalize_timestamp, read_date as read_date
from .document import (
    ARTICLE as ARTICLE,
    MAX_ID_CHARACTERS as MAX_ID_CHARACTERS,
    RESERVED_METADATA as RESERVED_METADATA,
    escape_unprintable as escape_unprintable,
    is_schema_object as is_schema_object,
    read_string as read_string,
    to_document as to_document,
    to_document_id as to_document_id,
)
from .drafts import (
    PUBLISHED as PUBLISHED,
    mark_expiry as mark_expiry,
    read_publication as read_publication,
    read_robots as read_robots,
)
from .file import (
    MAX_DOCUMENT_BYTES as MAX_DOCUMENT_BYTES,
    File as File,
    LeftOut as LeftOut,
    Noted as Noted,
    Notes as Notes,
    note as note,
    open_beneath as open_beneath,
    open_file as open_file,
    read_content as read_content,
    read_text_file as read_text_file,
)
from .json_values import (
    MAX_CONVERTED_VALUES as MAX_CONVERTED_VALUES,
    MAX_FILE_VALUES as MAX_FILE_VALUES,
    MAX_INTEGER as MAX_INTEGER,
    find_integer_fault as find_integer_fault,
    parse_json as parse_json,
    to_json_value as to_json_value,
)
from .mapping import (
    ROW_MEMBERS as ROW_MEMBERS,
    ColumnMapping as ColumnMapping,
    Mappings as Mappings,
    get_column as get_column,
    parse_mappings as parse_mappings,
)
from .row_lines import RowDecoder as RowDecoder, open_rows as open_rows
from .source_items import (
    Item as Item,
    ListingEnd as ListingEnd,
    Rejected as Rejected,
    Unchanged as Unchanged,
    Unpublished as Unpublished,
)
from .vectors import RowVectors as RowVectors, VectorRules as VectorRules, format_wrong_length as format_wrong_length
