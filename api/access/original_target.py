"""The target of a request as its client sent it, from a header of a trusted proxy.

Proxies rewrite targets: nginx with a path in `proxy_pass` decodes `%2F` and merges slashes. Signatures cover what the
client sent. The header may say how a target was written, not which resource is meant: it is ignored unless both targets
are the same after decoding, so that a client whose header a proxy passes on gains nothing.
"""

from __future__ import annotations

import re
from posixpath import normpath
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.types import Scope

from aidre.api.access.client_address import ClientAddresses
from aidre.api.config import Server
from aidre.api.http import BELOW_BASE, TARGET, request_target

TARGET_FORM = re.compile(rb"/[!-~]*")
"""Path and query in visible ASCII."""


class OriginalTarget:
    """Notes the original target of a request without the path of `base_url`, for `request_target`."""

    def __init__(self, server: Server) -> None:
        self._addresses = ClientAddresses(server.trusted_proxies)
        self._header = server.original_uri_header.lower().encode()
        self._prefix = urlsplit(server.base_url or "").path.rstrip("/").encode()

    def note(self, scope: Scope) -> None:
        """Does so if a trusted proxy has sent one."""
        original = self._original(scope)
        if original is not None:
            scope.setdefault("state", {}).update({TARGET: original, BELOW_BASE: True})

    def _original(self, scope: Scope) -> bytes | None:
        """None where the target as received is the one to sign."""
        values = [value for name, value in scope["headers"] if name == self._header]
        if len(values) != 1 or not self._addresses.trusts(scope):
            return None
        target: bytes = values[0].removeprefix(self._prefix)
        is_under_prefix = values[0].startswith(self._prefix + b"/")
        if not is_under_prefix or TARGET_FORM.fullmatch(target) is None:
            return None
        return target if _resource(target) == _resource(request_target(scope)) else None


def _resource(target: bytes) -> tuple[bytes, bytes]:
    """The decoded path without empty and dot segments, and the query as it is."""
    path, _, query = target.partition(b"?")
    decoded = unquote_to_bytes(path)
    normal = b"/" + normpath(b"/" + decoded).lstrip(b"/")
    return normal + (b"/" if decoded.endswith(b"/") and normal != b"/" else b""), query
