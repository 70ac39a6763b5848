"""Loose segments: written by any process into a folder or a bucket, and adopted by a collection in one commit.

    NAME.json             a segment that is whole: its entry, spaces, dates and order; written last
    NAME.ATTEMPT/FILE     its files

A name says which part of which rows a segment holds, so that a run that begins again finds what is whole. Two processes
may write one name at a time: each has an attempt of its own, and the first whose record is there counts, as long as its
files are there. A collection remembers attempts, whatever the address of the place. Nobody is trusted: the adoption
verifies every byte.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import msgspec
import orjson

from aidre.engine.collection.store import Store
from aidre.engine.collection.writer import Writer
from aidre.engine.errors import InvalidInput, Missing, SpaceConflict, StorageFailed
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import Reader
from aidre.engine.segment import Staging
from aidre.engine.storage import SegmentEntry, durable, has_own_names

FORMAT: Final = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,199}")
_ATTEMPT = re.compile(r"[0-9a-f]{16}")
RECORD: Final = ".json"
_BLOCK_BYTES: Final = 1 << 20
_PREFIX: Final = "segments "
"""Before the address of a place, in the states of sources."""


@dataclass(frozen=True, slots=True, order=True)
class SegmentOrder:
    """Of two documents with one id that of the later segment is kept: by partition, then by the time of the run in
    nanoseconds, then by piece and part of the run."""

    partition: str
    run: int = 0
    piece: int = 0
    part: int = 0


@dataclass(frozen=True, slots=True)
class LooseSegment:
    """The record of a loose segment. `parts` counts the segments that one piece of rows became; the last of them has
    the name of the piece, the others `part_name`."""

    format: int
    name: str
    attempt: str
    entry: SegmentEntry
    spaces: tuple[EmbeddingSpace, ...]
    dates: tuple[str, ...]
    order: SegmentOrder
    parts: int = 1

    @property
    def mark(self) -> str:
        """What a collection remembers: an attempt, and the run that wanted it last."""
        return f"{self.attempt} {self.order.run}"

    @property
    def folder(self) -> str:
        return f"{self.name}.{self.attempt}"


class SegmentPlace(Protocol):
    """Where loose segments are. Every method raises StorageFailed or BucketFailed."""

    url: str

    def names(self, prefix: str = "") -> list[str]:
        """The names of the segments that are whole and begin with a prefix, sorted."""

    def read(self, name: str) -> bytes | None:
        """The record of a segment, None where it is not whole."""

    def put(self, segment: LooseSegment, folder: Path) -> None:
        """Store the files of a segment, which are in `folder`, and then its record, unless there is one of another
        attempt whose files are there."""

    def replace(self, segment: LooseSegment) -> None:
        """Store another record for files that are there."""

    def has_files(self, segment: LooseSegment) -> bool:
        """Whether every file of a segment is there, in its size."""

    def fetch(self, segment: LooseSegment, target: Path) -> None:
        """Copy the files of a segment into a folder."""


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """InvalidInput."""
    if not is_name(name):
        raise InvalidInput(f"{name!r} is not a name of a part: use letters, digits and -_.=, at most 200")
    return name


# -- write and adopt ---------------------------------------------------------------------------------------------


def put_segments(
    place: SegmentPlace,
    name: str,
    staging: Path,
    entries: Sequence[SegmentEntry],
    writer: Writer,
    *,
    order: SegmentOrder | None = None,
) -> None:
    """Store the segments that `writer` has staged for one piece of rows. The last one has the name: the piece is whole
    then."""
    dates, spaces = writer.generations.manifest.dates, tuple(writer.spaces.values())
    order, last = order or SegmentOrder(name), len(entries) - 1
    for part, entry in enumerate(entries):
        own = check_name(name if part == last else part_name(name, part))
        at = replace(order, part=part)
        segment = LooseSegment(FORMAT, own, secrets.token_hex(8), entry, spaces, dates, at, len(entries))
        place.put(segment, staging / entry.id)


def part_name(name: str, part: int) -> str:
    return f"{name}.{part:04d}"


def is_stored(place: SegmentPlace, name: str, order: SegmentOrder) -> bool:
    """Whether all segments of a piece are there. Where another content of the same piece was written after them, they
    become the later ones."""
    found = find_whole(place, name)
    if found is None:
        return False
    others = [find_whole(place, part_name(name, number)) for number in range(found.parts - 1)]
    parts = [part for part in (*others, found) if part is not None]
    if len(parts) < found.parts:
        return False
    if found.order.run < order.run and _is_followed(place, found):
        for part in parts:
            place.replace(replace(part, order=replace(part.order, run=order.run)))
    return True


def _is_followed(place: SegmentPlace, segment: LooseSegment) -> bool:
    """Whether another content of the piece of a segment was written later."""
    prefix = segment.name.rpartition("-")[0] + "-"
    same = [find_whole(place, name) for name in place.names(prefix)]
    at = replace(segment.order, part=0)
    later = [segment.order for segment in same if segment is not None and segment.order.run > at.run]
    return any(replace(order, run=at.run, part=0) == at for order in later)


def find_whole(place: SegmentPlace, name: str) -> LooseSegment | None:
    """A segment whose record can be read and whose files are there. StorageFailed where the place does not answer."""
    record = place.read(name)
    try:
        segment = _decoded(name, record or b"")
    except StorageFailed:
        return None
    return segment if place.has_files(segment) else None


def read_segments(place: SegmentPlace) -> list[LooseSegment]:
    """The segments that are whole, in their order. Missing where there are none, StorageFailed for a
    record that is none, InvalidInput where they differ in their spaces."""
    found = [_read(place, name) for name in place.names()]
    found.sort(key=lambda segment: (segment.order, segment.name))
    if not found:
        raise Missing(f"{place.url} holds no segment that is whole: write some by aidre.segments.write")
    for segment in found:
        if segment.spaces != found[0].spaces:
            raise InvalidInput(
                f"{place.url}: {segment.name} and {found[0].name} have other spaces: adopt from two places"
            )
    return found


def adopt_segments(
    store: Store,
    collection: str,
    place: SegmentPlace,
    *,
    dates: Sequence[str] = (),
    wait: float = 0.0,
    previous: Reader | None = None,
) -> list[str]:
    """Make the segments of a place part of a collection in one commit, each once; the names of those that were not yet.

    Of two documents with one id that of the later segment is kept, see `SegmentOrder`. SpaceConflict where the spaces
    are not those of the collection, StorageFailed for a file that is not as it was written, Missing, InvalidInput,
    StoreLocked.
    """
    segments = read_segments(place)
    exists = store.path.is_dir() and store.named(collection) in store.collections()
    spaces = None if exists else segments[0].spaces
    dates = dates or (() if exists else segments[0].dates)
    with store.writer(collection, spaces=spaces, dates=dates, previous=previous, wait=wait) as writer:
        adopted = _adopt(writer, place, segments)
        writer.finish()
    return adopted


def _adopt(writer: Writer, place: SegmentPlace, segments: Sequence[LooseSegment]) -> list[str]:
    states = writer.source_states()
    # A place has many spellings, and may be copied or moved: what counts are the marks of all of them.
    taken = {mark for source, marks in states.items() if source.startswith(_PREFIX) for mark in marks.values()}
    new = [segment for segment in segments if segment.mark not in taken]
    if not new:
        return []
    _check_fits(writer, new[0])
    staging = writer.stage()  # the writer removes it, also after an error
    writer.set_source_state(_PREFIX + place.url, {segment.name: segment.mark for segment in segments})
    entries = [_fetched(place, segment, staging) for segment in new]
    cures = {
        entry.id: f"remove {segment.name}{RECORD} in {place.url} and write {segment.name} again"
        for entry, segment in zip(entries, new, strict=True)
    }
    writer.adopt(staging, entries, cures=cures)
    return [segment.name for segment in new]


def _check_fits(writer: Writer, segment: LooseSegment) -> None:
    spaces = tuple(writer.spaces.values())
    if spaces != segment.spaces:
        shown = ", ".join(sorted({space.id for space in segment.spaces}))
        raise SpaceConflict(
            f"the segments hold the spaces {shown}, which are not those of the collection in every respect: write them "
            "with the spaces, models and precision of the collection",
            embedding_space=segment.spaces[0].id if segment.spaces else "",
            member="spaces",
        )
    missing = set(writer.generations.manifest.dates) - set(segment.dates)
    if missing:
        raise InvalidInput(
            f"the collection has the dates {sorted(missing)}, which the segments lack: write with dates="
        )


def _fetched(place: SegmentPlace, segment: LooseSegment, staging: Path) -> SegmentEntry:
    """The entry of a segment whose files are in the staging folder now, under a name that no stored segment has. The
    commit makes them read-only, and syncs them."""
    entry = replace(segment.entry, id=Staging(staging, segment.name).name(segment.entry.files))
    folder = staging / entry.id
    with durable.write_errors(folder):
        folder.mkdir(durable.FOLDER_MODE)
        place.fetch(segment, folder)
    return entry


def _read(place: SegmentPlace, name: str) -> LooseSegment:
    """The record of a segment that a listing has. StorageFailed, which names the place."""
    try:
        return _decoded(name, place.read(name) or b"")
    except StorageFailed as error:
        raise StorageFailed(f"{place.url}: {error}", file=name) from error


def _decoded(name: str, record: bytes) -> LooseSegment:
    """StorageFailed."""
    try:
        segment = msgspec.json.decode(record, type=LooseSegment)
    except (msgspec.DecodeError, ValueError) as error:
        raise StorageFailed(f"{name}{RECORD} is not a record of a segment: write {name} again", file=name) from error
    is_inside = _ATTEMPT.fullmatch(segment.attempt) and has_own_names(segment.entry)
    if segment.format != FORMAT or segment.name != name or not is_inside:
        what = "is of another release, or of another segment"
        raise StorageFailed(f"{name}{RECORD} {what}: write {name} again", file=name)
    return segment


# -- a folder ------------------------------------------------------------------------------------------------------


class FolderPlace:
    """A folder that all processes share: a `SegmentPlace`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.url = str(self._folder)

    def names(self, prefix: str = "") -> list[str]:
        with durable.read_errors(self._folder), suppress(FileNotFoundError):
            found = [path.name.removesuffix(RECORD) for path in self._folder.iterdir() if path.name.endswith(RECORD)]
            return sorted(name for name in found if is_name(name) and name.startswith(prefix))
        return []

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError), durable.read_errors(self._folder):
            return (self._folder / f"{name}{RECORD}").read_bytes()
        return None

    def put(self, segment: LooseSegment, folder: Path) -> None:
        durable.make_folder(self._folder)
        target, record = self._folder / segment.folder, self._folder / f"{segment.name}{RECORD}"
        temporary = self._folder / f".{segment.folder}.tmp"
        with durable.write_errors(target):
            shutil.copytree(folder, temporary)
            durable.publish_folder(temporary, target)
            mark = self._folder / f".{segment.folder}.json.tmp"
            mark.write_bytes(orjson.dumps(segment))
            durable.sync_file(mark)
            if self._is_first(mark, record):
                mark.unlink(missing_ok=True)
            elif find_whole(self, segment.name) is None:
                mark.replace(record)
            else:
                durable.remove_folder(target)
                mark.unlink()
            durable.sync_folder(self._folder)

    @staticmethod
    def _is_first(mark: Path, record: Path) -> bool:
        try:
            os.link(mark, record)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            mark.replace(record)
        return True

    def replace(self, segment: LooseSegment) -> None:
        durable.replace_file(self._folder / f"{segment.name}{RECORD}", orjson.dumps(segment))

    def has_files(self, segment: LooseSegment) -> bool:
        folder = self._folder / segment.folder
        with durable.read_errors(folder), suppress(FileNotFoundError, NotADirectoryError):
            return all((folder / name).lstat().st_size == file.size for name, file in segment.entry.files.items())
        return False

    def fetch(self, segment: LooseSegment, target: Path) -> None:
        if (self._folder / segment.folder).is_symlink():
            raise StorageFailed(f"{segment.folder} is a link: write {segment.name} again", file=segment.folder)
        for name, file in segment.entry.files.items():
            if not _copy(self._folder / segment.folder / name, target / name, file.size):
                where = f"{segment.folder}/{name}"
                problem = f"{where} is not a file of {file.size} bytes in {self.url}"
                raise StorageFailed(f"{problem}: write {segment.name} again", file=where)


def _copy(source: Path, target: Path, size: int) -> bool:
    """Copy a file of a size; False, and not more than that copied, where it is none or a link."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(source, flags)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOENT, errno.ENOTDIR}:
            return False
        raise
    with os.fdopen(descriptor, "rb") as file, target.open("xb") as copy:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return False
        left = size
        while left and (block := file.read(min(left, _BLOCK_BYTES))):
            copy.write(block)
            left -= len(block)
        return not left
