"""Signatures in the application, where a key is configured, and the public keys for every caller (RFC 7517)."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.config import Settings
from aidre.api.http import cacheable_response
from aidre.api.protocols.provenance.answers import signed_headers
from aidre.api.protocols.provenance.service import WELL_KNOWN, Provenance, provenance_for
from aidre.api.server import Mounted

KEYS_MEDIA_TYPE = "application/jwk-set+json"
CACHE = "max-age=300"
"""A verifier that meets an unknown key id should fetch the set again at once."""


async def keys(request: Request) -> Response:
    provenance: Provenance = request.app.state.provenance
    return cacheable_response(request, provenance.keys(), CACHE, KEYS_MEDIA_TYPE)


routes = [Route(WELL_KNOWN, keys, methods=["GET"])]


def mount(settings: Settings) -> Mounted:
    """Raises ConfigurationError for a key that cannot be read."""
    provenance = provenance_for(settings)
    if provenance is None:
        return Mounted(state={"provenance": None})
    return Mounted(
        routes=routes,
        state={"provenance": provenance},
        sign=partial(signed_headers, provenance.answers),
        refresh=provenance.ring.refresh,
    )
