from .dialects import (
    Body as Body,
    detect_dialect as detect_dialect,
    parse_parameters as parse_parameters,
    to_canonical as to_canonical,
)
from .filters import (
    AttributeFilter as AttributeFilter,
    build_filter as build_filter,
    has_location as has_location,
    normalize_type as normalize_type,
    subtypes_of as subtypes_of,
)
from .request import (
    MODES as MODES,
    RESPONSE_FORMATS as RESPONSE_FORMATS,
    Ask as Ask,
    check_session_context as check_session_context,
    read_ask as read_ask,
    refuse_member as refuse_member,
)
