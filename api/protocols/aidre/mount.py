"""AIDRE in the application. Its error envelope is the server's default, so it needs no renderer of its own."""

from __future__ import annotations

from pathlib import Path

from aidre.api.config import Settings
from aidre.api.protocols.aidre import browsing, changes, documents, reading, search, suggestions
from aidre.api.server import Mounted
from aidre.api.writing import DocumentWrites, IdempotencyKeys


def mount(store: Path, settings: Settings, state: Path) -> Mounted:
    """`state` is the folder of what is kept beside the collections."""
    routes = [*search.routes, *changes.routes, *suggestions.routes, *browsing.routes, *reading.routes]
    if not settings.server.writes:
        return Mounted(routes=routes)
    writes, keys = DocumentWrites(store, settings), IdempotencyKeys(state)

    async def close() -> None:
        await writes.close()
        keys.close()

    return Mounted(
        routes=[*routes, *documents.routes],
        state={"document_writes": writes, "idempotency_keys": keys},
        close=close,
    )
