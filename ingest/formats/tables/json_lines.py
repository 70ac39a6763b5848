"""JSON Lines: a row in each line, or an http(s) address, a tab and the JSON-LD of its page in each line.

A file that is one JSON text: schema.org JSON-LD (an object, a list, a `@graph`), a list of rows, one row, or a
JSON Feed.

The list may be the only one in an object, as interfaces of programs give it: `{"total": 2, "items": [...]}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, TypeAlias

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats import feed, jsonld
from aidre.ingest.formats.tables.row_documents import is_graph, read_graph, read_json_row, read_row
from aidre.ingest.formats.tables.unmapped import Unmapped
from aidre.ingest.records import (
    MAX_DOCUMENT_BYTES,
    MAX_FILE_VALUES,
    File,
    Item,
    Rejected,
    RowDecoder,
    VectorRules,
    open_rows,
    parse_json,
    read_text_file,
)

_LineReader: TypeAlias = Callable[[bytes, str, File, VectorRules, Unmapped], Iterator[Item]]

_URL_LINE = re.compile(rb"\s*(https?://[^\s]+)[ ]*\t\s*(?=[\[{])")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BUFFER_BYTES = 1 << 20
_HEAD_LINES = 100
"""Lines at the beginning of a file that are searched for embedding spaces, and for a line that is not blank."""

_COLUMN_LINES = 10_000
"""Lines at the beginning of a file that are searched for columns."""


def read_json_lines(file: File, rules: VectorRules) -> Iterator[Item]:
    """The items of a JSON Lines file; a bad row is rejected and the next one read. Raises OSError."""
    with open_rows(file, _BUFFER_BYTES) as stream:
        read_line: _LineReader | None = None
        unmapped = Unmapped(file)
        decoder = RowDecoder(file)
        for number, line in enumerate(bounded_lines(stream), 1):
            where = f"{file.origin}:{number}"
            if line is None:
                yield Rejected(where, f"longer than {MAX_DOCUMENT_BYTES >> 20} MiB", file.source, file.origin)
            elif not line.isspace():
                # The first line decides which of the two forms all lines have.
                read_line = read_line or (_read_url_line if _is_url_line(line) else _read_row_line)
                yield from read_line(decoder.to_utf8(line), where, file, rules, unmapped)


def has_url_lines(file: File) -> bool:
    """Whether the first line of a file that is not blank is an address, a tab and JSON; raises OSError."""
    with open_rows(file) as stream:
        lines = islice(bounded_lines(stream), _HEAD_LINES)
        line = next((line for line in lines if line is None or line.strip()), None)
    return line is not None and _is_url_line(line)


def find_json_lines_spaces(file: File) -> set[str]:
    """The embedding spaces of the vectors in a file's first rows; raises OSError."""
    names: set[str] = set()
    for row in _read_first_rows(file, _HEAD_LINES):
        vectors = row.get("vectors")
        names.update(vectors if type(vectors) is dict else ())
    return names


def find_json_lines_columns(file: File) -> Iterator[dict[str, Json]]:
    """A file's first rows, whose names count as the columns of the file; raises OSError."""
    yield from _read_first_rows(file, _COLUMN_LINES)


def bounded_lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """The lines of a stream, None for a line longer than MAX_DOCUMENT_BYTES."""
    line = stream.readline(MAX_DOCUMENT_BYTES + 1).removeprefix(_BYTE_ORDER_MARK)
    while line:
        if len(line) > MAX_DOCUMENT_BYTES and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_DOCUMENT_BYTES)
            yield None
        else:
            yield line
        line = stream.readline(MAX_DOCUMENT_BYTES + 1)


def _read_first_rows(file: File, max_lines: int) -> Iterator[dict[str, Json]]:
    with open_rows(file, _BUFFER_BYTES) as stream:
        decoder = RowDecoder(file)
        for line in islice(bounded_lines(stream), max_lines):
            try:
                row = parse_json(decoder.to_utf8(line or b""))
            except InvalidDocument:
                continue
            if type(row) is dict:
                yield row


def _read_row_line(line: bytes, where: str, file: File, rules: VectorRules, unmapped: Unmapped) -> Iterator[Item]:
    try:
        row = parse_json(line)
    except InvalidDocument as error:
        return iter((Rejected(where, error.message, file.source, file.origin),))
    return read_json_row(row, where, file, rules, unmapped=unmapped)


