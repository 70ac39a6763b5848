"""What the tests of the kit share: the sound server, what the kit is given of it, and servers of one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from aidre_conformance import Fixtures
from tests.support.servers import Server
from tests.wrong_servers.faults.fixtures import FIXTURES
from tests.wrong_servers.faulty_server import faulty_server, fill_store

GIVEN = Fixtures(
    key=FIXTURES.bearer,
    query=FIXTURES.query,
    collection=FIXTURES.collection,
    private_collection=FIXTURES.private_collection,
    private_chunk=FIXTURES.private_chunk,
    site=FIXTURES.site,
    promise={"prefer": {FIXTURES.promised_by: True}},
    intent_key_id=FIXTURES.intent_key_id,
    intent_secret=FIXTURES.intent_secret,
    intent_domain=FIXTURES.intent_domain,
    intake=FIXTURES.intake,
    intake_data=dict(FIXTURES.intake_data),
    bind_data=dict(FIXTURES.bind_data),
    declined_intake=FIXTURES.declined_intake,
    brief_intake=FIXTURES.brief_intake,
    brief_seconds=FIXTURES.brief_seconds,
)
Answer: TypeAlias = tuple[int, dict[str, str], bytes]
Answering: TypeAlias = Callable[[dict[str, Any], bytes], Answer]
"""Of the scope and the body of a request."""


@contextmanager
def answering(answer: Answering) -> Iterator[str]:
    """The URL of a server whose every answer is that of the function."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        status, headers, content = answer(scope, body)
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        lines.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": lines})
        await send({"type": "http.response.body", "body": content})

    server = Server(application)
    with server.run():
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def serve() -> Callable[[Answering], AbstractContextManager[str]]:
    return answering


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all these servers serve; no test writes to it."""
    return fill_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="package")
def sound(store: Path) -> Iterator[str]:
    """The URL of the server without a fault."""
    with faulty_server(store) as url:
        yield url
