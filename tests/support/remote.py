"""What the tests of the client share, also where the client alone is installed: a store behind a proxy that fails as
told, and clients that never really wait.

Imports nothing of aidre at module level: `tests/support/outside.py` makes and serves stores there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aidre_client
from aidre_client.exchange import Retry
from aidre_client.session import AIDRE_JSON
from tests import ROOT
from tests.support.fault_proxy import RESET_AFTER, RESET_BEFORE, Asked, Fault, FaultyServer, answering, faulty, refusal

if TYPE_CHECKING:
    from tests.support.servers import Served

DOCUMENTS = 130
"""Of the collection docs of `fill_docs`."""
SPACE = "aidre:hashing:64:cosine:v1"
"""Its embedding space."""
ALL = {f"a b/{n}#chunk_1" for n in range(DOCUMENTS)}
CONFLICT = answering(409, b'{"error":"conflict","message":"the cursor has ended"}', AIDRE_JSON)
FAULTS = (
    refusal(429, Retry_After="7"),
    RESET_BEFORE,
    refusal(503, Retry_After="11"),
    RESET_AFTER,
    Fault(cut=300),
)
INTAKES = """
[[intakes]]
id = "find"
collection = "docs"
bind_requires = ["email"]
[[intakes]]
id = "look"
collection = "docs"
[[intakes]]
id = "strict"
collection = "docs"
min_score = 1.0
[intake]
bind_key = "a bind key that the tests know"
"""


def fill_docs(folder: Path) -> None:
    """A collection whose chunks all say alpha."""
    from tests.support.clients import a_document, fill

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


def blocks_of_the_page() -> list[str]:
    """The examples of docs/client.md."""
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def connected(url: str, waits: list[float] | None = None, **options: Any) -> aidre_client.Client:
    """A client that notes its waits instead of waiting, and whose pauses are not random."""
    client = aidre_client.connect(url, **options)
    client._transport._sleep = ([] if waits is None else waits).append
    retry = client._session.retry
    client._session.retry = Retry(retry.attempts, retry.patience, retry.clock, lambda: 0.5)
    return client


def awaited(
    url: str, work: Callable[[aidre_client.AsyncClient], Awaitable[Any]], waits: list[float] | None = None
) -> Any:
    """What comes of some work with an asynchronous client that notes its waits."""
    noted: list[float] = [] if waits is None else waits

    async def note(seconds: float) -> None:
        noted.append(seconds)

    async def main() -> Any:
        async with aidre_client.connect_async(url) as client:
            client._transport._sleep = note
            return await work(client)

    return asyncio.run(main())


@contextmanager
def signing(store: Path, key: Path, *lines: str) -> Iterator[tuple[FaultyServer, Served]]:
    """A server that signs."""
    more = "\n".join(lines)
    with faulty(store, f'[provenance]\nkey = "{key}"\n{more}\n') as both:
        yield both


class Conflicts:
    """A plan that ends the cursor of the first requests with one, after a commit of its own."""

    def __init__(self, times: int) -> None:
        self.left = times

    def commit(self) -> None: ...

    def __call__(self, asked: Asked) -> Fault | None:
        if not self.left or b'"cursor"' not in asked.body:
            return None
        self.left -= 1
        self.commit()
        return CONFLICT
