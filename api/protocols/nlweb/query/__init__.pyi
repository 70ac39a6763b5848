from .dialects import (
    Body as Body,
    detect_dialect as detect_dialect,
    parse_parameters as parse_parameters,
    to_canonical as to_canonical,
)
from .filters import AttributeFilter as AttributeFilter, build_filter as build_filter, has_location as has_location
from .request import (
    CONVERSATIONAL_CONTEXT as CONVERSATIONAL_CONTEXT,
    MODES as MODES,
    RESPONSE_FORMATS as RESPONSE_FORMATS,
    Ask as Ask,
    read_ask as read_ask,
    read_session_context as read_session_context,
)
from .schema_types import normalize_type as normalize_type, subtypes_of as subtypes_of
