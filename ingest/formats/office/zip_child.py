"""The sandbox's reader of zip archives: the inflated files of an archive, block by block.

Names and sizes are not trusted. Bounded are the files, their bytes as they inflate, each by itself and all together,
and how many times as large a file becomes.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records import MAX_DOCUMENT_BYTES

MAX_ARCHIVE_BYTES = 1 << 30
MAX_MEMBERS = 20_000
MAX_INFLATED_BYTES = 2 << 30
"""Bytes of all files that are read, as they inflate."""

MAX_RATIO = 250
MIN_BOMB_BYTES = 1 << 20
"""Largest ratio of a file to its compressed bytes, and the size from which it is checked."""

MAX_NAME_CHARACTERS = 500
_BLOCK_BYTES = 1 << 20
_ENCRYPTED_FLAG, _UTF8_FLAG = 0x1, 0x800
_HIDDEN = (".", "~$", "__MACOSX")


def read_members(content: bytes, options: Mapping[str, Any]) -> Iterator[bytes]:
    """Parts of an archive: a line of JSON, and bytes of the file that it names.

    The line has `number` and `name` of a file, and `problem` if it cannot be read. After the last file follows a line
    with `others`, the files of other suffixes than `options["suffixes"]` by suffix. Raises InvalidDocument.
    """
    suffixes = frozenset(options["suffixes"])
    others: Counter[str] = Counter()
    with open(options["descriptor"], "rb", closefd=False) as stream:
        if os.fstat(stream.fileno()).st_size > MAX_ARCHIVE_BYTES:
            raise InvalidDocument(f"larger than {MAX_ARCHIVE_BYTES >> 20} MiB: unpack it")
        try:
            archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError, ValueError, OSError):
            raise InvalidDocument("is not a zip archive, or a damaged one") from None
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise InvalidDocument(f"has more than {MAX_MEMBERS:,} files: unpack it")
        budget = [MAX_INFLATED_BYTES]
        for number, member in enumerate(members):
            name = _name_of(member)
            suffix = PurePosixPath(name).suffix.lower()
            if not name or name.endswith("/") or _is_hidden(name):
                continue
            if suffix in suffixes:
                yield from _read_member(archive, member, {"number": number, "name": name}, budget)
            else:
                others[suffix or "no suffix"] += 1
    yield orjson.dumps({"others": others}) + b"\n"


def _name_of(member: zipfile.ZipInfo) -> str:
    """The name with slashes; names that are not marked as UTF-8 often are."""
    name = member.filename.replace("\\", "/")
    if not member.flag_bits & _UTF8_FLAG:
        try:
            name = name.encode("cp437").decode("utf-8")
        except UnicodeError:
            return name
    return name


def _is_hidden(name: str) -> bool:
    return any(part.startswith(_HIDDEN) and part not in (".", "..") for part in name.split("/"))


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, head: dict[str, Any], budget: list[int]
) -> Iterator[bytes]:
    problem = _find_fault(head["name"], member)
    if problem is None:
        try:
            for block in _inflate(archive, member, budget):
                yield orjson.dumps(head) + b"\n" + block
        except InvalidDocument as error:
            problem = error.message
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
            problem = f"is damaged in its archive: {type(error).__name__}"
    if problem is not None:
        head["name"] = head["name"][:MAX_NAME_CHARACTERS]
        yield orjson.dumps(head | {"problem": problem}) + b"\n"


def _find_fault(name: str, member: zipfile.ZipInfo) -> str | None:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or ":" in parts[0]:
        return "its name leads out of the archive"
    if len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        return f"its name is not printable, or longer than {MAX_NAME_CHARACTERS} characters"
    return "is encrypted: pack it without a password" if member.flag_bits & _ENCRYPTED_FLAG else None


def _inflate(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: list[int]) -> Iterator[bytes]:
    """The blocks of a file, at least one, which may be empty; the budget is lowered by its bytes."""
    size = 0
    with archive.open(member) as stream:
        while block := stream.read(_BLOCK_BYTES):
            size += len(block)
            budget[0] -= len(block)
            if size > MAX_DOCUMENT_BYTES:
                raise InvalidDocument(f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB: split it")
            if budget[0] < 0:
                raise InvalidDocument(f"its archive inflates to more than {MAX_INFLATED_BYTES >> 30} GiB: unpack it")
            if size > MIN_BOMB_BYTES and size > MAX_RATIO * max(member.compress_size, 1):
                raise InvalidDocument(f"inflates to more than {MAX_RATIO} times its size: unpack it")
            yield block
    if not size:
        yield b""
