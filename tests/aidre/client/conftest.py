"""What the tests of the client share: a store behind a proxy that fails as told, and clients that never really wait."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aidre
from aidre.api.protocols.provenance.keys import make_key
from aidre.client.exchange import Retry
from tests import ROOT
from tests.support.clients import a_document, fill
from tests.support.fault_proxy import FaultyServer, faulty
from tests.support.keys import cheap_bind_keys
from tests.support.servers import Served

DOCUMENTS = 130


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose chunks all say alpha, which no test changes."""
    folder = tmp_path_factory.mktemp("store")
    documents = [
        a_document(
            f"a b/{n}",
            f"alpha word {n}",
            url=f"https://x.example/{n}",
            title=f"T{n}",
            metadata={"n": n, "even": n % 2 == 0},
        )
        for n in range(DOCUMENTS)
    ]
    fill(folder, "docs", documents)
    return folder


@pytest.fixture(scope="module")
def served_store(store: Path) -> Iterator[tuple[FaultyServer, Served]]:
    with faulty(store) as both:
        yield both


@pytest.fixture
def proxy(served_store: tuple[FaultyServer, Served]) -> Iterator[FaultyServer]:
    """The server of the shared store, unfailing at first."""
    proxy, _ = served_store
    proxy.plan = lambda asked: None
    proxy.asked.clear()
    yield proxy
    proxy.plan = lambda asked: None


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    make_key(tmp_path / "keys.pem", time.time())
    return tmp_path / "keys.pem"


def blocks_of_the_page() -> list[str]:
    """The examples of docs/client.md."""
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def connected(url: str, waits: list[float] | None = None, **options: Any) -> aidre.Client:
    """A client that notes its waits instead of waiting, and whose pauses are not random."""
    client = aidre.connect(url, **options)
    client._transport._sleep = ([] if waits is None else waits).append
    retry = client._session.retry
    client._session.retry = Retry(retry.attempts, retry.patience, retry.clock, lambda: 0.5)
    return client
