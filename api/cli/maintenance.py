"""Work of the maintenance commands: status, delete, compact, retention. Returns facts and prints nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aidre.api.cli.select import disk_bytes, has_collection, select_collections
from aidre.engine.errors import AidreError, StorageFailed, StoreDamaged

if TYPE_CHECKING:
    from pathlib import Path

    from aidre.api.config import Settings
    from aidre.engine.index.fields import Filter
    from aidre.engine.model import EmbeddingSpace, Json
    from aidre.engine.ports import Capabilities, Source

Facts = dict[str, "Json"]


def collection_statuses(
    store: Source, collection: str | None, settings: Settings, on_damaged: Callable[[AidreError], None]
) -> Iterator[Facts]:
    """The status of one collection or of all. Its warnings include damage that the scrub found, and documents that
    Agentic Intent can never serve.

    A collection that cannot be opened is passed to `on_damaged`, and the others follow.
    """
    from aidre.api.operations import read_findings
    from aidre.api.protocols.intent import explain_unservable

    scrub_problems = read_findings(settings.state_folder(store.path)).problems
    for name in select_collections(store, collection):
        try:
            snapshot = store.open(name)
        except (StoreDamaged, StorageFailed) as error:
            on_damaged(error)
            continue
        status = snapshot.status()
        scrubbed = [
            f"{problem.file} {problem.what}, as the scrub has found"
            for problem in scrub_problems
            if problem.collection == name
        ]
        warnings = [*status["warnings"], *scrubbed, *explain_unservable(settings.intent, name, snapshot)]
        folder = store.path / name
        size = disk_bytes(folder) if folder.is_dir() else status["bytes"]
        models = [_model_facts(space) for space in snapshot.collection.spaces if space.model is not None]
        here = {"lacking": lacking(snapshot.can), "models": [model for model in models if model is not None]}
        yield {**status, "disk_bytes": size, **here, **_publication_facts(store.path, name), "warnings": warnings}


def _publication_facts(store: Path, name: str) -> Facts:
    """Of the cache of a replica: when its publication was signed, None if that was not verified, and why the last pull
    could not replace it, None if it could."""
    from aidre.engine.maintenance import accepted_at, pull_problem, replicated_url

    url = replicated_url(store)
    if url is None:
        return {}
    return {"replica_of": url, "signed_at": accepted_at(store / name), "not_pulled": pull_problem(store, name)}


def _model_facts(space: EmbeddingSpace) -> Facts | None:
    """The model of a space, and its folder, None where it is not on this machine; None for one that has no folder."""
    from aidre.engine.embedding.models import find_model, known_model

    known, folder = known_model(space.model or ""), find_model(space.model or "")
    if folder is None and known is None:
        return None
    name = space.model if known is None else known.name
    return {"space": space.id, "model": name, "folder": None if folder is None else str(folder)}


def lacking(can: Capabilities) -> list[str]:
    """The capabilities that an engine declares it lacks."""
    return [name.name for name in fields(can) if not getattr(can, name.name)]


def delete(
    store: Source,
    collection: str,
    document_ids: Sequence[str],
    *,
    filter: Filter | None = None,
    allow_unknown: bool = False,
    purge: bool,
    state: Path | None = None,
) -> Facts:
    """Delete documents by their ids, of which the collection may lack some, or by a filter. The errors of
    `delete_passing`.

    `state` is the folder of receipts, by default that in the store. With `purge` everything that may repeat a deleted
    document goes as well: older generations, stored results of NLWeb
    promises, and the names of sources without documents, which may be addresses.
    """
    from aidre.api.protocols.nlweb import PROMISES_FILE, delete_results
    from aidre.ingest.pipeline import save_read_times

    with store.writer(collection, spaces=None) as writer:
        deleted = writer.delete(document_ids)
        if filter is not None:
            from aidre.ingest.pipeline import delete_passing

            deleted += delete_passing(writer, filter, allow_unknown=allow_unknown)
        writer.commit()
        if purge:
            for source in writer.source_roots():
                if next(writer.documents_of(source), None) is None:
                    writer.forget_source(source)
            save_read_times(store.path, collection, (), writer.source_roots(), time.time())
            delete_results((store.path / ".log" if state is None else state) / PROMISES_FILE)
            writer.purge()  # last, since it raises for a file that it cannot remove
        return {"deleted": deleted, "generation": None if writer.snapshot is None else writer.snapshot.generation}


def compact(store: Source, collection: str | None) -> Iterator[Facts]:
    """Compact one collection or all of them; `kept` is what older generations keep on the disk for readers."""
    from aidre.engine.maintenance import kept_for_readers

    for name in select_collections(store, collection):
        before = store.open(name).status()["segments"]
        with store.writer(name, spaces=None) as writer:
            writer.compact()
        snapshot = store.open(name)
        retained = kept_for_readers(store, name)
        yield {
            "collection": name,
            "generation": snapshot.generation,
            "documents": snapshot.documents,
            "chunks": snapshot.chunks,
            "segments": snapshot.status()["segments"],
            "segments_before": before,
            "kept": None if retained is None else {**asdict(retained), "until": _full_minute(retained.until)},
        }


def _full_minute(moment: float) -> str:
    """The first full minute after a Unix time, RFC 3339."""
    return datetime.fromtimestamp(math.ceil(moment / 60) * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def set_retention(store: Source, collection: str, generations: int | None, wait: float = 0.0) -> None:
    """Set the number of generations that a collection keeps; without a number or a collection nothing happens. Another
    writer is waited for up to `wait` seconds."""
    from aidre.engine.maintenance import keep_generations

    if generations is not None and has_collection(store, collection) and store.open(collection).can.generations:
        keep_generations(store, collection, generations, wait=wait)
