"""What the tests of connections share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.timed_server import TimedServer, timed


@pytest.fixture(scope="module")
def server() -> Iterator[TimedServer]:
    with timed() as server:
        yield server
