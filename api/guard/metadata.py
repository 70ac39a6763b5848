"""Where a caller can get a token: the metadata of a protected resource (RFC 9728), as MCP clients look for them.

There are two resources: all that is served, and for clients that speak MCP alone that one address.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.envelope import refuse
from aidre.api.refusals import NotFound
from aidre.api.settings import Settings
from aidre.api.wire import JSON, digest, not_modified, speaks

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MCP = "/mcp"


def address(settings: Settings, path: str) -> str:
    """Where the metadata of the resource stand that has this path: before the path of base_url (RFC 9728, 3.1)."""
    base_url = str(settings.server.base_url)
    parts = urlsplit(settings.server.origin or base_url)
    resource = urlsplit(base_url).path.rstrip("/") + (MCP if path == MCP else "")
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{resource}"


def document(settings: Settings, behind: str) -> dict[str, Any] | None:
    """The metadata of the resource whose path stands `behind` the well-known one; None where there is none."""
    base_url = str(settings.server.base_url)
    prefix = urlsplit(base_url).path.rstrip("/")
    if behind not in {"", MCP, prefix, prefix + MCP}:
        return None
    organization = settings.server.organization
    return {
        "resource": base_url + (MCP if behind.endswith(MCP) else ""),
        **({"resource_name": organization} if organization is not None else {}),
        **({"authorization_servers": [settings.oauth.issuer]} if settings.oauth is not None else {}),
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["search", "vectors"],
        "resource_documentation": f"{base_url}/openapi.json",
    }


@speaks(refuse)
async def show(request: Request) -> Response:
    settings: Settings = request.app.state.retrieval.settings
    described = document(settings, request.path_params["behind"])
    if described is None:
        raise NotFound("there is no protected resource at this path")
    body = orjson.dumps(described)
    etag = f'"{digest(body)}"'
    headers = {"ETag": etag, "Cache-Control": "max-age=300"}
    if not_modified(request, etag, None):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)


routes = [Route(WELL_KNOWN + "{behind:path}", show, methods=["GET"])]
