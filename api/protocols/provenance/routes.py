"""GET /.well-known/aidre-keys.json: the public keys for every caller, as a JWK set (RFC 7517)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.http import cacheable_response
from aidre.api.protocols.provenance.service import WELL_KNOWN, Provenance

KEYS_MEDIA_TYPE = "application/jwk-set+json"
CACHE = "max-age=300"
"""A verifier that meets an unknown key id should fetch the set again at once."""


async def keys(request: Request) -> Response:
    provenance: Provenance = request.app.state.provenance
    return cacheable_response(request, provenance.keys(), CACHE, KEYS_MEDIA_TYPE)


routes = [Route(WELL_KNOWN, keys, methods=["GET"])]
