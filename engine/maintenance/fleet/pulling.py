"""One file of a publication, from the bucket into a folder: under a temporary name until it is what was published."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import xxhash

from aidre.engine.errors import StoreDamaged
from aidre.engine.maintenance.bucket import Objects
from aidre.engine.maintenance.publication import Publication, damaged
from aidre.engine.maintenance.statement import refused, sha256_of
from aidre.engine.storage import (
    CHANGES,
    CURRENT,
    DELETES,
    MANIFESTS,
    SEGMENTS,
    FileEntry,
    FileProblem,
    check_arrived,
    durable,
)

logger = logging.getLogger("aidre")


def check_signed(objects: Objects, name: str, key: str, digest: str, files: Mapping[str, str] | None) -> None:
    """PublicationRefused where a file is not the one that was signed."""
    if files is not None and files.get(key) != digest:
        what = f"names {key}, which is not the file that was signed: publish again with --repair"
        raise refused(objects, name, "forged", what)


def remove_unsigned(cache: Path, name: str, files: Mapping[str, str]) -> None:
    """Remove what was pulled of a collection without keys, as far as it is not signed."""
    if (cache / name / CURRENT).exists():
        logger.warning("comparing what the cache has of %s with what was signed", name)
    for folder in (MANIFESTS, SEGMENTS, DELETES, CHANGES):
        for path in (cache / name / folder).rglob("*"):
            if path.is_file() and sha256_of(path) != files.get(path.relative_to(cache).as_posix()):
                path.unlink()


def pull_file(objects: Objects, path: Path, key: str, entry: FileEntry, signed: Mapping[str, str] | None) -> None:
    """StoreDamaged, PublicationRefused, BucketFailed, StorageFailed."""
    problem = damaged(objects, key, "does not have the size and the checksum of the stored file")
    with durable.write_errors(path), _temporary(path) as temporary:
        with temporary.open("wb") as file:
            target = _Checked(file, entry.size, problem)
            exists = objects.download(key, target)  # type: ignore[arg-type]
        if not exists:
            raise damaged(objects, key, "is missing")
        if target.size != entry.size or target.digest.hexdigest() != entry.checksum:
            raise problem
        if signed is not None:
            check_signed(objects, key.partition("/")[0], key, sha256_of(temporary), signed)
        try:
            check_arrived(temporary, entry)
        except FileProblem as fault:
            raise damaged(objects, key, str(fault)) from fault
        durable.publish_file(temporary, path)


def pull_changelog(objects: Objects, path: Path, key: str, signed: Mapping[str, str] | None) -> None:
    """The feed verifies it when it reads it. PublicationRefused, BucketFailed, StorageFailed."""
    with durable.write_errors(path), _temporary(path) as temporary:
        with temporary.open("wb") as target:
            exists = objects.download(key, target)
        if exists:  # else it was packed meanwhile
            if signed is not None:
                check_signed(objects, key.partition("/")[0], key, sha256_of(temporary), signed)
            durable.publish_file(temporary, path)


class _Checked:
    """A file that sums up what is written to it, and raises `problem` for more than `limit` bytes."""

    def __init__(self, file: IO[bytes], limit: int, problem: StoreDamaged) -> None:
        self._write = file.write
        self._limit, self._problem = limit, problem
        self.size = 0
        self.digest = xxhash.xxh3_128()

    def write(self, block: bytes) -> int:
        self.size += len(block)
        if self.size > self._limit:
            raise self._problem
        self.digest.update(block)
        return self._write(block)


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """The name under which a file is written; gone at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def has_size(path: Path, size: int) -> bool:
    """Whether there is a file of this size. Files get their names when they are verified, so that is enough."""
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def is_changelog(file: str, publication: Publication) -> bool:
    """Whether it is a changelog or a pack of some, up to the published generation and since the last purge."""
    first, _, last = file.removesuffix(".arrow").partition("-")
    is_named = file.endswith(".arrow") and first.isdecimal() and (not last or last.isdecimal())
    return is_named and publication.purged <= int(first) <= publication.generation


def size_of(folder: Path) -> int:
    return sum(size for size in _sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path.stat().st_size
