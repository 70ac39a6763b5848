"""Dropping a collection: a last generation without segments says so, and then the files of the others are removed.

What stays is the manifest of that generation and CURRENT, about a kilobyte: by them a server knows the cursors and
feeds of the collection that was, and a writer goes on counting where the dropped collection ended, in a lineage of its
own. A drop that was interrupted is finished by the next writer of the name, or by dropping it again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from aidre.engine.collection import garbage
from aidre.engine.errors import AidreError, CollectionDropped, StorageFailed, StoreLocked
from aidre.engine.storage import (
    CURRENT,
    MANIFESTS,
    Manifest,
    WriterLock,
    changelog,
    durable,
    encode_manifest,
    manifest_name,
    manifest_numbers,
    now,
    upkeep,
    write_current,
)

KEEP_SECONDS = changelog.KEEP_SECONDS
"""How long the last generation of a dropped collection is kept: so long a client of its feed may come back."""


def publish_last(folder: Path, newest: Manifest) -> None:
    """Make the collection a dropped one, durable on return, and remove its files. Requires the writer's lock.
    StorageFailed."""
    generation = max([newest.generation, *manifest_numbers(folder)]) + 1
    last = replace(
        newest,
        generation=generation,
        parent=newest.generation,
        created_at=now(),
        updated_at=now(),
        description="",
        segments=(),
        dates=(),
        deletes={},
        source_roots={},
        source_states={},
        dropped=True,
    )
    last = changelog.restart_history(last, generation)
    durable.replace_file(folder / MANIFESTS / manifest_name(generation), encode_manifest(last))
    write_current(folder, generation)
    with upkeep(folder, "the files of the dropped collection were not removed"):
        garbage.purge(folder, last)


def forget(folder: Path) -> None:
    """Remove a collection with its folder. Requires the writer's lock. StorageFailed."""
    removed = folder.with_name(f"{garbage.DROPPED_PREFIX}{folder.name}.{secrets.token_hex(4)}.tmp")
    folder.rename(removed)
    durable.sync_folder(folder.parent)
    durable.remove(removed)


def forget_old(folders: Iterator[Path]) -> None:
    """Remove what dropped collections left where nobody can come back any more. What cannot be removed stays."""
    limit = time.time() - KEEP_SECONDS
    for folder in folders:
        with suppress(OSError, StorageFailed, StoreLocked):
            if (folder / CURRENT).stat().st_mtime < limit:
                with WriterLock(folder, folder.name):
                    forget(folder)


def dropped_error(manifest: Manifest) -> AidreError:
    return CollectionDropped(
        f"there is no collection {manifest.name!r} in this store: it was dropped",
        collection=manifest.name,
        generation=manifest.generation,
        lineage=manifest.lineage,
        visibility=manifest.visibility,
    )
