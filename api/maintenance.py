"""What looks after a store that is there: what it holds, deleting, compacting. Each gives the facts to be told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from aidre.api.chosen import disk_bytes, named
from aidre.engine.errors import AidreError, StorageFailed, StoreDamaged

if TYPE_CHECKING:
    from aidre.api.intent.settings import Intent
    from aidre.engine.model import Json
    from aidre.engine.store import Store

Facts = dict[str, "Json"]


def statuses(
    store: Store, collection: str | None, intent: Intent, unusable: Callable[[AidreError], None]
) -> Iterator[Facts]:
    """What each collection holds, with the documents that Agentic Intent can never serve among the warnings; `unusable`
    is told of those that cannot be opened, and the others are gone on with."""
    from aidre.api.intent.limits import warnings_of
    from aidre.api.scrubbing import read_findings

    found = read_findings(store.path / ".log").problems
    for name in named(store, collection):
        try:
            snapshot = store.open(name)
        except (StoreDamaged, StorageFailed) as error:
            unusable(error)
            continue
        record = {**snapshot.status(), "disk_bytes": disk_bytes(store.path / name)}
        scrubbed = [f"{one.file} {one.what}, as the scrub has found" for one in found if one.collection == name]
        record["warnings"] = [*record["warnings"], *scrubbed, *warnings_of(intent, name, snapshot)]
        yield record


def delete(store: Store, collection: str, document_ids: Sequence[str], *, purge: bool) -> Facts:
    """Ids that are not there are passed over. What promises have come to may hold a document that is purged, and the
    name of a source may be its address."""
    from aidre.api.nlweb.promise_table import forget_results
    from aidre.api.nlweb.promises import FILE
    from aidre.ingest.checks import note_checks

    with store.writer(collection, spaces=store.open(collection).collection.spaces) as writer:
        deleted = writer.delete(document_ids)
        writer.commit()
        if purge:
            for source in writer.source_roots():
                if next(writer.documents_of(source), None) is None:
                    writer.forget_source(source)
            note_checks(store.path, collection, (), writer.source_roots(), time.time())
            forget_results(store.path / ".log" / FILE)
            writer.purge()  # at the end, since it says what it could not remove
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


def keep(store: Store, collection: str, generations: int | None) -> None:
    """Has so many generations of a collection be kept from now on, where the number is given and there are any."""
    from aidre.engine.history import keep_generations

    if generations is not None and store.path.is_dir() and collection in store.collections():
        keep_generations(store, collection, generations)
