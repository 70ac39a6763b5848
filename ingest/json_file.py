"""A file that is one JSON text: schema.org JSON-LD (one object, a list, a `@graph`), or a list of rows."""

from __future__ import annotations

from collections.abc import Iterator

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.found import File, Found, content
from aidre.ingest.json_text import MOST_OF_FILE, read_json
from aidre.ingest.rows import from_json, linked
from aidre.ingest.vectors import VectorRules

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def json_file(file: File, rules: VectorRules) -> Iterator[Found]:
    """The documents of a file, each named by its place in the list or graph; raises InvalidDocument, OSError."""
    value = _loaded(file)
    if _is_linked(value):
        yield from linked(value, file.origin, file, placed=True)
    elif type(value) is dict and "@type" in value:
        yield from from_json(value, file.origin, file, rules)
    elif _is_rows(value):
        for number, row in enumerate(value):
            yield from from_json(row, f"{file.origin}[{number}]", file, rules)
    else:
        raise InvalidDocument("neither JSON-LD (with @type or @graph) nor a list of rows; one row a line is .jsonl")


def holds_documents(file: File) -> bool:
    """Whether a file is what `json_file` reads; also one that is no JSON at all, since that is a fault to be named."""
    try:
        value = _loaded(file)
    except InvalidDocument:
        return True
    return _is_linked(value) or (type(value) is dict and "@type" in value) or _is_rows(value)


def _is_rows(value: Json) -> bool:
    return type(value) is list and all(type(row) is dict for row in value)


def spaces_of(file: File) -> set[str]:
    """The embedding spaces that the rows of a file bring vectors for."""
    named = (row.get("vectors") for row in rows_of(file))
    return {name for vectors in named if type(vectors) is dict for name in vectors}


def rows_of(file: File) -> list[dict[str, Json]]:
    """The rows or objects of a file that is a list of them or one; none of another one, whatever it is."""
    try:
        value = _loaded(file)
    except InvalidDocument:
        return []
    if type(value) is dict:
        value = [value]
    return [row for row in value if type(row) is dict] if type(value) is list else []


def _loaded(file: File) -> Json:
    return read_json(content(file).removeprefix(BYTE_ORDER_MARK), MOST_OF_FILE, "one row a line is .jsonl")


def _is_linked(value: Json) -> bool:
    """Whether a text is a graph, whose objects may link to each other: a list is one where any of it is JSON-LD."""
    if type(value) is dict:
        return "@graph" in value and "@type" not in value
    return type(value) is list and any(type(row) is dict and ("@type" in row or "@graph" in row) for row in value)
