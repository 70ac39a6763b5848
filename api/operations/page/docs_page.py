"""GET /docs: the API documentation, drawn from the OpenAPI document of this server. It loads nothing from elsewhere."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.http import answer_unless_known
from aidre.api.operations.page.assembly import HTML, assembled

PAGE = assembled("docs.html", ("shared.css", "docs.css"), ("dom.js", "server.js", "schema.js", "docs.js"))


async def show(request: Request) -> Response:
    return answer_unless_known(request, PAGE.content, PAGE.headers, HTML)


routes = [Route("/docs", show, methods=["GET"])]
