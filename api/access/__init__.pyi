from .caller import (
    ANONYMOUS as ANONYMOUS,
    Caller as Caller,
    caller_in as caller_in,
    caller_of as caller_of,
    intake_caller as intake_caller,
    may_query_by_vector as may_query_by_vector,
    may_see as may_see,
    visibility_in_force as visibility_in_force,
)
from .client_address import ClientAddresses as ClientAddresses, OriginalTarget as OriginalTarget
from .guard import (
    MCP as MCP,
    RESOURCE_METADATA as RESOURCE_METADATA,
    UNMETERED as UNMETERED,
    WELL_KNOWN as WELL_KNOWN,
    Guard as Guard,
    check_guard as check_guard,
    mark_private as mark_private,
)
from .web_origins import WebOrigins as WebOrigins
