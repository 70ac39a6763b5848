"""What the tests of ingest share: a collection, a web site on loopback, and children of the sandboxes that stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aidre.ingest.sandbox.parent import SHARED, TABLES
from tests.support.ingests import bench
from tests.support.websites import body, site


@pytest.fixture(scope="package", autouse=True)
def children() -> Iterator[None]:
    """A run closes the sandboxes at its end; here their children stay, since starting one costs more than most tests.

    A test of the closing itself takes the attribute away again, as `ends_children` does.
    """
    with pytest.MonkeyPatch.context() as patch:
        for sandbox in (SHARED, TABLES):
            patch.setattr(sandbox, "close", lambda: None)
        yield
    SHARED.close()
    TABLES.close()


@pytest.fixture
def ends_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run closes the sandboxes at its end, as it does outside of these tests."""
    for sandbox in (SHARED, TABLES):
        monkeypatch.delattr(sandbox, "close")
