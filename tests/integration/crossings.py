"""How many files a request crosses, and how often it comes back: what a colleague has to hold in mind who follows it.

The calls of product code (`engine`, `ingest`, `api`, `aidre`) in the thread of the event loop are written down by
`sys.setprofile`, from the first byte of one request until its answer, over a real connection. A frame counts once: when
a coroutine or a generator is resumed, nobody calls it; comprehensions count where they are frames (Python 3.11). Bodies
of modules are left out. The files of these calls, one after the other without repetitions, are the way; A-B-A in it is
a return. A request is one of a server that has answered others: a search for words that nobody searched for before,
whose vector and spelling no cache knows, and an ask that was asked before. Of several the shortest way counts.

`python -m tests.integration.crossings` prints the ways.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final

import pytest

from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.api.server.connection import Connection
from aidre.engine import open_source
from aidre.engine.embedding import embedder as embedding
from aidre.engine.model import Json
from tests import ROOT
from tests.integration.doors import load_plain
from tests.integration.questions import MODEL, documents
from tests.support import clients
from tests.support.clocks import WAIT_SECONDS
from tests.support.servers import Server

PRODUCT: Final = tuple(f"{ROOT / folder}{os.sep}" for folder in ("engine", "ingest", "api", "aidre"))
WARMING: Final = ("brew cup saucer", "oolong infusion jasmine", "porcelain strainer")
NEW: Final = ("kettle leaf steep", "bitter aroma pour", "ripe rind cellar")
"""Texts without a typing error, of words of the documents."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The way of one request: the file of each call, relative to the root, without repetitions side by side."""

    way: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """In the order in which the request reaches them."""
        return list(dict.fromkeys(self.way))

    @property
    def changes(self) -> int:
        return max(len(self.way) - 1, 0)

    @property
    def returns(self) -> int:
        return sum(before == after for before, after in zip(self.way, self.way[2:], strict=False))


def crossing_of(files: Sequence[str]) -> Crossing:
    """The way through the files of calls."""
    return Crossing(tuple(file for file, _ in groupby(files)))


class Calls:
    """A profile function that writes down the file of each call of product code."""

    def __init__(self, folders: Sequence[str] = PRODUCT) -> None:
        self.files: list[str] = []
        self._folders = tuple(folders)
        self._places: dict[str, str | None] = {}
        self._seen: dict[int, FrameType] = {}
        """Kept alive, so that no other frame gets the same id."""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        place = self._place(frame.f_code.co_filename)
        if place is not None and id(frame) not in self._seen:
            self._seen[id(frame)] = frame
            self.files.append(place)

    def _place(self, name: str) -> str | None:
        if name not in self._places:
            path = os.path.realpath(name)  # the rooms are reached through links
            self._places[name] = os.path.relpath(path, ROOT) if path.startswith(self._folders) else None
        return self._places[name]


REQUESTS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "POST /search": ("/search", NEW),
    "POST /ask": ("/ask", WARMING * 4),
}
"""What is measured: the path that is asked, and the texts."""


def crossings() -> dict[str, Crossing]:
    """The way of each of the requests, over a store of documents of one chunk and a server without a configuration."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setitem(embedding.RUNTIMES, "auto", load_plain)
        patched.setattr("aidre.api.retrieval.snapshots.POLL_SECONDS", 3_600.0)  # else it may look in between
        store = Path(folder)
        space = embedding.load_embedder(MODEL).space
        known = [
            clients.a_document(one.id, texts[0], title=one.title, url=one.url, type=one.type)
            for one, texts in documents()
        ]
        clients.fill(store, "docs", known, (space,))
        return {name: _crossing(store, *request) for name, request in REQUESTS.items()}


def _crossing(store: Path, path: str, texts: Sequence[str]) -> Crossing:
    server = Server(create_app(open_source(store), parse_settings("")), Connection)
    with server.run(), closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_SECONDS)) as client:
        for text in WARMING:
            _post(client, path, text)
        ways = []
        for text in texts:
            with _profiled(server) as calls:
                _post(client, path, text)
            ways.append(crossing_of(calls.files))
    return min(ways, key=lambda one: (len(one.files), one.returns, one.changes))


def _post(client: http.client.HTTPConnection, path: str, text: str) -> None:
    """Headers and body in one segment, as most clients send a short request."""
    body: Json = {"query": text} if path == "/search" else {"query": {"text": text}}
    client.request("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
    response = client.getresponse()
    content = response.read()
    assert response.status == 200, content


@contextmanager
def _profiled(server: Server) -> Iterator[Calls]:
    """The calls in the thread of the event loop."""
    calls = Calls()

    async def set_profile(profile: Calls | None) -> None:
        sys.setprofile(profile)

    asyncio.run_coroutine_threadsafe(set_profile(calls), server.loop).result(WAIT_SECONDS)
    try:
        yield calls
    finally:
        asyncio.run_coroutine_threadsafe(set_profile(None), server.loop).result(WAIT_SECONDS)


def main() -> int:
    """Prints the numbers of each request, and its files in the order in which it reaches them."""
    for name, one in crossings().items():
        counts = f"{len(one.files)} files, {one.changes} changes of file, {one.returns} returns"
        sys.stdout.write(f"{name}: {counts}\n" + "".join(f"  {file}\n" for file in one.files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