def _is_url_line(line: bytes) -> bool:
    return _URL_LINE.match(line) is not None


def _read_url_line(line: bytes, where: str, file: File, rules: VectorRules, unmapped: Unmapped) -> Iterator[Item]:
    """The schema.org objects of a page, after its address, as documents with that url.

    Of the objects without an id, the first has the address as its id, and further ones the address and a number.
    """
    match = _URL_LINE.match(line)
    if match is None:
        yield Rejected(where, "not an http(s) address, a tab and a JSON object", file.source, file.origin)
        return
    try:
        url = match[1].decode()
        value = parse_json(line[match.end() :])
        objects = [item for _, item in jsonld.find_documents(value) if isinstance(item, dict)]
    except (InvalidDocument, UnicodeDecodeError) as error:
        reason = error.message if isinstance(error, InvalidDocument) else f"malformed address: {error}"
        yield Rejected(where, reason, file.source, file.origin)
        return
    objects = [item for item in objects if not jsonld.is_part_type(item)] or objects
    if not objects:
        yield Rejected(where, "no object with @type after the address", file.source, file.origin, url)
    without_id = 0
    for item in objects:
        row = {**item, "url": url}
        if "id" not in item and ("@id" not in item or jsonld.is_local_id(item["@id"])):
            without_id += 1
            row["id"] = url if without_id == 1 else f"{url}#{without_id}"
        yield read_row(row, where, file, None, item)


_MAX_OTHERS = 2
"""Lists and objects in an object that wraps a list of rows: the list itself, and its description."""


def read_json_file(file: File, rules: VectorRules) -> Iterator[Item]:
    """The documents of a file, with their indices in the list or graph as locations.

    Raises InvalidDocument, OSError.
    """
    value = _parse(file)
    if feed.is_json_feed(value):
        yield from feed.read_json_feed(file)
    elif _is_linked(value):
        yield from read_graph(value, file.origin, file, numbered=True)
    elif type(value) is dict and "@type" in value:
        yield from read_json_row(value, file.origin, file, rules)
    elif (rows := _find_rows(value)) is not None:
        unmapped = Unmapped(file)
        for index, row in enumerate(rows):
            yield from read_json_row(row, f"{file.origin}[{index}]", file, rules, unmapped=unmapped)
    else:
        raise InvalidDocument("neither JSON-LD (with @type or @graph) nor rows; one row a line is .jsonl")


def holds_documents(file: File) -> bool:
    """Whether `read_json_file` should read a file; true also for malformed JSON, which is to be reported.

    Raises OSError.
    """
    try:
        value = _parse(file)
    except InvalidDocument:
        return True
    return (
        feed.is_json_feed(value) or _is_linked(value) or (type(value) is dict and "@type" in value) or _is_rows(value)
    )


def find_json_file_spaces(file: File) -> set[str]:
    """The embedding spaces of the vectors in a file's rows; raises OSError."""
    members = (row.get("vectors") for row in find_json_file_columns(file))
    return {name for vectors in members if type(vectors) is dict for name in vectors}


def find_json_file_columns(file: File) -> list[dict[str, Json]]:
    """The objects of a file that is one object or a list, else none; raises OSError."""
    try:
        value = _parse(file)
    except InvalidDocument:
        return []
    if type(value) is dict:
        value = [value]
    return [row for row in value if type(row) is dict] if type(value) is list else []


def _parse(file: File) -> Json:
    return parse_json(read_text_file(file).encode("utf-8", "replace"), MAX_FILE_VALUES, "one row a line is .jsonl")


def _is_rows(value: Json) -> bool:
    return type(value) is list and all(type(row) is dict for row in value)


def _find_rows(value: Json) -> list[dict[str, Json]] | None:
    """The rows of a file that is named: its list, the only list of objects in its object, or this object alone."""
    if type(value) is not dict:
        return value if _is_rows(value) else None
    lists = [member for member in value.values() if type(member) is list and member and _is_rows(member)]
    others = [member for member in value.values() if type(member) in (dict, list)]
    return lists[0] if len(lists) == 1 and len(others) <= _MAX_OTHERS and "text" not in value else [value]


def _is_linked(value: Json) -> bool:
    """Whether objects of the value may link to each other: a graph, or a list with any JSON-LD in it."""
    if type(value) is dict:
        return is_graph(value)
    return type(value) is list and any(type(row) is dict and ("@type" in row or "@graph" in row) for row in value)
