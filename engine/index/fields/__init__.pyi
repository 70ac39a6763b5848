from .builder import (
    Content as Content,
    ReservedColumns as ReservedColumns,
    SparseStrings as SparseStrings,
    field_names as field_names,
)
from .columns import Kind as Kind
from .filters import (
    MAX_CHARACTERS as MAX_CHARACTERS,
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
    ValueRange as ValueRange,
    Wording as Wording,
    comparisons as comparisons,
    field_name as field_name,
    filter_digest as filter_digest,
    filter_fields as filter_fields,
    is_schema_date as is_schema_date,
    metadata_name as metadata_name,
    parse_filter as parse_filter,
    parse_instant as parse_instant,
    parse_range as parse_range,
    range_with_dates as range_with_dates,
    site_of as site_of,
    split_wording as split_wording,
    stored_name as stored_name,
    unmistakable_name as unmistakable_name,
    with_dates as with_dates,
    without_field as without_field,
)
from .flatten import flatten_member as flatten_member, flatten_object as flatten_object
from .members import (
    TITLE as TITLE,
    check_deletion as check_deletion,
    meant_field as meant_field,
    unknown_fields as unknown_fields,
    with_members as with_members,
)
from .reader import (
    FieldIndex as FieldIndex,
    ValueCounts as ValueCounts,
    build_fields as build_fields,
    merge_fields as merge_fields,
)
