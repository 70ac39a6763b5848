"""What looks after a store that is there: what it holds, deleting, compacting. Each gives the facts to be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aidre.api.chosen import disk_bytes, named

if TYPE_CHECKING:
    from aidre.api.intent.settings import Intent
    from aidre.engine.model import Json
    from aidre.engine.store import Store

Facts = dict[str, "Json"]


def statuses(store: Store, collection: str | None, intent: Intent) -> Iterator[Facts]:
    """What each collection holds, with the documents that Agentic Intent can never serve among the warnings."""
    from aidre.api.intent.limits import warnings_of

    for name in named(store, collection):
        snapshot = store.open(name)
        record = {**snapshot.status(), "disk_bytes": disk_bytes(store.path / name)}
        record["warnings"] = [*record["warnings"], *warnings_of(intent, name, snapshot)]
        yield record


def delete(store: Store, collection: str, document_ids: Sequence[str], *, purge: bool) -> Facts:
    """Ids that are not there are passed over."""
    with store.writer(collection, spaces=store.open(collection).collection.spaces) as writer:
        deleted = writer.delete(document_ids)
        writer.commit()
        if purge:
            writer.purge()
        return {"deleted": deleted, "generation": store.current(collection)}


def compact(store: Store, collection: str | None) -> Iterator[Facts]:
    """One collection, or each of them."""
    for name in named(store, collection):
        with store.writer(name, spaces=store.open(name).collection.spaces) as writer:
            writer.compact()
        snapshot = store.open(name)
        yield {
            "collection": name,
            "generation": snapshot.generation,
            "documents": snapshot.documents,
            "chunks": snapshot.chunks,
        }
