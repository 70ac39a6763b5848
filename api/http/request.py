"""One request: its identifier, its target, its header fields, and notes about it for the middleware.

It reads `request.scope` and never the body, see `body`.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Scope

TARGET = "target"
"""Key in `scope["state"]`: path and query as the connection received them."""

BELOW_BASE = "below_base"
"""Key in `scope["state"]`: set where a trusted proxy says that the client asked below the path of `base_url`."""

MAX_ACCEPT_CHARS = 2_048
"""Characters of Accept that are read; browsers send a tenth. It bounds the keys of the caches in `media_types`."""


def request_id(request: Request) -> str:
    identifier: str = request.scope["state"]["request_id"]
    return identifier


def note_error_code(request: Request, code: str) -> None:
    """Passes the protocol's error code to the metrics and the access log."""
    request.scope["state"]["code"] = code


def request_target(scope: Scope) -> bytes:
    """Path and query as received. If the connection has not noted the target, the "?" of an empty query is missing."""
    target: bytes | None = scope.get("state", {}).get(TARGET)
    if target is None:
        target = scope.get("raw_path") or scope["path"].encode()
        query: bytes = scope.get("query_string", b"")
        return target + b"?" + query if query else target
    return target


def header_field(request: Request, name: bytes) -> str | None:
    """The first field of a lower-case name."""
    value = _first_fields(request).get(name)
    return None if value is None else value.decode("latin-1")


def accept_header(request: Request) -> str:
    """All Accept fields joined and cut after a whole member to `MAX_ACCEPT_CHARS`; empty if there is none."""
    if b"accept" not in _first_fields(request):
        return ""
    accept = b", ".join([value for key, value in request.scope["headers"] if key == b"accept"]).decode("latin-1")
    return accept if len(accept) <= MAX_ACCEPT_CHARS else accept[:MAX_ACCEPT_CHARS].rpartition(",")[0]


def _first_fields(request: Request) -> dict[bytes, bytes]:
    """Header fields by name, the first of a repeated one; computed once per request."""
    state = request.scope["state"]
    fields: dict[bytes, bytes] | None = state.get("fields")
    if fields is None:
        fields = state["fields"] = dict(reversed(request.scope["headers"]))
    return fields
