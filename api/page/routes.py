"""`GET /`: the search page to who prefers HTML, to everybody else a signpost.

The page is one file and the same for everybody: nothing of a store is put into it here. What it shows it asks for
itself, over the routes that programs use, and so it may see what its caller may see.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.wire import JSON, accept_of, digest, not_modified, quality

HTML = "text/html"


def policy(page: bytes) -> str:
    """What a browser may do on behalf of this page: run its own script, and speak to where it came from."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hashes(page, b'script')}",
            f"style-src {_hashes(page, b'style')}",
            "connect-src 'self'",
            "img-src data:",  # the empty icon, so that nobody asks for /favicon.ico
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hashes(page: bytes, element: bytes) -> str:
    contents = [part.partition(b"</%b>" % element)[0] for part in page.split(b"<%b>" % element)[1:]]
    return " ".join(f"'sha256-{b64encode(sha256(content).digest()).decode()}'" for content in contents)


PAGE = Path(__file__).with_name("index.html").read_bytes()
POLICY = policy(PAGE)
PAGE_FIELDS = {
    "ETag": f'"{digest(PAGE + POLICY.encode())}-h"',
    "Cache-Control": "no-cache",
    "Vary": "Accept",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def root(request: Request) -> Response:
    accept = accept_of(request)
    for_people = quality(accept, HTML) > quality(accept, JSON)
    body, headers = (PAGE, PAGE_FIELDS) if for_people else _signpost(request)
    if not_modified(request, headers["ETag"], None):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, HTML if for_people else JSON)


def _signpost(request: Request) -> tuple[bytes, dict[str, str]]:
    base = request.app.state.retrieval.settings.server.base_url
    body = orjson.dumps(
        {"service": "AIDRE", "discovery": f"{base}/.well-known/ai-discovery", "openapi": f"{base}/openapi.json"}
    )
    return body, {"ETag": f'"{digest(body)}-j"', "Cache-Control": "max-age=300", "Vary": "Accept"}


routes = [Route("/", root, methods=["GET"])]
