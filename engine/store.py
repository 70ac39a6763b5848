"""Store: a folder that holds all collections. Opens generations for readers, hands out the one writer."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

from aidre.engine import durable
from aidre.engine.errors import (
    CollectionMissing,
    GenerationMissing,
    Missing,
    SpaceConflict,
    StorageFailed,
    StoreDamaged,
)
from aidre.engine.lock import WriterLock
from aidre.engine.manifest import Manifest, SpaceState, read_manifest, settled
from aidre.engine.model import EmbeddingSpace, Visibility
from aidre.engine.schema import CURRENT, MANIFESTS, check_collection_name, is_collection_name
from aidre.engine.snapshot import Snapshot
from aidre.engine.writer import Writer

_ATTEMPTS = 5
_NUMBER = re.compile(rb"[0-9]{6,18}\n?")
_DECLARED = ("dimensions", "distance", "normalized", "model", "revision", "precision")
_OF_THE_MODEL = ("model", "revision", "precision")


class Store:
    """A folder on disk. Making the object touches nothing; readers never lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def require(self) -> None:
        """Raise Missing with the cure where the folder does not exist."""
        if not self.path.is_dir():
            raise Missing(f"there is no store at {self.path}: make one with 'aidre ingest'", store=str(self.path))

    def collections(self) -> list[str]:
        """Names of the collections that have a generation, sorted."""
        self.require()
        with durable.reading_errors(self.path):
            return sorted(
                path.name
                for path in self.path.iterdir()
                if path.is_dir() and not path.name.startswith(".") and (path / CURRENT).exists()
            )

    def nameless(self) -> dict[str, int]:
        """Collections that lost CURRENT, with their newest generation; the next writer names it again."""
        self.require()
        lost = {
            path.name: newest
            for path in self.path.iterdir()
            if not path.name.startswith(".") and not (path / CURRENT).exists() and (newest := _newest(path))
        }
        return dict(sorted(lost.items()))

    def current(self, collection: str) -> int:
        """The number of the newest generation. CollectionMissing, StoreDamaged."""
        path = self._folder(collection) / CURRENT
        try:
            with durable.reading_errors(path):
                content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(collection) from None
        if not _NUMBER.fullmatch(content):
            raise _damaged(collection, "does not hold a generation number")
        return int(content)

    def open(self, collection: str, *, previous: Snapshot | None = None, generation: int | None = None) -> Snapshot:
        """Open a generation, the newest by default, using again what `previous` has open.

        CollectionMissing, GenerationMissing, StoreDamaged, FormatTooNew. A generation that is swept while it
        is being opened is not an error: the newest one is tried again.
        """
        folder = self._folder(collection)
        for _ in range(_ATTEMPTS):
            newest = self.current(collection)
            try:
                return Snapshot(folder, self._manifest(collection, generation), previous)
            except (StoreDamaged, GenerationMissing):
                if generation is not None or self.current(collection) == newest:
                    raise
        raise StorageFailed(f"collection {collection!r} changes faster than it can be opened", collection=collection)

    def writer(
        self,
        collection: str,
        *,
        spaces: Sequence[EmbeddingSpace] | None,
        description: str | None = None,
        visibility: Visibility | None = None,
        dates: Collection[str] = (),
        runtimes: dict[str, str] | None = None,
    ) -> Writer:
        """The writer of a collection, which holds its lock until it is closed. StoreLocked, SpaceConflict.

        `spaces` are those of a new collection; those of an existing one must agree, one that is being filled left
        out. None takes what is stored; CollectionMissing where nothing is. `runtimes` records what computes the
        vectors of a space ("onnxruntime int8").
        """
        folder = self._folder(check_collection_name(collection))
        if self.path.exists() and not self.path.is_dir():
            raise Missing(f"{self.path} is a file: name a folder for the store", store=str(self.path))
        durable.make_folder(folder)
        lock = WriterLock(folder, collection).__enter__()
        try:
            with durable.storage_errors(folder):
                exists = (folder / CURRENT).exists()
                manifest = self._manifest(collection, None) if exists else self._named_again(collection)
                if spaces is None:
                    if manifest is None:
                        raise _missing(collection)
                    spaces = manifest.collection.spaces
                states = tuple(SpaceState(settled(space), runtime=(runtimes or {}).get(space.id)) for space in spaces)
                stale = _stale(collection, manifest, states) if manifest is not None else []
                if manifest is not None and runtimes:
                    kept = (replace(old, runtime=runtimes.get(old.space.id, old.runtime)) for old in manifest.spaces)
                    manifest = replace(manifest, spaces=tuple(kept))
                return Writer(
                    folder,
                    manifest,
                    name=collection,
                    spaces=states,
                    description=description,
                    visibility=visibility,
                    dates=dates,
                    stale=stale,
                    lock=lock,
                )
        except BaseException:
            lock.__exit__(None, None, None)
            raise

    def _folder(self, collection: str) -> Path:
        if not is_collection_name(collection):  # it would lead somewhere else
            raise _missing(collection)
        return self.path / collection

    def _named_again(self, collection: str) -> Manifest | None:
        """The newest generation where CURRENT is gone: all of it was durable before its manifest was written."""
        newest = _newest(self._folder(collection))
        if not newest:
            return None
        manifest = self._manifest(collection, newest)
        durable.replace_file(self._folder(collection) / CURRENT, f"{newest:06d}\n".encode())
        return manifest

    def _manifest(self, collection: str, generation: int | None) -> Manifest:
        """The manifest of a generation, or (None) of the one that CURRENT names, which has to be there."""
        number = self.current(collection) if generation is None else generation
        try:
            return read_manifest(self._folder(collection) / MANIFESTS, number, collection)
        except FileNotFoundError:
            if generation is None:
                raise _damaged(collection, f"names generation {number:06d}, which is missing") from None
            raise GenerationMissing(
                f"collection {collection!r} has no generation {generation} any more",
                collection=collection,
                generation=generation,
            ) from None


