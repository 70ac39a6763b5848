"""GET /.well-known/aidre-keys.json: the public keys for every caller, as a JWK set (RFC 7517)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.http import etag_digest, not_modified
from aidre.api.protocols.provenance.service import WELL_KNOWN, Provenance

MEDIA_TYPE = "application/jwk-set+json"
CACHE = "max-age=300"
"""A verifier that meets an unknown key id should fetch the set again at once."""


async def keys(request: Request) -> Response:
    provenance: Provenance = request.app.state.provenance
    body = provenance.keys()
    headers = {"ETag": f'"{etag_digest(body)}"', "Cache-Control": CACHE}
    if not_modified(request, headers["ETag"], None):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, MEDIA_TYPE)


routes = [Route(WELL_KNOWN, keys, methods=["GET"])]
