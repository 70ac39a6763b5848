"""GET /: the search page for clients that prefer HTML, a JSON object with links for all others. GET /docs: the API
documentation, drawn from the OpenAPI document of this server.

Each page is one static file. It loads what it shows over the routes that programs use, with the access of its user.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.http import JSON, Link, Message, accept_header, answer_unless_known, cacheable_response, quality
from aidre.api.operations import link_header, site_data
from aidre.api.operations.page.assembly import HTML, ServedPage, assembled, with_data

SCRIPTS = (
    "dom.js",
    "server.js",
    "address.js",
    "passages.js",
    "results.js",
    "filters.js",
    "completion.js",
    "reading.js",
    "browsing.js",
    "coding.js",
    "start.js",
)
"""In the order of loading: a script uses at its start what is before it, and later what any of them has."""
STYLES = ("shared.css", "search.css")
PAGE, PLAIN = (assembled("search.html", STYLES, SCRIPTS, vary="Accept", images=images) for images in (True, False))
"""The page with images of documents, and without."""
DOCS_PAGE = assembled("docs.html", ("shared.css", "docs.css"), ("dom.js", "server.js", "schema.js", "docs.js"))


class Signpost(Message):
    """Where the other documents are."""

    service: Literal["AIDRE"]
    discovery: Link
    openapi: Link


async def root(request: Request) -> Response:
    accept = accept_header(request)
    for_people = quality(accept, HTML) > quality(accept, JSON)
    page = _page(request) if for_people else None
    response = _signpost(request) if page is None else answer_unless_known(request, page.content, page.headers, HTML)
    response.headers["Link"] = link_header(request.app.state.retrieval.settings)
    return response


def _page(request: Request) -> ServedPage:
    """The page with the data of this site, put together once."""
    state = request.app.state
    if not hasattr(state, "page"):
        settings = state.retrieval.settings
        page = PAGE if settings.server.images else PLAIN
        state.page = with_data(page, orjson.dumps(site_data(settings)))
    made: ServedPage = state.page
    return made


def _signpost(request: Request) -> Response:
    base = request.app.state.retrieval.settings.server.base_url
    signpost = Signpost(service="AIDRE", discovery=f"{base}/.well-known/ai-discovery", openapi=f"{base}/openapi.json")
    return cacheable_response(request, msgspec.json.encode(signpost), "max-age=300", mark="-j", vary="Accept")


async def docs(request: Request) -> Response:
    return answer_unless_known(request, DOCS_PAGE.content, DOCS_PAGE.headers, HTML)


routes = [Route("/", root, methods=["GET"]), Route("/docs", docs, methods=["GET"])]