def _newest(folder: Path) -> int:
    """The number of the newest manifest of a collection, 0 where it has none."""
    return max((int(path.stem) for path in (folder / MANIFESTS).glob("*.json") if path.stem.isdecimal()), default=0)


def _missing(collection: str) -> CollectionMissing:
    return CollectionMissing(f"there is no collection {collection!r} in this store", collection=collection)


def _damaged(collection: str, problem: str) -> StoreDamaged:
    where = f"{collection}/{CURRENT}"
    return StoreDamaged(
        f"{where} {problem}: restore it from a backup", collection=collection, file=where, problem=problem
    )


def _stale(collection: str, manifest: Manifest, states: Sequence[SpaceState]) -> list[SpaceState]:
    """The spaces with a model whose stored vectors come from another revision of it.

    Everything else in which a configuration contradicts the live spaces of a collection is refused by name.
    """
    stored = {space.id: space for space in manifest.collection.spaces}
    unfinished = {state.space.id for state in manifest.spaces} - stored.keys()
    wanted = {state.space.id: state for state in states if state.space.id not in unfinished}
    for space_id in sorted(stored.keys() ^ wanted.keys()):
        known = "is stored but not configured" if space_id in stored else "is configured but not stored"
        if space_id in stored:
            cure = f"add it to the spaces of the collection, or remove it by `aidre embed --drop {quote(space_id)}`"
        elif wanted[space_id].space.model is not None:
            cure = f"fill it by `aidre embed --space {quote(space_id)}`"
        else:
            cure = "it has no model, its vectors come with the rows: ingest them into a new collection"
        raise SpaceConflict(
            f"embedding space {space_id!r} {known} in collection {collection!r}: {cure}",
            embedding_space=space_id,
            member="id",
        )
    stale = []
    for space_id, state in wanted.items():
        differing = [name for name in _DECLARED if getattr(stored[space_id], name) != getattr(state.space, name)]
        fixed = [name for name in differing if name not in _OF_THE_MODEL or state.space.model is None]
        if fixed:
            old, new = getattr(stored[space_id], fixed[0]), getattr(state.space, fixed[0])
            raise SpaceConflict(
                f"embedding space {space_id!r} has {fixed[0]} {old!r} in collection {collection!r}, "
                f"but {new!r} in the configuration: change it back or ingest into a new collection",
                embedding_space=space_id,
                member=fixed[0],
            )
        if differing:
            stale.append(state)
    return stale
