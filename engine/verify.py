"""Reads every byte of a store and says what does not match its manifest. Changes nothing.

Damage to truth (manifests, documents, chunks, vectors, lists of deletes) makes a collection not ok; damage to
what is derived (ids, fields, keys, indexes) is named, and the next commit or `compact` mends it; so is damage to the
newest list of changes, which the next one ends, and to a space that is not complete, which `embed` mends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aidre.engine.arrow import FileEntry, FileProblem, check
from aidre.engine.changes import list_path
from aidre.engine.errors import AidreError
from aidre.engine.manifest import Manifest, read_manifest
from aidre.engine.schema import (
    CHUNKS_FILE,
    CURRENT,
    DELETES,
    DOCUMENTS_FILE,
    MANIFESTS,
    SEGMENTS,
    manifest_name,
    vectors_file,
)
from aidre.engine.store import Store


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not as recorded; `derived` where no document is lost by it. `file` is relative to the store."""

    file: str
    what: str
    derived: bool


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What `verify` found in one collection. The counts are those of its newest manifest, 0 where it is damaged."""

    collection: str
    generation: int
    documents: int
    chunks: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return all(problem.derived for problem in self.problems)


def verify(store: Store) -> list[CollectionReport]:
    reports = [verify_collection(store, name) for name in store.collections()]
    return reports + [_nameless(name, newest) for name, newest in store.nameless().items()]


def _nameless(collection: str, newest: int) -> CollectionReport:
    what = f"is missing: the next ingest into the collection names generation {newest:06d} again"
    return CollectionReport(collection, newest, 0, 0, (Problem(f"{collection}/{CURRENT}", what, False),))


def verify_collection(store: Store, collection: str) -> CollectionReport:
    folder = store.path / collection
    try:
        generation = store.current(collection)
        manifest = read_manifest(folder / MANIFESTS, generation, collection)
    except FileNotFoundError:
        name = f"{collection}/{MANIFESTS}/{manifest_name(generation)}"
        return CollectionReport(collection, generation, 0, 0, (Problem(name, "is missing", False),))
    except AidreError as error:
        file = str(error.details.get("file", collection))
        return CollectionReport(collection, 0, 0, 0, (Problem(file, error.message, False),))
    problems = tuple(_problems(folder, manifest))
    return CollectionReport(collection, generation, manifest.documents, manifest.chunks, problems)


def _problems(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    for path, entry, derived in _files(folder, manifest):
        try:
            check(path, entry, whole=True)
        except FileProblem as problem:
            yield Problem(path.relative_to(folder.parent).as_posix(), str(problem), derived)


def _files(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, FileEntry, bool]]:
    vectors = {vectors_file(space.id) for space in manifest.collection.spaces}
    for segment in manifest.segments:
        for name, entry in segment.files.items():
            truth = name in (DOCUMENTS_FILE, CHUNKS_FILE) or name in vectors
            yield folder / SEGMENTS / segment.id / name, entry, not truth
    for name, entry in manifest.deletes.items():
        yield folder / DELETES / name, entry, False
    if manifest.changes.file is not None:
        yield list_path(folder, manifest.changes.generation), manifest.changes.file, True
