"""Rows of JSON Lines as Documents, and what a row of any format means. Knows no Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest import schemaorg
from aidre.ingest.found import LARGEST, File, Found, Rejected
from aidre.ingest.members import document, document_id, string
from aidre.ingest.vectors import Brought, VectorRules

_IDS = ("id", "@id", "url")
_FIRST_ROWS = 100


def json_lines(file: File, rules: VectorRules) -> Iterator[Found]:
    """The rows of a JSON Lines file, a bad one as what is wrong with it; raises OSError."""
    with file.path.open("rb", buffering=1 << 20) as stream:
        for number, line in enumerate(_lines(stream), 1):
            where = f"{file.origin}:{number}"
            if line is None:
                yield Rejected(where, f"longer than {LARGEST >> 20} MiB", file.source, file.origin)
            elif not line.isspace():
                yield from _row(line, where, file, rules)


def documents(row: dict[str, Json], where: str, file: File, vectors: Brought | None) -> Iterator[Found]:
    """What one row says: a document, several where it is a `@graph`, or what is wrong with it."""
    if "@graph" not in row or "@type" in row:
        yield read(row, where, file, vectors)
        return
    try:
        for item in schemaorg.objects(row):
            yield read(item, where, file, vectors)
    except InvalidDocument as error:
        yield Rejected(where, error.message, file.source, file.origin)


def read(row: dict[str, Json], where: str, file: File, vectors: Brought | None) -> Found:
    identity = None
    try:
        identity = _identity(row) or _derived(row, file, vectors)
        if "@type" not in row:
            return where, document(row, file, identity, vectors=vectors)
        members = schemaorg.as_row(row)
        return where, document(members, file, identity, vectors=vectors, schema_object=schemaorg.whole(row))
    except InvalidDocument as error:
        return Rejected(where, error.message, file.source, file.origin, identity)


def rejected(row: Mapping[str, Json], where: str, file: File, reason: str) -> Rejected:
    """A row that fails for `reason`, with its id where it has one."""
    try:
        identity = _identity(row)
    except InvalidDocument:
        identity = None
    return Rejected(where, reason, file.source, file.origin, identity)


def _identity(row: Mapping[str, Any]) -> str | None:
    for name in _IDS:
        if row.get(name) is not None:
            value = row[name]
            if name == "url" and type(value) is not str:
                value = schemaorg.as_row(row)["url"] if "@type" in row else string(row, "url")
            return document_id(value, name)
    return None


def _derived(row: dict[str, Json], file: File, vectors: Brought | None) -> str:
    """An id from what the row says, so that it stays when lines move."""
    digest = hashlib.blake2b(_dumped({name: row[name] for name in row if name != "vectors"}), digest_size=12)
    for name, vector in sorted((vectors or {}).items()):
        digest.update(name.encode())
        digest.update(vector.tobytes())
    return document_id(f"{file.id}:{digest.hexdigest()}", "the path")


def _dumped(value: Json) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise InvalidDocument(f"cannot be written as JSON: {error}") from None


def _row(line: bytes, where: str, file: File, rules: VectorRules) -> Iterator[Found]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        yield Rejected(where, f"malformed JSON: {error}", file.source, file.origin)
        return
    if type(row) is not dict:
        yield Rejected(where, "not a JSON object", file.source, file.origin)
        return
    try:
        vectors = rules.from_lists(row.get("vectors"))
    except InvalidDocument as error:
        yield rejected(row, where, file, error.message)
        return
    yield from documents(row, where, file, vectors)


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Lines of bounded length, None for one that is too long."""
    line = stream.readline(LARGEST + 1).removeprefix(b"\xef\xbb\xbf")
    while line:
        if len(line) > LARGEST and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(LARGEST)
            yield None
        else:
            yield line
        line = stream.readline(LARGEST + 1)


def spaces_of(file: File) -> set[str]:
    """The embedding spaces that the first rows of a JSON Lines file bring vectors for."""
    names: set[str] = set()
    with file.path.open("rb") as stream:
        for line in islice(_lines(stream), _FIRST_ROWS):
            try:
                row = orjson.loads(line or b"")
            except orjson.JSONDecodeError:
                continue
            vectors = row.get("vectors") if type(row) is dict else None
            names.update(vectors if type(vectors) is dict else ())
    return names
