"""Loose segments: written by any process into a folder or a bucket, and adopted by a collection in one commit.

    NAME.json             a segment that is whole: its entry, spaces and dates; written last, and once
    NAME.ATTEMPT/FILE     its files

A name says which part of which rows a segment holds, so that a run that begins again finds what is whole. Two processes
may write one name at a time: each has an attempt of its own, and the first whose record is there counts. Nobody is
trusted: the adoption verifies every byte.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
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
from aidre.engine.storage import SegmentEntry, durable

FORMAT: Final = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,199}")
_ATTEMPT = re.compile(r"[0-9a-f]{16}")
_RECORD: Final = ".json"
_PREFIX: Final = "segments "
"""Before the address of a place, in the states of sources."""


@dataclass(frozen=True, slots=True)
class LooseSegment:
    """The record of a loose segment."""

    format: int
    name: str
    attempt: str
    entry: SegmentEntry
    spaces: tuple[EmbeddingSpace, ...]
    dates: tuple[str, ...]

    @property
    def folder(self) -> str:
        return f"{self.name}.{self.attempt}"


class Place(Protocol):
    """Where loose segments are. Every method raises StorageFailed or BucketFailed."""

    url: str

    def names(self) -> list[str]:
        """The names of the segments that are whole, sorted."""

    def read(self, name: str) -> bytes | None:
        """The record of a segment, None where it is not whole."""

    def put(self, segment: LooseSegment, folder: Path) -> None:
        """Store the files of a segment, which are in `folder`, and then its record, unless there is one."""

    def fetch(self, segment: LooseSegment, target: Path) -> None:
        """Copy the files of a segment into a folder."""


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """InvalidInput."""
    if not is_name(name):
        raise InvalidInput(f"{name!r} is no name of a part: use letters, digits and -_.=, at most 200")
    return name


# -- write and adopt ---------------------------------------------------------------------------------------------


def put_segment(place: Place, name: str, staging: Path, entry: SegmentEntry, writer: Writer) -> None:
    """Store a segment that `writer` has staged under a name."""
    dates = writer.generations.manifest.dates
    attempt = secrets.token_hex(8)
    segment = LooseSegment(FORMAT, check_name(name), attempt, entry, tuple(writer.spaces.values()), dates)
    place.put(segment, staging / entry.id)


def read_segments(place: Place) -> list[LooseSegment]:
    """The segments that are whole, in the order of their names. Missing where there are none, StorageFailed for a
    record that is none, InvalidInput where they differ in their spaces."""
    # A segment that became several has the last of them under its own name, which `~` puts behind the others.
    names = sorted(place.names(), key=lambda name: f"{name}~")
    found = [_decoded(name, place.read(name) or b"") for name in names]
    if not found:
        raise Missing(f"{place.url} holds no segment that is whole: write some by aidre.segments.write")
    for one in found:
        if one.spaces != found[0].spaces:
            raise InvalidInput(f"{place.url}: {one.name} and {found[0].name} have other spaces: adopt from two places")
    return found


def adopt_segments(
    store: Store,
    collection: str,
    place: Place,
    *,
    dates: Sequence[str] = (),
    wait: float = 0.0,
    previous: Reader | None = None,
) -> list[str]:
    """Make the segments of a place part of a collection in one commit, each once; the names of those that were not yet.

    Of two documents with one id that of the later name is kept. SpaceConflict where the spaces are not those of the
    collection, StorageFailed for a file that is not as it was written, Missing, InvalidInput, StoreLocked.
    """
    segments = read_segments(place)
    exists = store.path.is_dir() and store.named(collection) in store.collections()
    spaces = None if exists else segments[0].spaces
    dates = dates or (() if exists else segments[0].dates)
    with store.writer(collection, spaces=spaces, dates=dates, previous=previous, wait=wait) as writer:
        adopted = _adopt(writer, place, segments)
        writer.finish()
    return adopted


def _adopt(writer: Writer, place: Place, segments: Sequence[LooseSegment]) -> list[str]:
    source = _PREFIX + place.url
    taken = writer.source_states().get(source, {})
    new = [one for one in segments if one.name not in taken]
    if not new:
        return []
    _check_fits(writer, new[0])
    staging = writer.stage()
    try:
        writer.set_source_state(source, {one.name: one.attempt for one in segments} | _other_attempts(taken, segments))
        writer.adopt(staging, [_fetched(place, one, staging) for one in new])
    finally:
        durable.remove_folder(staging)
    return [one.name for one in new]


def _other_attempts(taken: Mapping[str, str], segments: Sequence[LooseSegment]) -> dict[str, str]:
    """What was taken before, of what is still there: a name of which nothing is left needs no mark."""
    there = {one.name for one in segments}
    return {name: attempt for name, attempt in taken.items() if name in there}


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


def _fetched(place: Place, segment: LooseSegment, staging: Path) -> SegmentEntry:
    """The entry of a segment whose files are in the staging folder now, under a name that no stored segment has."""
    entry = replace(segment.entry, id=Staging(staging, segment.name).name(segment.entry.files))
    folder = staging / entry.id
    with durable.write_errors(folder):
        folder.mkdir(durable.FOLDER_MODE)
        place.fetch(segment, folder)
        files = [folder / name for name in entry.files]
        durable.sync_files(files)
        for path in files:
            path.chmod(durable.READ_ONLY)
        durable.sync_folder(folder)
    return entry


def _decoded(name: str, record: bytes) -> LooseSegment:
    try:
        segment = msgspec.json.decode(record, type=LooseSegment)
    except (msgspec.DecodeError, ValueError) as error:
        raise StorageFailed(f"{name}{_RECORD} is no record of a segment: write it again", file=name) from error
    names = [*segment.entry.files, segment.attempt]
    is_inside = _ATTEMPT.fullmatch(segment.attempt) and not any("/" in one or one.startswith(".") for one in names)
    if segment.format != FORMAT or segment.name != name or not is_inside:
        raise StorageFailed(f"{name}{_RECORD} is of another release, or of another segment: write it again", file=name)
    return segment


# -- a folder ------------------------------------------------------------------------------------------------------


class FolderPlace:
    """A folder that all processes share: a `Place`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.url = str(self._folder)

    def names(self) -> list[str]:
        with durable.read_errors(self._folder), suppress(FileNotFoundError):
            found = [path.name.removesuffix(_RECORD) for path in self._folder.iterdir() if path.name.endswith(_RECORD)]
            return sorted(name for name in found if is_name(name))
        return []

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError), durable.read_errors(self._folder):
            return (self._folder / f"{name}{_RECORD}").read_bytes()
        return None

    def put(self, segment: LooseSegment, folder: Path) -> None:
        durable.make_folder(self._folder)
        target, record = self._folder / segment.folder, self._folder / f"{segment.name}{_RECORD}"
        temporary = self._folder / f".{segment.folder}.tmp"
        with durable.write_errors(target):
            shutil.copytree(folder, temporary)
            durable.publish_folder(temporary, target)
            mark = self._folder / f".{segment.folder}.json.tmp"
            mark.write_bytes(orjson.dumps(segment))
            durable.sync_file(mark)
            try:
                os.link(mark, record)
            except FileExistsError:
                durable.remove_folder(target)
            except OSError:  # a file system without links
                mark.replace(record)
            mark.unlink(missing_ok=True)
            durable.sync_folder(self._folder)

    def fetch(self, segment: LooseSegment, target: Path) -> None:
        for name in segment.entry.files:
            shutil.copyfile(self._folder / segment.folder / name, target / name)
