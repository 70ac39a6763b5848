from .builder import (
    Content as Content,
    ReservedColumns as ReservedColumns,
    SparseStrings as SparseStrings,
    field_names as field_names,
)
from .columns import Kind as Kind
from .filters import (
    MAX_DEPTH as MAX_DEPTH,
    MAX_NODES as MAX_NODES,
    MAX_VALUES as MAX_VALUES,
    RESERVED as RESERVED,
    And as And,
    Compare as Compare,
    Filter as Filter,
    Instant as Instant,
    Not as Not,
    Or as Or,
    Scalar as Scalar,
    field_name as field_name,
    filter_digest as filter_digest,
    filter_fields as filter_fields,
    is_schema_date as is_schema_date,
    metadata_name as metadata_name,
    parse_filter as parse_filter,
    parse_instant as parse_instant,
    site_of as site_of,
    with_dates as with_dates,
)
from .reader import (
    FieldIndex as FieldIndex,
    build_fields as build_fields,
    merge_fields as merge_fields,
)
