"""Reads every byte of a store and says what does not match its manifest. Changes nothing.

Damage to truth (manifests, documents, chunks, vectors, lists of deletes) makes a collection not ok; damage to
what is derived (ids, fields, keys, indexes) is named, and the next commit or `compact` mends it; so is damage to the
lists of changes, behind which a client begins again, and to a space that is not complete, which `embed` mends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aidre.engine.arrow import FileEntry, FileProblem, check
from aidre.engine.changes import list_path
from aidre.engine.errors import AidreError, HistoryMissing
from aidre.engine.feed import previous_list
from aidre.engine.manifest import ChangesEntry, Manifest, read_manifest
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
    """What `verify` found in one collection. The counts are those of its newest manifest, 0 where it is damaged.

    `older` are the problems of what only older generations name: there is no way back to these.
    """

    collection: str
    generation: int
    documents: int
    chunks: int
    problems: tuple[Problem, ...]
    older: tuple[Problem, ...] = ()

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
    report = _verified(store, collection)
    while report.problems and _is_swept(store, report):
        report = _verified(store, collection)
    return report


def _is_swept(store: Store, report: CollectionReport) -> bool:
    """Whether a writer went on meanwhile and removed what was being read: problems of that say nothing."""
    path = store.path / report.collection / MANIFESTS / manifest_name(report.generation)
    try:
        return not path.exists() and report.generation not in (0, store.current(report.collection))
    except AidreError:
        return False


def _verified(store: Store, collection: str) -> CollectionReport:
    folder = store.path / collection
    try:
        generation = store.current(collection)
        manifest = read_manifest(folder / MANIFESTS, generation, collection)
    except FileNotFoundError:
        name = f"{collection}/{MANIFESTS}/{manifest_name(generation)}"
        return CollectionReport(collection, generation, 0, 0, (Problem(name, "is missing", False),))
    except AidreError as error:
        file = str(error.details.get("file", collection))
        what = str(error.details.get("problem", error.message))  # the message repeats the file
        return CollectionReport(collection, 0, 0, 0, (Problem(file, what, False),))
    problems, older = (*_overtaken(store, folder, generation), *_problems(folder, manifest)), _older(folder, manifest)
    return CollectionReport(collection, generation, manifest.documents, manifest.chunks, problems, tuple(older))


def _overtaken(store: Store, folder: Path, generation: int) -> Iterator[Problem]:
    """CURRENT is written after the manifest that it names. A newer manifest that was there before it, and is not what
    a commit left that was cut off, says that it named another one."""
    written = (folder / CURRENT).stat().st_mtime_ns
    before: list[Path] = []
    for path in (folder / MANIFESTS / manifest_name(number) for number in _numbers(folder) if number > generation):
        with suppress(FileNotFoundError):  # a writer swept it
            before += [path] if path.stat().st_mtime_ns < written else []
    if store.current(folder.name) != generation:
        return  # a commit came meanwhile, and CURRENT names what it is younger than
    for path in before:
        what = f"names generation {generation:06d}, but was written after {path.name}: write {path.stem} into it"
        yield Problem(f"{folder.name}/{CURRENT}", what, False)


def _problems(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    for path, entry, derived in files_of(folder, manifest):
        try:
            check(path, entry, whole=True)
        except FileProblem as problem:
            yield Problem(_name(folder, path), str(problem), derived)
    yield from _lists(folder, manifest.changes)


def files_of(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, FileEntry, bool]]:
    """What a generation is made of, and what of it is derived; without the lists of changes."""
    vectors = {vectors_file(space.id) for space in manifest.collection.spaces}
    for segment in manifest.segments:
        for name, entry in segment.files.items():
            truth = name in (DOCUMENTS_FILE, CHUNKS_FILE) or name in vectors
            yield folder / SEGMENTS / segment.id / name, entry, not truth
    for name, entry in manifest.deletes.items():
        yield folder / DELETES / name, entry, False


def _lists(folder: Path, newest: ChangesEntry) -> Iterator[Problem]:
    """The lists of changes as far back as they are kept, each checked by what the next one says of it."""
    entry: ChangesEntry | None = newest
    while entry is not None and entry.file is not None:
        path = list_path(folder, entry.generation)
        if entry is not newest and not path.exists():
            return
        try:
            check(path, entry.file, whole=True)
            entry = previous_list(path)
        except (FileProblem, HistoryMissing) as problem:
            yield Problem(_name(folder, path), str(problem), True)
            return


def _older(folder: Path, newest: Manifest) -> Iterator[Problem]:
    """What older generations name beside that. One that a writer sweeps meanwhile says nothing."""
    checked = {path for path, _, _ in files_of(folder, newest)}
    for number in _numbers(folder):
        path = folder / MANIFESTS / manifest_name(number)
        if number >= newest.generation:
            continue
        try:
            manifest = read_manifest(path.parent, number, newest.name)
        except FileNotFoundError:
            continue
        except AidreError as error:
            yield Problem(_name(folder, path), str(error.details.get("problem", error)), True)
            continue
        for file, entry, _ in files_of(folder, manifest):
            if file not in checked:
                checked.add(file)
                try:
                    check(file, entry, whole=True)
                except FileProblem as problem:
                    if path.exists():
                        yield Problem(_name(folder, file), f"{problem}, in generation {number:06d}", True)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in (folder / MANIFESTS).glob("*.json") if path.stem.isdecimal())


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder.parent).as_posix()
