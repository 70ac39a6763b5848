"""Routes that are found by a dictionary, and the others, which the router finds."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aidre.api.server.mounted import FastRoutes


async def endpoint(request: Request) -> Response:
    return PlainTextResponse(f"{request.scope['route'].path} {request.path_params}")


ROUTES = [
    Route("/search", endpoint, methods=["POST"]),
    Route("/collections", endpoint, methods=["GET"]),
    Route("/collections/{name}", endpoint, methods=["GET"]),
]


@pytest.mark.parametrize(
    ("method", "path", "status", "text", "is_fast"),
    [
        ("POST", "/search", 200, "/search {}", True),
        ("GET", "/collections", 200, "/collections {}", True),
        ("HEAD", "/collections", 200, "", True),
        ("GET", "/collections/docs", 200, "/collections/{name} {'name': 'docs'}", True),
        ("GET", "/search", 405, "Method Not Allowed", False),
        ("GET", "/nothing", 404, "Not Found", False),
        ("GET", "/collections/", 200, "/collections {}", False),
    ],
)
def test_a_path_without_parameters_does_not_go_to_the_router(
    method: str, path: str, status: int, text: str, is_fast: bool
) -> None:
    routed: list[str] = []
    router = Starlette(routes=ROUTES)

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        routed.append(scope["path"])
        await router(scope, receive, send)

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(FastRoutes(noting, ROUTES))
        async with httpx.AsyncClient(transport=transport, base_url="http://x", follow_redirects=True) as client:
            return await client.request(method, path)

    response = asyncio.run(call())
    assert (response.status_code, response.text if method != "HEAD" else "") == (status, text)
    assert routed == ([] if is_fast else [path])


def test_what_is_no_request_goes_to_the_router() -> None:
    seen: list[str] = []

    async def router(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    asyncio.run(FastRoutes(router, ROUTES)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
