"""An echo server, the lower bound for any ASGI server: a fixed-length answer under uvicorn, bare or with Starlette.

python -m benchmarks.echo bare|starlette BYTES PORT
"""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

JSON = "application/json"


def bare(content: bytes) -> ASGIApp:
    headers = [(b"content-type", JSON.encode()), (b"content-length", str(len(content)).encode())]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    return app


def starlette(content: bytes) -> ASGIApp:
    async def echo(request: Request) -> Response:
        await request.body()
        return Response(content, media_type=JSON)

    return Starlette(routes=[Route("/search", echo, methods=["POST"])])


def main(kind: str, size: str, port: str) -> None:
    """Serves with the uvicorn settings of `aidre serve`."""
    app = {"bare": bare, "starlette": starlette}[kind](b"x" * int(size))
    uvicorn.run(
        app,
        port=int(port),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
