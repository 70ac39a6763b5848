"""What the tests of engines share: an empty store of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aidre.engine.ports import Source
from tests.support.engines import WRITABLE, store_of


@pytest.fixture(params=WRITABLE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    """An empty store of every engine that takes documents."""
    with store_of(request.param, tmp_path) as source:
        yield source
