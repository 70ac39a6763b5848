"""GET /: the search page for clients that prefer HTML, a JSON object with links for all others.

The page is one static file. It loads what it shows over the routes that programs use, with the access of its user.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.http import JSON, accept_header, answer_unless_known, cacheable_response, etag_digest, quality
from aidre.api.operations.messages import Signpost

HTML = "text/html"


def policy(page: bytes) -> str:
    """The Content-Security-Policy of the page: its own script and style, and requests to its own origin."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hashes(page, b'script')}",
            f"style-src {_hashes(page, b'style')}",
            "connect-src 'self'",
            "img-src data:",  # the empty icon, so that browsers do not request /favicon.ico
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


PAGE = Path(__file__).with_name("search_page.html").read_bytes()
POLICY = policy(PAGE)
PAGE_FIELDS = {
    "ETag": f'"{etag_digest(PAGE + POLICY.encode())}-h"',
    "Cache-Control": "no-cache",
    "Vary": "Accept",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def root(request: Request) -> Response:
    accept = accept_header(request)
    for_people = quality(accept, HTML) > quality(accept, JSON)
    if for_people:
        return answer_unless_known(request, PAGE, PAGE_FIELDS, HTML)
    return _signpost(request)


def _signpost(request: Request) -> Response:
    base = request.app.state.retrieval.settings.server.base_url
    signpost = Signpost(service="AIDRE", discovery=f"{base}/.well-known/ai-discovery", openapi=f"{base}/openapi.json")
    return cacheable_response(request, msgspec.json.encode(signpost), "max-age=300", mark="-j", vary="Accept")


routes = [Route("/", root, methods=["GET"])]
