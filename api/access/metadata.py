"""Protected resource metadata (RFC 9728): tells clients, MCP clients first, where to get a token.

There are two resources: the whole server, and for MCP clients the address of MCP.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.config import Settings
from aidre.api.http import NotFound, cacheable_response, render_error, renders_errors_with

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
MCP = "/mcp"


def metadata_url(settings: Settings, path: str) -> str:
    """The URL of the metadata of the resource at this path: inserted before the path of base_url (RFC 9728, 3.1)."""
    base_url = str(settings.server.base_url)
    parts = urlsplit(settings.server.origin or base_url)
    resource = urlsplit(base_url).path.rstrip("/") + (MCP if path.rstrip("/") == MCP else "")
    return f"{parts.scheme}://{parts.netloc}{RESOURCE_METADATA}{resource}"


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
async def show(request: Request) -> Response:
    settings: Settings = request.app.state.retrieval.settings
    content = metadata_document(settings, request.path_params["suffix"])
    if content is None:
        raise NotFound("there is no protected resource at this path")
    return cacheable_response(request, orjson.dumps(content), "max-age=300")


routes = [Route(RESOURCE_METADATA + "{suffix:path}", show, methods=["GET"])]
