"""A file that is one JSON text: schema.org JSON-LD (an object, a list, a `@graph`), a list of rows, one row, or a
JSON Feed.

The list may be the only one in an object, as interfaces of programs give it: `{"total": 2, "items": [...]}`.
"""

from __future__ import annotations

from collections.abc import Iterator

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats import feed
from aidre.ingest.formats.tables.row_documents import is_graph, read_graph, read_json_row
from aidre.ingest.formats.tables.unmapped import Unmapped
from aidre.ingest.records import MAX_FILE_VALUES, File, Item, VectorRules, parse_json, read_text_file

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
