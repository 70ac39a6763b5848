"""How many files a request or an ingest crosses, and how often it comes back: what a colleague has to hold in mind who
follows it.

The calls of product code (`engine`, `ingest`, `api`, `aidre`) in the thread of the event loop are written down by
`sys.setprofile`, from the first byte of one request until its answer, over a real connection. A frame counts once: when
a coroutine or a generator is resumed, nobody calls it; comprehensions count where they are frames (Python 3.11). Bodies
of modules are left out. The files of these calls, one after the other without repetitions, are the way; A-B-A in it is
a return. A request is one of a server that has answered others: a search for words that nobody searched for before,
whose vector and spelling no cache knows, and an ask that was asked before. Of several the shortest way counts.

An ingest is `aidre ingest` of three Markdown files into a new collection, until the command ends, in a process that has
done the same before. It works in several threads: each has a way of its own, and their returns are added up. What one
hands to another through a queue is not a call. A search by the library is one of an open collection that has answered
others.

`python -m tests.integration.crossings` prints the ways, and the pairs of files between which most returns are.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final

import pytest

import aidre
from aidre.api.app import create_app
from aidre.api.cli.main import run
from aidre.api.config.settings import parse_settings
from aidre.api.server.connection import ServerConnection
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

LIBRARY: Final = "search by the library"
INGEST: Final = "aidre ingest"
INGESTS: Final = 3
"""How often it is measured, each time into a store of its own, after one that is not."""
BOUNCES: Final = 12
"""Pairs of files that are printed."""

PAGES: Final[Mapping[str, str]] = {
    "index.md": """---
title: Tea
date: 2026-03-01
tags: [tea, kettle]
---
# Tea

A kettle boils the water, and a pot keeps the tea warm. See [brewing](brewing.md).

## Leaves

Green leaves are steeped for two minutes, black ones for four.

- oolong
- jasmine
""",
    "brewing.md": """# Brewing

Pour the water over the leaves, and wait.

## Times

| leaf | minutes |
|---|---|
| green | 2 |
| black | 4 |

```
steep --minutes 4
```
""",
    "storing.md": """# Storing

Keep tea in a tin, away from light and from anything that smells.

## Cellar

A cellar is too damp for tea, and just right for cheese.
""",
}
"""The files that are ingested."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The ways of the threads of one request: the file of each call, relative to the root, without repetitions side by
    side."""

    ways: tuple[tuple[str, ...], ...]

    @property
    def files(self) -> list[str]:
        """In the order in which the request reaches them, one thread after the other."""
        return list(dict.fromkeys(file for way in self.ways for file in way))

    @property
    def changes(self) -> int:
        return sum(len(way) - 1 for way in self.ways)

    @property
    def returns(self) -> int:
        return self.bounces.total()

    @property
    def bounces(self) -> Counter[tuple[str, str]]:
        """The returns by the file that is returned to and the one between."""
        triples = (triple for way in self.ways for triple in zip(way, way[1:], way[2:], strict=False))
        return Counter((before, between) for before, between, after in triples if before == after)


def crossing_of(*threads: Sequence[str]) -> Crossing:
    """The ways through the files of the calls of some threads; one without calls has none."""
    return Crossing(tuple(tuple(file for file, _ in groupby(files)) for files in threads if files))


class Calls:
    """A profile function that writes down the file of each call of product code in one thread."""

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
    """The ways of each of the requests, over a store of documents of one chunk and a server without a configuration,
    and of an ingest."""
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
        found = {name: _crossing(store, *request) for name, request in REQUESTS.items()}
        found[LIBRARY] = _library_search(store)
        return found | {INGEST: _shortest([_ingest(Path(folder) / f"{number}") for number in range(1 + INGESTS)][1:])}


def _crossing(store: Path, path: str, texts: Sequence[str]) -> Crossing:
    server = Server(create_app(open_source(store), parse_settings("")), ServerConnection)
    with server.run(), closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_SECONDS)) as client:
        for text in WARMING:
            _post(client, path, text)
        ways = []
        for text in texts:
            with _profiled(server) as calls:
                _post(client, path, text)
            ways.append(crossing_of(calls.files))
    return _shortest(ways)


def _library_search(store: Path) -> Crossing:
    ways = []
    with aidre.open(store) as db:
        docs = db.collection("docs")
        for text in (*WARMING, *NEW):
            with _profiled_threads() as threads:
                hits = docs.search(text)
            assert hits
            ways.append(crossing_of(*(calls.files for calls in threads)))
    return _shortest(ways[len(WARMING) :])


def _shortest(ways: Sequence[Crossing]) -> Crossing:
    return min(ways, key=lambda one: (len(one.files), one.returns, one.changes))


def _ingest(folder: Path) -> Crossing:
    """`aidre ingest` of the pages into a new collection, in this thread and those that it starts."""
    for name, text in PAGES.items():
        page = folder / "docs" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
    command = ["ingest", str(folder / "docs"), "--store", str(folder / "store"), "--collection", "docs"]
    with redirect_stdout(io.StringIO()), _profiled_threads() as threads:
        status = run(command)
    assert status == 0
    return crossing_of(*(calls.files for calls in threads))


@contextmanager
def _profiled_threads() -> Iterator[list[Calls]]:
    """The calls in this thread, and in each one that is started meanwhile."""
    found = [Calls()]

    def begin(frame: FrameType, event: str, argument: Any) -> None:
        """The first call of a new thread: from then on it has a profile function of its own."""
        found.append(Calls())
        sys.setprofile(found[-1])
        found[-1](frame, event, argument)

    threading.setprofile(begin)
    sys.setprofile(found[0])
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


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
    """Prints the numbers of each request, its files in the order in which it reaches them, and the most frequent
    bounces."""
    for name, one in crossings().items():
        counts = f"{len(one.files)} files, {one.changes} changes of file, {one.returns} returns"
        lines = [f"  {file}\n" for file in one.files]
        lines += [
            f"  {count:3} from {before} to {between} and back\n"
            for (before, between), count in one.bounces.most_common(BOUNCES)
        ]
        sys.stdout.write(f"{name}: {counts}\n" + "".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
