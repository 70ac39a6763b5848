"""An echo server, the lower bound for any server in Python: a fixed-length answer under uvicorn, without a framework.

python -m benchmarks.harness.echo BYTES PORT
"""

from __future__ import annotations

import sys

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send


def echo(content: bytes) -> ASGIApp:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    return app


def main(size: str, port: str) -> None:
    """Serves with the uvicorn settings of `aidre serve`."""
    uvicorn.run(
        echo(b"x" * int(size)),
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
