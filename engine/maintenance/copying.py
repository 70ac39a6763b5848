"""Copying and renaming a collection inside a store: its files are linked under another name, where that is possible.

Files of segments are never changed once they are written, so that both collections may have one file. The copy is a
collection of its own, with a lineage and a history of changes of its own.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from aidre.engine.collection import Store, dropping, garbage
from aidre.engine.errors import CollectionMissing, Conflict, InvalidInput
from aidre.engine.storage import (
    MANIFESTS,
    Manifest,
    WriterLock,
    changelog,
    check_collection_name,
    durable,
    encode_manifest,
    manifest_name,
    manifest_numbers,
    now,
    read_manifest,
    write_current,
)


def copy_collection(store: Store, name: str, target: str, *, wait: float = 0.0, move: bool = False) -> None:
    """Make the newest generation of a collection one of another name; with `move` its aliases move, and it is dropped.

    An interruption leaves the collection as it was. InvalidInput for the name, CollectionMissing, Conflict where there
    is a collection `target`, StoreLocked, StorageFailed, Unsupported for a replica.
    """
    store.check_writable()
    name, aliases = store.named(name), store.aliases()
    if target in aliases:
        raise Conflict(f"{target!r} is an alias of {aliases[target].collection!r}: remove it, or choose another name")
    if check_collection_name(target) == name:
        raise InvalidInput(f"the collection is called {name!r} already: choose another name")
    folder, place = store.path / name, store.path / target
    store.current(name)
    durable.make_folder(place)
    with WriterLock(folder, name, wait), WriterLock(place, target, wait), durable.write_errors(place):
        newest = read_manifest(folder / MANIFESTS, store.current(name), name)
        if newest.dropped:
            raise CollectionMissing(f"there is no collection {name!r} in this store: it was dropped", collection=name)
        generation = _next_generation(place, target)
        _link_files(folder, place, newest)
        copied = replace(
            newest, name=target, generation=generation, parent=0, lineage=secrets.token_hex(16), created_at=now()
        )
        copied = changelog.restart_history(copied, generation)
        durable.make_folder(place / MANIFESTS)
        durable.replace_file(place / MANIFESTS / manifest_name(generation), encode_manifest(copied))
        write_current(place, generation)
        if move:
            for alias, meant in aliases.items():
                if meant.collection == name:
                    store.point_alias(alias, target)
            dropping.publish_last(folder, newest)


def _next_generation(place: Path, target: str) -> int:
    """The number after those of a collection of that name that was dropped. Conflict where there is one."""
    numbers = manifest_numbers(place)
    if numbers and not read_manifest(place / MANIFESTS, numbers[-1], target).dropped:
        raise Conflict(f"there is a collection {target!r} in this store: drop it, or choose another name")
    return max(numbers, default=0) + 1


def _link_files(folder: Path, place: Path, manifest: Manifest) -> None:
    """Durable on return."""
    folders = {place}
    for named in garbage.named_paths(folder, manifest):
        source = Path(named)
        copied = place / source.relative_to(folder)
        if not source.is_file():
            continue
        durable.make_folder(copied.parent)
        folders.update([copied.parent, copied.parent.parent])
        with suppress(FileNotFoundError):
            copied.unlink()
        try:
            os.link(source, copied)
        except OSError:  # a file system without links
            shutil.copyfile(source, copied)
            durable.sync_file(copied)
    for changed in sorted(folders, reverse=True):
        durable.sync_folder(changed)
