"""GET /llms.txt (https://llmstxt.org): what this caller may see and where to ask it, as Markdown for models."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import Caller, caller_of
from aidre.api.http import cacheable_response, render_error, renders_errors_with
from aidre.api.retrieval import Retrieval, VisibleCollection

MEDIA_TYPE = "text/markdown; charset=utf-8"


def text_for(retrieval: Retrieval, caller: Caller) -> str:
    """The document for a caller: a title, a summary, and lists of links."""
    return "\n".join(_lines(retrieval, caller)) + "\n"


def _lines(retrieval: Retrieval, caller: Caller) -> Iterator[str]:
    settings = retrieval.settings
    base = str(settings.server.base_url)
    origin = (settings.server.origin or base).rstrip("/")
    by_aidre = list(retrieval.collections.visible(caller, "aidre"))
    speaks_nlweb = bool(retrieval.collections.names(caller, "nlweb"))
    yield f"# {_inline(settings.server.organization or 'AIDRE')}"
    yield ""
    yield "> Documents that agents may search. Answers name their sources; cite these."
    yield ""
    if by_aidre:
        yield "## Collections"
        yield ""
        yield from (_collection(base, collection) for collection in by_aidre)
        yield ""
    yield "## Interfaces"
    yield ""
    yield f"- [AIDRE]({origin}/.well-known/ai-discovery): what is served, and how `POST {base}/search` is asked"
    if speaks_nlweb:
        yield f"- [NLWeb]({base}/ask): questions in natural language, answered with schema.org objects"
        yield f"- [MCP]({base}/mcp): the same as tools of the Model Context Protocol"
    if settings.intent.declared:
        yield f"- [Agentic Intent]({origin}/.well-known/aip.json): passages for partners who cite"
    if settings.intakes:
        yield f"- [Agent Intake]({origin}/.well-known/agent-intake.json): requests that are answered with offers"
    yield f"- [OpenAPI]({base}/openapi.json): every route"
    yield f"- [Catalog]({origin}/.well-known/api-catalog): the interfaces and what describes each (RFC 9727)"
    yield f"- [Search page]({base}/): for people"


def _collection(base: str, collection: VisibleCollection) -> str:
    count = collection.snapshot.documents
    about = _inline(collection.description)
    documents = f"{count:,} document{'' if count == 1 else 's'}"
    url = f"{base}/collections/{quote(collection.name)}"
    return f"- [{collection.name}]({url}): {f'{about} ' if about else ''}({documents})"


def _inline(text: str) -> str:
    """On one line, without what would begin a link."""
    return " ".join(text.split()).replace("[", "\\[").replace("]", "\\]")


@renders_errors_with(render_error)
async def show(request: Request) -> Response:
    content = text_for(request.app.state.retrieval, caller_of(request)).encode()
    return cacheable_response(request, content, "no-cache", MEDIA_TYPE)


routes = [Route("/llms.txt", show, methods=["GET"])]
