"""A server over a store of every kind of collection, which no test changes, and a store for those that change it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients import PLAIN, TEXT, Client, a_document, fill, serving
from tests.support.discovery import CONFIGURATION, documents


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("store")
    fill(store, "docs", documents(), (TEXT, *PLAIN))
    fill(store, "textless", [a_document("quiet", "alpha quiet")], (TEXT, *PLAIN))
    fill(store, "vectors", [a_document(f"v{n}", f"vector {n}") for n in range(5)], PLAIN)
    fill(store, "hidden", [a_document("secret", "alpha secret")], (TEXT,), visibility="private")
    fill(store, "shut", [a_document("shut", "alpha shut")])
    fill(store, "elsewhere", [a_document("elsewhere", "alpha elsewhere")])
    return store


@pytest.fixture(scope="session")
def client(shared_store: Path) -> Iterator[Client]:
    """A server over a store that no test changes."""
    with serving(shared_store, CONFIGURATION) as shared:
        yield shared


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of its own for a test that changes it: twelve documents in `docs`."""
    fill(tmp_path, "docs", [a_document(f"doc_{n}", f"alpha word{n}") for n in range(12)])
    return tmp_path
