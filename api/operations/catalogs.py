"""Where the documents of this server are, for programs that know its address alone.

The Link header of the page, /.well-known/api-catalog (RFC 9727, a linkset of RFC 9264), and the server card of MCP
(SEP-2127): below its endpoint, where the AI catalog of the website says that it is, and where cards were before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import MCP, RESOURCE_METADATA, caller_of
from aidre.api.config import Settings
from aidre.api.http import JSON, NotFound, cacheable_response, render_error, renders_errors_with
from aidre.api.operations.llms_text import MEDIA_TYPE as LLMS_TEXT

API_CATALOG = "/.well-known/api-catalog"
SERVER_CARD, EARLIER_CARD = "/mcp/server-card", "/.well-known/mcp/server-card.json"
CARD_TYPE = "application/mcp-server-card+json"
AI_CATALOG, AI_CATALOG_TYPE = "/.well-known/ai-catalog.json", "application/ai-catalog+json"
LINKSET = "application/linkset+json"
PROFILE = "https://www.rfc-editor.org/info/rfc9727"
CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
MCP_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
OPENSEARCH, OPENSEARCH_TYPE = "/opensearch.xml", "application/opensearchdescription+xml"
CATALOG, JSON_LD = "/catalog.jsonld", "application/ld+json"
SITEMAP, XML = "/sitemap.xml", "application/xml"
MAX_DESCRIPTION_CHARS = 100
"""Longest description of a server card, by its schema."""


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """A document and its relation to the server (RFC 8288, 8631)."""

    relation: str
    url: str
    media_type: str


def origin_of(settings: Settings) -> str:
    """The root of the website, below which well-known documents are."""
    return (settings.server.origin or str(settings.server.base_url)).rstrip("/")


def targets(settings: Settings) -> Iterator[LinkTarget]:
    base, origin = settings.server.base_url, origin_of(settings)
    yield LinkTarget("service-meta", f"{origin}/.well-known/ai-discovery", JSON)
    yield LinkTarget("service-desc", f"{base}/openapi.json", JSON)
    yield LinkTarget("service-doc", f"{base}/docs", "text/html")
    yield LinkTarget("describedby", f"{base}/llms.txt", LLMS_TEXT.partition(";")[0])
    yield LinkTarget("describedby", f"{base}{CATALOG}", JSON_LD)
    yield LinkTarget("api-catalog", f"{origin}{API_CATALOG}", LINKSET)
    yield LinkTarget("search", f"{base}{OPENSEARCH}", OPENSEARCH_TYPE)
    yield LinkTarget("sitemap", f"{base}{SITEMAP}", XML)


def link_header(settings: Settings) -> str:
    """The value of the header field Link (RFC 8288)."""
    return ", ".join(
        f'<{target.url}>; rel="{target.relation}"; type="{target.media_type}"' for target in targets(settings)
    )


# -- the catalog of interfaces ---------------------------------------------------------------------------------------


@renders_errors_with(render_error)
async def show_api_catalog(request: Request) -> Response:
    state = request.app.state.retrieval
    speaks_nlweb = bool(state.collections.names(caller_of(request), "nlweb"))
    content = orjson.dumps({"linkset": list(_contexts(state.settings, speaks_nlweb=speaks_nlweb))})
    response = cacheable_response(request, content, "no-cache", f'{LINKSET}; profile="{PROFILE}"')
    response.headers["Link"] = f'<{origin_of(state.settings)}{API_CATALOG}>; rel="api-catalog"; type="{LINKSET}"'
    return response


def _contexts(settings: Settings, *, speaks_nlweb: bool) -> Iterator[dict[str, Any]]:
    """The catalog with its interfaces as items, and then each of them with what describes it."""
    base, origin = settings.server.base_url, origin_of(settings)
    meta = {"AIDRE": (f"{base}/search", f"{origin}/.well-known/ai-discovery")}
    if speaks_nlweb:
        meta["NLWeb"] = (f"{base}/ask", f"{base}/ask")
        meta["Model Context Protocol"] = (f"{base}/mcp", f"{base}{SERVER_CARD}")
    if settings.intent.declared:
        meta["Agentic Intent"] = (f"{base}/aip/retrieve", f"{origin}/.well-known/aip.json")
    if settings.intakes:
        meta["Agent Intake"] = (f"{base}/intakes", f"{origin}/.well-known/agent-intake.json")
    items = [{"href": url, "title": title} for title, (url, _) in meta.items()]
    yield {"anchor": f"{origin}{API_CATALOG}", "item": items}
    described: dict[str, list[dict[str, str]]] = {}
    for target in targets(settings):
        if target.relation.startswith("service-") and target.relation != "service-meta":
            described.setdefault(target.relation, []).append({"href": target.url, "type": target.media_type})
    for url, about in meta.values():
        kind = CARD_TYPE if about.endswith(SERVER_CARD) else JSON
        yield {"anchor": url, **described, "service-meta": [{"href": about, "type": kind}]}


# -- the server card of MCP ------------------------------------------------------------------------------------------


@renders_errors_with(render_error)
async def show_server_card(request: Request) -> Response:
    state = request.app.state.retrieval
    if not state.collections.names(caller_of(request), "nlweb"):
        raise NotFound("no collection is served over MCP")
    kind = CARD_TYPE if request.url.path.endswith(SERVER_CARD) else JSON
    return cacheable_response(request, orjson.dumps(server_card(state.settings)), "no-cache", kind)


@renders_errors_with(render_error)
async def show_ai_catalog(request: Request) -> Response:
    state = request.app.state.retrieval
    listed = [_catalog_entry(state.settings)] if state.collections.names(caller_of(request), "nlweb") else []
    content = orjson.dumps({"specVersion": "1.0", "entries": listed})
    return cacheable_response(request, content, "no-cache", AI_CATALOG_TYPE)


def _catalog_entry(settings: Settings) -> dict[str, str]:
    host = urlsplit(origin_of(settings)).hostname or "localhost"
    url = f"{settings.server.base_url}{SERVER_CARD}"
    return {"identifier": f"urn:air:{host}:mcp:aidre", "type": CARD_TYPE, "url": url}


def server_card(settings: Settings) -> dict[str, Any]:
    base, organization = str(settings.server.base_url), settings.server.organization
    host = urlsplit(base).hostname or "localhost"
    is_name = not host.replace(".", "").isdigit() and ":" not in host
    namespace = ".".join(reversed(host.split("."))) if is_name else "localhost"
    about = f"Searches what {organization or 'this server'} publishes, with sources to cite"
    return {
        "$schema": CARD_SCHEMA,
        "name": f"{namespace}/aidre",
        "version": version("aidre"),
        "description": about if len(about) <= MAX_DESCRIPTION_CHARS else "Searches documents, with sources to cite",
        **({"title": organization} if organization else {}),
        "websiteUrl": f"{base}/",
        "remotes": [{"type": "streamable-http", "url": f"{base}/mcp", "supportedProtocolVersions": list(MCP_VERSIONS)}],
    }


# -- protected resource metadata (RFC 9728): where clients get a token, those of MCP first ----------------------------


def metadata_document(settings: Settings, suffix: str) -> dict[str, Any] | None:
    """The metadata of the resource whose path follows the well-known path as `suffix`; None if there is none."""
    base_url = str(settings.server.base_url)
    prefix = urlsplit(base_url).path.rstrip("/")
    if suffix not in {"", MCP, prefix, prefix + MCP}:
        return None
    organization = settings.server.organization
    return {
        "resource": base_url + (MCP if suffix.endswith(MCP) else ""),
        **({"resource_name": organization} if organization is not None else {}),
        **({"authorization_servers": [settings.oauth.issuer]} if settings.oauth is not None else {}),
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["search", "vectors", *(["write"] if settings.server.writes else [])],
        "resource_documentation": f"{base_url}/openapi.json",
    }


@renders_errors_with(render_error)
async def show_resource_metadata(request: Request) -> Response:
    settings: Settings = request.app.state.retrieval.settings
    content = metadata_document(settings, request.path_params["suffix"])
    if content is None:
        raise NotFound("there is no protected resource at this path")
    return cacheable_response(request, orjson.dumps(content), "max-age=300")


routes = [
    Route(RESOURCE_METADATA + "{suffix:path}", show_resource_metadata, methods=["GET"]),
    Route(API_CATALOG, show_api_catalog, methods=["GET"]),
    Route(SERVER_CARD, show_server_card, methods=["GET"]),
    Route(EARLIER_CARD, show_server_card, methods=["GET"]),
    Route(AI_CATALOG, show_ai_catalog, methods=["GET"]),
]
