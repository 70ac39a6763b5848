"""What the tests of connections share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server.timed_server import TimedServer, timed
from tests.support.clients import TEXT, a_document, fill


@pytest.fixture(scope="module")
def server() -> Iterator[TimedServer]:
    """A small application in a time that tests move."""
    with timed() as server:
        yield server


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One document, for whoever changes nothing."""
    path = tmp_path_factory.mktemp("served") / "store"
    fill(path, "docs", [a_document("a", "alpha")], (TEXT,))
    return path
