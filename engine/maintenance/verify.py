"""Verification: reads every byte of a store and reports files that differ from their manifest. Changes no file of it.

Damage to manifests, documents, chunks, vectors or tombstones makes a collection not ok. Other damage is reported and
leaves it ok: to derived files (ids, fields, lexicon, keys, indexes), which `compact` rewrites; to changelogs, after
which clients of the change feed start over; and to a space that is building, which `embed` completes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aidre.engine.collection import Store, local_store, read_previous
from aidre.engine.errors import AidreError, HistoryMissing
from aidre.engine.ports import Source
from aidre.engine.storage import (
    CHUNKS_FILE,
    CURRENT,
    DELETES,
    DOCUMENTS_FILE,
    MANIFESTS,
    SEGMENTS,
    ChangesEntry,
    FileEntry,
    FileMissing,
    FileProblem,
    Manifest,
    changelog_path,
    check_arrived,
    check_bytes,
    manifest_name,
    manifest_numbers,
    open_bytes,
    read_changelog,
    read_manifest,
    vectors_file,
)


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """A file that differs from its manifest; `derived` if no document is lost. `file` is relative to the store."""

    file: str
    what: str
    derived: bool


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """The result for one collection. The counts are those of its newest manifest, 0 if that is damaged.

    `older` are problems of files that only older generations name, which cannot be rolled back to.
    """

    collection: str
    generation: int
    documents: int
    chunks: int
    problems: tuple[StoreProblem, ...]
    older: tuple[StoreProblem, ...] = ()

    @property
    def ok(self) -> bool:
        return all(problem.derived for problem in self.problems)


def verify(store: Source) -> list[CollectionReport]:
    store = local_store(store)
    reports = [verify_collection(store, name) for name in store.collections()]
    return reports + [_nameless(name, newest) for name, newest in store.collections_without_current().items()]


def _nameless(collection: str, newest: int) -> CollectionReport:
    what = f"is missing: the next ingest into the collection names generation {newest:06d} again"
    return CollectionReport(collection, newest, 0, 0, (StoreProblem(f"{collection}/{CURRENT}", what, False),))


def verify_collection(store: Store, collection: str) -> CollectionReport:
    report = _verify_once(store, collection)
    while report.problems and _is_collected(store, report):
        report = _verify_once(store, collection)
    return report


def _is_collected(store: Store, report: CollectionReport) -> bool:
    """Whether a writer removed the generation during verification, so that its problems mean nothing."""
    path = store.path / report.collection / MANIFESTS / manifest_name(report.generation)
    try:
        return not path.exists() and report.generation not in (0, store.current(report.collection))
    except AidreError:
        return False


def _verify_once(store: Store, collection: str) -> CollectionReport:
    folder = store.path / collection
    try:
        generation = store.current(collection)
        store.pin(collection, generation)
        manifest = read_manifest(folder / MANIFESTS, generation, collection)
    except FileNotFoundError:
        name = f"{collection}/{MANIFESTS}/{manifest_name(generation)}"
        return CollectionReport(collection, generation, 0, 0, (StoreProblem(name, "is missing", False),))
    except AidreError as error:
        file = str(error.details.get("file", collection))
        what = str(error.details.get("problem", error.message))  # the message would repeat the file
        return CollectionReport(collection, 0, 0, 0, (StoreProblem(file, what, False),))
    problems, older = (
        (*_stale_current(store, folder, generation), *_problems(folder, manifest)),
        _older_problems(folder, manifest),
    )
    return CollectionReport(collection, generation, manifest.documents, manifest.chunks, problems, tuple(older))


def _stale_current(store: Store, folder: Path, generation: int) -> Iterator[StoreProblem]:
    """Problems where CURRENT names too low a generation.

    CURRENT is written after the manifest that it names. A manifest with a higher number that is older than CURRENT thus
    shows that CURRENT was altered; one that an interrupted commit left is younger.
    """
    current_time = (folder / CURRENT).stat().st_mtime_ns
    before: list[Path] = []
    for path in (
        folder / MANIFESTS / manifest_name(number) for number in manifest_numbers(folder) if number > generation
    ):
        with suppress(FileNotFoundError):  # a writer removed it
            before += [path] if path.stat().st_mtime_ns < current_time else []
    if store.current(folder.name) != generation:
        return  # a commit has replaced CURRENT meanwhile
    for path in before:
        what = f"names generation {generation:06d}, but was written after {path.name}: write {path.stem} into it"
        yield StoreProblem(f"{folder.name}/{CURRENT}", what, False)


def _problems(folder: Path, manifest: Manifest) -> Iterator[StoreProblem]:
    for path, entry, derived in files_of(folder, manifest):
        try:
            check_arrived(path, entry)
        except FileProblem as problem:
            yield StoreProblem(_name(folder, path), str(problem), derived)
    yield from _change_list_problems(folder, manifest.changes)


def files_of(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, FileEntry, bool]]:
    """The files of a generation, and whether each is derived; without changelogs."""
    vectors = {vectors_file(space.id) for space in manifest.collection.spaces}
    for segment in manifest.segments:
        for name, entry in segment.files.items():
            truth = name in (DOCUMENTS_FILE, CHUNKS_FILE) or name in vectors
            yield folder / SEGMENTS / segment.id / name, entry, not truth
    for name, entry in manifest.deletes.items():
        yield folder / DELETES / name, entry, False


def _change_list_problems(folder: Path, newest: ChangesEntry) -> Iterator[StoreProblem]:
    """Problems of the changelogs, from the newest back; each records the checksum of the one before it."""
    entry: ChangesEntry | None = newest
    while entry is not None and entry.file is not None:
        path = changelog_path(folder, entry.generation)
        try:
            data = read_changelog(folder, entry.generation)
            if data is None and entry is not newest:
                return
            if data is None:
                raise FileMissing("is missing")
            check_bytes(data, entry.file, whole=True)
            open_bytes(data, whole=True)
            entry = read_previous(folder, entry.generation)
        except (FileProblem, HistoryMissing) as problem:
            yield StoreProblem(_name(folder, path), str(problem), True)
            return


def _older_problems(folder: Path, newest: Manifest) -> Iterator[StoreProblem]:
    """Problems of files that only older generations name; generations removed meanwhile are skipped."""
    checked = {path for path, _, _ in files_of(folder, newest)}
    for number in manifest_numbers(folder):
        path = folder / MANIFESTS / manifest_name(number)
        if number >= newest.generation:
            continue
        try:
            manifest = read_manifest(path.parent, number, newest.name)
        except FileNotFoundError:
            continue
        except AidreError as error:
            yield StoreProblem(_name(folder, path), str(error.details.get("problem", error)), True)
            continue
        for file, entry, _ in files_of(folder, manifest):
            if file not in checked:
                checked.add(file)
                try:
                    check_arrived(file, entry)
                except FileProblem as problem:
                    if path.exists():
                        yield StoreProblem(_name(folder, file), f"{problem}, in generation {number:06d}", True)


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder.parent).as_posix()
