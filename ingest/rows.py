"""Rows of JSON Lines as Documents, and what a row of any format means. Knows no Parquet."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO, TypeAlias

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest import jsonld, schemaorg
from aidre.ingest.found import LARGEST, File, Found, Rejected, opened
from aidre.ingest.json_text import read_json
from aidre.ingest.members import document, document_id, string
from aidre.ingest.vectors import Brought, VectorRules

LineReader: TypeAlias = Callable[[bytes, str, File, VectorRules], Iterator[Found]]

_URL_LINE = re.compile(rb"\s*(https?://[^\s]+)[ ]*\t\s*(?=[\[{])")
_IDS = ("id", "@id", "url")
_FIRST_ROWS = 100
LOOKED_AT = 10_000


def json_lines(file: File, rules: VectorRules) -> Iterator[Found]:
    """The rows of a JSON Lines file, a bad one as what is wrong with it; raises OSError."""
    with opened(file, 1 << 20) as stream:
        read_line: LineReader | None = None
        for number, line in enumerate(bounded_lines(stream), 1):
            where = f"{file.origin}:{number}"
            if line is None:
                yield Rejected(where, f"longer than {LARGEST >> 20} MiB", file.source, file.origin)
            elif not line.isspace():
                # The first line tells which of the two forms the lines have.
                read_line = read_line or (url_line if is_url_line(line) else _row)
                yield from read_line(line, where, file, rules)


def from_json(row: Json, where: str, file: File, rules: VectorRules) -> Iterator[Found]:
    """What a row of JSON says."""
    if type(row) is not dict:
        yield Rejected(where, "not a JSON object", file.source, file.origin)
        return
    try:
        mapped = row if file.mapping is None or is_graph(row) else file.mapping.row(row)
        vectors = rules.from_lists(mapped.get("vectors"))
    except InvalidDocument as error:
        yield rejected(row, where, file, error.message)
        return
    if "@type" in mapped or "@graph" in mapped:
        yield from documents(mapped, where, file, vectors, row)
    else:
        yield read(mapped, where, file, vectors)


def is_graph(row: Mapping[str, Json]) -> bool:
    return "@graph" in row and "@type" not in row


def documents(
    row: dict[str, Json], where: str, file: File, vectors: Brought | None, whole: dict[str, Json] | None = None
) -> Iterator[Found]:
    """What one row says: a document, several where it is a `@graph`, or what is wrong with it.

    `whole` is the row as it was before a mapping: what comes back where it is a schema.org object.
    """
    if is_graph(row):
        yield from linked(row, where, file)
    elif "@type" in row and jsonld.has_links(row):
        filled = next(item for _, item in jsonld.objects(whole or row) if isinstance(item, dict))
        yield read(row if whole is not row else filled, where, file, vectors, filled)
    else:
        yield read(row, where, file, vectors, whole)


def linked(value: Json, where: str, file: File, *, placed: bool = False) -> Iterator[Found]:
    """The documents of a JSON-LD text; a node that is none as what is wrong with it, `placed` by its number."""
    for place, item in jsonld.objects(value):
        at = f"{where}[{place}]" if placed else where
        try:
            if isinstance(item, InvalidDocument):
                raise item
            yield read(item if file.mapping is None else file.mapping.row(item), at, file, None, item)
        except InvalidDocument as error:
            yield Rejected(at, error.message, file.source, file.origin)


def read(
    row: dict[str, Json], where: str, file: File, vectors: Brought | None, whole: dict[str, Json] | None = None
) -> Found:
    identity = None
    try:
        identity = _identity(row) or _derived(row, file, vectors)
        if "@type" not in row:
            return where, document(row, file, identity, vectors=vectors)
        members = schemaorg.as_row(row)
        return where, document(members, file, identity, vectors=vectors, schema_object=schemaorg.whole(whole or row))
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
        if row.get(name) is not None and not (name == "@id" and jsonld.is_local(row[name])):
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
        row = read_json(line)
    except InvalidDocument as error:
        return iter((Rejected(where, error.message, file.source, file.origin),))
    return from_json(row, where, file, rules)


def is_url_line(line: bytes) -> bool:
    """Whether a line is an address, a tab and JSON."""
    return _URL_LINE.match(line) is not None


def has_url_lines(file: File) -> bool:
    """Whether the first line of a file that says something is an address, a tab and JSON."""
    with opened(file) as stream:
        line = next((line for line in islice(bounded_lines(stream), _FIRST_ROWS) if line is None or line.strip()), None)
    return line is not None and is_url_line(line)


def url_line(line: bytes, where: str, file: File, rules: VectorRules) -> Iterator[Found]:
    """The schema.org objects that a page has, after its address: documents with its url.

    The first without an @id or id of its own has the address as its id, further ones a number after it.
    """
    match = _URL_LINE.match(line)
    if match is None:
        yield Rejected(where, "not an http(s) address, a tab and a JSON object", file.source, file.origin)
        return
    try:
        url = match[1].decode()
        value = read_json(line[match.end() :])
        found = [item for _, item in jsonld.objects(value) if isinstance(item, dict)]
    except (InvalidDocument, UnicodeDecodeError) as error:
        reason = error.message if isinstance(error, InvalidDocument) else f"malformed address: {error}"
        yield Rejected(where, reason, file.source, file.origin)
        return
    found = [item for item in found if not jsonld.is_part_type(item)] or found
    if not found:
        yield Rejected(where, "no object with @type after the address", file.source, file.origin, url)
    nameless = 0
    for item in found:
        row = {**item, "url": url}
        if "id" not in item and ("@id" not in item or jsonld.is_local(item["@id"])):
            nameless += 1
            row["id"] = url if nameless == 1 else f"{url}#{nameless}"
        yield read(row, where, file, None, item)


def bounded_lines(stream: BinaryIO) -> Iterator[bytes | None]:
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
    for row in _first_rows(file, _FIRST_ROWS):
        vectors = row.get("vectors")
        names.update(vectors if type(vectors) is dict else ())
    return names


def rows_of(file: File) -> Iterator[dict[str, Json]]:
    """So many of a file's first rows that whatever column they lack is one that the file has not."""
    yield from _first_rows(file, LOOKED_AT)


def _first_rows(file: File, count: int) -> Iterator[dict[str, Json]]:
    """The rows in the first lines of a JSON Lines file."""
    with opened(file, 1 << 20) as stream:
        for line in islice(bounded_lines(stream), count):
            try:
                row = read_json(line or b"")
            except InvalidDocument:
                continue
            if type(row) is dict:
                yield row
