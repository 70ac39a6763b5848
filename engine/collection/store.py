"""The store: a folder with all collections. Opens generations for readers, and makes the one writer of a collection."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from aidre.engine.collection import dropping, garbage
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.errors import (
    AidreError,
    CollectionMissing,
    Conflict,
    GenerationMissing,
    Missing,
    SpaceConflict,
    StorageFailed,
    StoreDamaged,
    Unsupported,
)
from aidre.engine.model import Alias, EmbeddingSpace, Visibility
from aidre.engine.storage import (
    CURRENT,
    MANIFESTS,
    REPLICA,
    Aliases,
    Manifest,
    SpaceState,
    WriterLock,
    check_collection_name,
    durable,
    is_collection_name,
    manifest_numbers,
    read_manifest,
    upkeep,
    with_precision,
    write_current,
)

if TYPE_CHECKING:
    from aidre.engine.collection.writer import Writer
    from aidre.engine.ports import EmbedQueries, Reader, Source

_MAX_OPEN_ATTEMPTS = 20
_NO_FOLDER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_GENERATION_NUMBER = re.compile(rb"[0-9]{6,18}\n?")
_PREFIXES = ("query_prefix", "document_prefix")
_COMPARED_MEMBERS = ("dimensions", "distance", "normalized", "model", "revision", "precision", *_PREFIXES)
"""Members of a configured space that must equal the stored ones."""
_REEMBEDDABLE_MEMBERS = ("model", "revision", "precision", *_PREFIXES)
"""Members that may change in a space with a model; its stored chunks are then embedded again."""


class Store:
    """A `Source` (engine/ports.py) of local segments. The constructor does not touch the disk; readers take no
    lock.

    `fetch` brings an older generation of a collection into the folder, for the cache of a replica; False: it is gone.
    """

    def __init__(self, path: Path, fetch: Callable[[str, int], bool] | None = None) -> None:
        self.path = path.absolute()  # the caller may change the working folder
        self._name = str(self.path)
        self._fetch = fetch
        self._aliases = Aliases(self.path)
        self._dropped: dict[str, tuple[Hashable, bool]] = {}

    def require(self) -> None:
        """Raise Missing where the folder does not exist."""
        if not self.path.is_dir():
            raise Missing(f"there is no store at {self.path}: make one with 'aidre ingest'", store=str(self.path))

    def collections(self) -> list[str]:
        """The names of the collections, sorted. Missing, StorageFailed."""
        self.require()
        aliases = self._aliases.known()
        with durable.read_errors(self.path), os.scandir(self.path) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.name not in aliases]
            return sorted(name for name in names if self._is_stored(name))

    def _is_stored(self, name: str) -> bool:
        """Whether there is a collection in a folder, which was not dropped. One call of the system where it is
        unchanged: servers ask for every collection four times a second. OSError."""
        try:
            mark = self._marked(name)
        except OSError as error:
            if error.errno in _NO_FOLDER:
                return False
            raise
        return not self._is_dropped(name, mark)

    def aliases(self) -> Mapping[str, Alias]:
        """The other names of collections, by which every method finds them. StoreDamaged."""
        return self._aliases.read()

    def named(self, name: str) -> str:
        """The collection that a name means: that of an alias, or the name itself."""
        alias = self._aliases.known().get(name)
        return name if alias is None else alias.collection

    def point_alias(self, name: str, collection: str) -> None:
        self.check_writable()
        stored = self.collections()
        if check_collection_name(name) in stored:
            raise Conflict(f"there is a collection {name!r}: rename it, or choose another alias", collection=name)
        if collection not in stored and collection not in self._aliases.read():
            raise _collection_missing(collection)
        self._aliases.point(name, collection)

    def remove_alias(self, name: str) -> None:
        self.check_writable()
        self._aliases.remove(name)

    def collections_without_current(self) -> dict[str, int]:
        """Collections that lost the file CURRENT, with their newest generation; the next writer writes it again."""
        self.require()
        lost = {
            path.name: numbers[-1]
            for path in self.path.iterdir()
            if not path.name.startswith(".")
            and not (path / CURRENT).exists()
            and (numbers := manifest_numbers(path))
            and not self._says_dropped(path.name, numbers[-1])
        }
        return dict(sorted(lost.items()))

    def current(self, collection: str) -> int:
        """The number of the newest generation. CollectionMissing, StoreDamaged, StorageFailed."""
        return self.current_of(self.named(collection))

    def current_of(self, collection: str) -> int:
        """The same of a collection that may have been dropped, and whose name may be an alias now."""
        path = self._folder(collection) / CURRENT
        try:
            with durable.read_errors(path):
                content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise _collection_missing(collection) from None
        if not _GENERATION_NUMBER.fullmatch(content):
            raise _current_damaged(collection, "does not hold a generation number")
        return int(content)

    def mark(self, collection: str) -> tuple[str, int, int, int] | None:
        """The collection, and inode, mtime in nanoseconds and size of its CURRENT; None where it cannot be read.

        It differs also if a re-created collection reaches the same generation number.
        """
        return self._mark(self.named(collection))

    def _mark(self, collection: str) -> tuple[str, int, int, int] | None:
        try:
            return self._marked(collection)
        except OSError:
            return None

    def _marked(self, collection: str) -> tuple[str, int, int, int]:
        # By a string: a path would cost every search of the library five microseconds.
        status = os.stat(f"{self._name}/{collection}/{CURRENT}")  # noqa: PTH116
        return collection, status.st_ino, status.st_mtime_ns, status.st_size

    def is_dropped(self, collection: str) -> bool:
        """Whether the newest generation of a collection, not of what an alias means, says that it was dropped. It is
        looked up once for each value of `mark`."""
        return self._is_dropped(collection, self._mark(collection))

    def _is_dropped(self, collection: str, mark: Hashable) -> bool:
        known = self._dropped.get(collection)
        if known is not None and known[0] == mark:
            return known[1]
        dropped = False
        with suppress(AidreError, OSError):  # a damaged collection exists; opening it reports the damage
            dropped = self._says_dropped(collection, self.current_of(collection))
            self._dropped[collection] = mark, dropped
        return dropped

    def open(self, collection: str, *, previous: Reader | None = None, generation: int | None = None) -> Snapshot:
        """Where garbage collection removes the newest generation while it is being opened, a newer one is opened."""
        collection = self.named(collection)
        folder = self._folder(collection)
        previous = previous if isinstance(previous, Snapshot) else None
        for _ in range(_MAX_OPEN_ATTEMPTS):
            newest = self.current(collection)
            try:
                if generation is not None and self.is_dropped(collection):
                    raise dropping.dropped_error(self._read_manifest(collection, None))
                manifest = self._read_manifest(collection, generation)
                if manifest.dropped:
                    raise dropping.dropped_error(manifest)
                return Snapshot(folder, manifest, previous)
            except (StoreDamaged, GenerationMissing) as error:
                if isinstance(error, GenerationMissing) and self._fetched(collection, generation):
                    continue
                if generation is not None or self.current(collection) == newest:
                    raise
        raise StorageFailed(f"collection {collection!r} changes faster than it can be opened", collection=collection)

    def _fetched(self, collection: str, generation: int | None) -> bool:
        """Whether a generation is in the folder now."""
        return generation is not None and self._fetch is not None and self._fetch(collection, generation)

    def pin(self, collection: str, generation: int) -> None:
        with suppress(OSError):  # a store that cannot be written
            garbage.pin(self._folder(self.named(collection)), generation)

    def writer(
        self,
        collection: str,
        *,
        spaces: Sequence[EmbeddingSpace] | None,
        description: str | None = None,
        visibility: Visibility | None = None,
        dates: Collection[str] = (),
        runtimes: dict[str, str] | None = None,
        models: Mapping[str, EmbedQueries] | None = None,
        previous: Reader | None = None,
        wait: float = 0.0,
    ) -> Writer:
        """The writer of a collection; it holds the lock until it is closed.

        Another writer is waited for up to `wait` seconds. What `previous` has open is shared.

        `spaces` declares the spaces of a new collection. For an existing one they must agree with the stored spaces,
        without those of an unfinished backfill; a space with a model may differ in model, revision and precision, and
        then has to be embedded again. None takes the stored ones. `description`, `visibility` and `dates` replace the
        stored values at the next commit. `runtimes` names the runtime that computes the vectors of a space
        ("onnxruntime int8"), by space id. `models` are those by which spaces are calibrated with texts, by space id.

        StoreLocked, SpaceConflict, InvalidInput for the name, StorageFailed, StoreDamaged, FormatTooNew; Missing where
        the store is a file; CollectionMissing with `spaces=None` where there is no collection.
        """
        from aidre.engine.collection.writer import Writer  # two dozen modules that a reader does without

        self.check_writable()
        alias = self._aliases.read().get(check_collection_name(collection))
        collection = collection if alias is None else alias.collection
        folder = self._make_folder(collection)
        lock = WriterLock(folder, collection, wait).__enter__()
        try:
            with durable.write_errors(folder):
                durable.close_to_others(folder)
                manifest, began_at = self._live_manifest(collection)
                spaces = _stored_spaces(collection, manifest) if spaces is None else spaces
                known = runtimes or {}
                states = tuple(SpaceState(with_precision(space), runtime=known.get(space.id)) for space in spaces)
                stale = _stale_states(collection, manifest, states) if manifest is not None else []
                return Writer(
                    folder,
                    None if manifest is None else _declared_anew(manifest, states, runtimes or {}),
                    name=collection,
                    spaces=states,
                    description=description,
                    visibility=visibility,
                    dates=dates,
                    stale=stale,
                    lock=lock,
                    began_at=began_at,
                    models=models,
                    previous=previous if isinstance(previous, Snapshot) else None,
                )
        except BaseException:
            lock.__exit__(None, None, None)
            raise

    def drop(self, collection: str, *, wait: float = 0.0, purge: bool = False) -> None:
        """Publish a last generation without segments, and remove the files of the others. Readers that have a
        generation open keep its files until they close it.

        `purge` removes that generation too, also that of an earlier drop: nothing says then that there was such a
        collection. The same happens to a collection whose manifest is damaged.
        """
        self.check_writable()
        for name, alias in self._aliases.read().items():
            if name == collection:
                raise Conflict(f"{name!r} is an alias of {alias.collection!r}: remove it, or drop that", alias=name)
            if alias.collection == collection:
                raise Conflict(
                    f"collection {collection!r} has the alias {name!r}: move or remove it first",
                    alias=name,
                )
        self.current_of(collection)
        folder = self._folder(collection)
        if purge:
            self._aliases.forget(collection)
        with WriterLock(folder, collection, wait), durable.write_errors(folder):
            manifest = None
            if not purge:
                with suppress(StoreDamaged):
                    manifest = self._manifest_to_continue(collection)
            if manifest is None:
                dropping.forget(folder)
            elif manifest.dropped:
                garbage.purge(folder, manifest)
                raise dropping.dropped_error(manifest)
            else:
                dropping.publish_last(folder, manifest)
                with upkeep(folder, "collections that were dropped a month ago were not removed"):
                    folders = (path for path in sorted(self.path.iterdir()) if path.is_dir())
                    dropping.forget_old(path for path in folders if self.is_dropped(path.name))

    def _says_dropped(self, collection: str, generation: int) -> bool:
        with suppress(AidreError, FileNotFoundError):
            return self._read_manifest(collection, generation).dropped
        return False

    def check_writable(self) -> None:
        """Raises Unsupported for the cache of a replica. To be called before a write without `writer`."""
        if (self.path / REPLICA).exists():
            raise Unsupported(
                f"{self.path} is the cache of a replica, which takes no writes: write to the store that is published "
                f"(if that is lost: `aidre promote --store {self.path}`)",
                capability="writes",
            )

    def _folder(self, collection: str) -> Path:
        if not is_collection_name(collection):  # it could lead out of the store
            raise _collection_missing(collection)
        return self.path / collection

    def _make_folder(self, collection: str) -> Path:
        if self.path.exists() and not self.path.is_dir():
            raise Missing(f"{self.path} is a file: name a folder for the store", store=str(self.path))
        folder = self._folder(collection)
        durable.make_folder(folder)
        return folder

    def _live_manifest(self, collection: str) -> tuple[Manifest | None, int]:
        """The manifest to continue, None for a new collection, and the number after which a new one begins: 0, or the
        last one of a collection of that name which was dropped."""
        manifest = self._manifest_to_continue(collection)
        if manifest is None or not manifest.dropped:
            return manifest, 0
        garbage.purge(self._folder(collection), manifest)  # the drop may have been interrupted
        return None, manifest.generation

    def _manifest_to_continue(self, collection: str) -> Manifest | None:
        """The newest manifest, None for a new collection. Writes CURRENT again where it was lost: everything that the
        newest manifest names was durable before the manifest was written."""
        folder = self._folder(collection)
        if (folder / CURRENT).exists():
            return self._read_manifest(collection, None)
        numbers = manifest_numbers(folder)
        if not numbers:
            return None
        manifest = self._read_manifest(collection, numbers[-1])
        durable.sync_folder(folder / MANIFESTS)  # its writer may have been killed before the name was durable
        write_current(folder, numbers[-1])
        return manifest

    def _read_manifest(self, collection: str, generation: int | None) -> Manifest:
        """The manifest of a generation; None means the one in CURRENT, which has to exist."""
        number = self.current_of(collection) if generation is None else generation
        try:
            return read_manifest(self._folder(collection) / MANIFESTS, number, collection)
        except FileNotFoundError:
            if generation is None:
                raise _current_damaged(collection, f"names generation {number:06d}, which is missing") from None
            raise GenerationMissing(
                f"collection {collection!r} has no generation {generation} any more",
                collection=collection,
                generation=generation,
            ) from None


def local_store(source: Source, cure: str | None = None) -> Store:
    """The source as a store of local segments, which work on their files needs. Unsupported, with a cure."""
    if not isinstance(source, Store):
        message = f"{source.path} has no local segments, whose files this works on"
        raise Unsupported(message if cure is None else f"{message}: {cure}", capability="segments")
    return source


def _collection_missing(collection: str) -> CollectionMissing:
    return CollectionMissing(f"there is no collection {collection!r} in this store", collection=collection)


def _current_damaged(collection: str, problem: str) -> StoreDamaged:
    file = f"{collection}/{CURRENT}"
    return StoreDamaged(
        f"{file} {problem}: restore it from a backup", collection=collection, file=file, problem=problem
    )


# -- configured and stored spaces --------------------------------------------------------------------------------


def _stored_spaces(collection: str, manifest: Manifest | None) -> Sequence[EmbeddingSpace]:
    if manifest is None:
        raise _collection_missing(collection)
    return manifest.collection.spaces


def _declared_anew(manifest: Manifest, states: Sequence[SpaceState], runtimes: Mapping[str, str]) -> Manifest:
    """The manifest with what may be declared differently without embedding again: runtimes, and languages of models."""
    languages = {state.space.id: state.space.languages for state in states}
    spaces = (
        replace(
            state,
            space=replace(state.space, languages=languages.get(state.space.id) or state.space.languages),
            runtime=runtimes.get(state.space.id, state.runtime),
        )
        for state in manifest.spaces
    )
    return replace(manifest, spaces=tuple(spaces))


def _stale_states(collection: str, manifest: Manifest, states: Sequence[SpaceState]) -> list[SpaceState]:
    """The configured spaces that have to be embedded again, but for those of a backfill that is not complete."""
    stored = manifest.collection.spaces
    unfinished = {state.space.id for state in manifest.spaces} - {space.id for space in stored}
    configured = [state.space for state in states if state.space.id not in unfinished]
    stale = {space.id for space in stale_spaces(collection, stored, configured)}
    return [state for state in states if state.space.id in stale]


def stale_spaces(
    collection: str, stored: Sequence[EmbeddingSpace], configured: Sequence[EmbeddingSpace]
) -> list[EmbeddingSpace]:
    """The configured spaces whose stored vectors have another model, revision of it or precision.

    SpaceConflict where the configuration contradicts the stored spaces in any other way.
    """
    by_id = {space.id: space for space in stored}
    _check_same_spaces(collection, by_id, {space.id: space for space in configured})
    return [space for space in configured if _is_stale(collection, by_id[space.id], space)]


def _check_same_spaces(
    collection: str, stored: Mapping[str, EmbeddingSpace], configured: Mapping[str, EmbeddingSpace]
) -> None:
    for space_id in sorted(stored.keys() ^ configured.keys()):
        fault = "is stored but not configured" if space_id in stored else "is configured but not stored"
        if space_id in stored:
            cure = f"add it to the spaces of the collection, or remove it by `aidre embed --drop {quote(space_id)}`"
        elif configured[space_id].model is not None:
            cure = f"fill it by `aidre embed --space {quote(space_id)}`"
        else:
            cure = "it has no model, its vectors come with the rows: ingest them into a new collection"
        raise SpaceConflict(
            f"embedding space {space_id!r} {fault} in collection {collection!r}: {cure}",
            embedding_space=space_id,
            member="id",
        )


def _is_stale(collection: str, stored: EmbeddingSpace, configured: EmbeddingSpace) -> bool:
    differing = [name for name in _COMPARED_MEMBERS if getattr(stored, name) != getattr(configured, name)]
    fixed = [name for name in differing if name not in _REEMBEDDABLE_MEMBERS or configured.model is None]
    if fixed:
        old, new = getattr(stored, fixed[0]), getattr(configured, fixed[0])
        raise SpaceConflict(
            f"embedding space {configured.id!r} has {fixed[0]} {old!r} in collection {collection!r}, "
            f"but {new!r} in the configuration: change it back or ingest into a new collection",
            embedding_space=configured.id,
            member=fixed[0],
        )
    return bool(differing)
