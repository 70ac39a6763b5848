"""Fixtures of the client's tests. Where the client alone is installed, those that need the engine are left out.

Another Python makes and serves the stores there (`tests/support/outside.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.fault_proxy import FaultyServer, faulty
from tests.support.outside import ask_outside
from tests.support.remote import fill_docs

HAS_ENGINE = find_spec("aidre") is not None
if HAS_ENGINE:
    pass
else:
    collect_ignore = [
        "test_asynchronous_application.py",
        "test_client_changes.py",
        "test_client.py",
        "test_client_alone.py",
        "test_client_documents.py",
        "test_intent.py",
        "test_search_extras_library.py",
        "test_search_stores.py",
        "test_verification_signers.py",
    ]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose chunks all say alpha, which no test changes."""
    folder = tmp_path_factory.mktemp("store")
    if HAS_ENGINE:
        fill_docs(folder)
    else:
        ask_outside("fill", folder)
    return folder


@pytest.fixture(scope="module")
def served_store(store: Path) -> Iterator[FaultyServer]:
    with faulty(store) as (proxy, _):
        yield proxy


@pytest.fixture
def proxy(served_store: FaultyServer) -> Iterator[FaultyServer]:
    """The server of the shared store, unfailing at first."""
    served_store.plan = lambda asked: None
    served_store.asked.clear()
    yield served_store
    served_store.plan = lambda asked: None


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("key") / "keys.pem"
    if HAS_ENGINE:
        from aidre.api.protocols.provenance.keys import make_key

        make_key(path, time.time())
    else:
        ask_outside("key", path)
    return path.read_bytes()


@pytest.fixture
def key_file(key: bytes, tmp_path: Path) -> Path:
    """A key that signs."""
    path = tmp_path / "keys.pem"
    path.touch(0o600)
    path.write_bytes(key)
    return path
