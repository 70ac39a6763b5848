"""Zip archives: each file in one is read as a file of a folder is, and called `archive.zip/file`.

The sandbox inflates them. An archive inside an archive is not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records import File, Item, Notes, Rejected, VectorRules, escape_unprintable, note
from aidre.ingest.sandbox import SHARED, stream_file

Read: TypeAlias = Callable[[File, VectorRules], Iterator[Item]]

_MAX_FILE_NAME = 60
"""Characters of the name that a file has on the disk; its suffix stays."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A block of a file of the archive; the last part of all has `others` instead."""

    number: int
    name: str
    problem: str | None
    content: memoryview[int]
    others: Counter[str] | None = None


def read_archive(
    file: File,
    rules: VectorRules,
    *,
    suffixes: frozenset[str],
    reads: Callable[[File], bool],
    read: Read,
    describe: Callable[[Counter[str]], str],
) -> Iterator[Item]:
    """The items of the files in an archive whose `suffixes` are read, and that `reads` says are documents.

    Where the archive itself cannot be read, all documents from it are kept. Raises OSError.
    """
    others: Counter[str] = Counter()
    with TemporaryDirectory(prefix="aidre-zip-") as folder:
        try:
            parts = map(_to_part, stream_file(SHARED, "zip", file, {"suffixes": sorted(suffixes)}))
            for (number, name), blocks in groupby(parts, lambda part: (part.number, part.name)):
                if number < 0:
                    others += next(blocks).others or Counter()
                    continue
                member = _to_member(file, name, Path(folder))
                problem = _write(member.path, blocks)
                if problem is not None:
                    where = escape_unprintable(member.origin)
                    yield Rejected(where, problem, file.source, member.origin)
                elif reads(member):
                    yield from read(member, rules)
                else:
                    others[member.path.suffix.lower()] += 1
                member.path.unlink(missing_ok=True)
        except InvalidDocument as error:
            yield Rejected(file.origin, error.message, file.source, file.origin, folder=True)
    if others:
        files = "1 file" if others.total() == 1 else f"{others.total()} files"
        note(file, f"{files} of other kinds skipped ({describe(others)})")


def _to_part(raw: memoryview[int]) -> _Part:
    content = bytes(raw)
    line, _, rest = content.partition(b"\n")
    try:
        head: dict[str, Any] = orjson.loads(line)
        if "others" in head:
            return _Part(-1, "", None, memoryview(b""), Counter({str(k): int(v) for k, v in head["others"].items()}))
        return _Part(int(head["number"]), str(head["name"]), head.get("problem"), memoryview(rest))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InvalidDocument("cannot be read: its parser gave an invalid answer") from None


def _to_member(file: File, name: str, folder: Path) -> File:
    """A file of an archive as one on the disk. Its address is that of the archive."""
    inner = PurePosixPath(name)
    suffix = inner.suffix[:_MAX_FILE_NAME]
    stem = inner.name[: len(inner.name) - len(suffix)].encode("utf-8", "replace")[:_MAX_FILE_NAME]
    path = folder / (stem.decode("utf-8", "ignore").replace("\0", "") + suffix)
    return replace(
        file, path=path, origin=f"{file.origin}/{name}", within=None, is_called_by_path=True, notes=Notes(), page=None
    )


def _write(path: Path, blocks: Iterator[_Part]) -> str | None:
    """Write the blocks of a file; returns why it cannot be read."""
    problem = None
    with path.open("wb") as output:
        for part in blocks:
            problem = part.problem or problem
            output.write(part.content)
    return None if problem is None else str(problem)
