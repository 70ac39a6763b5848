"""Rows without a text, and columns that no mapping describes: what they mean by their names and values.

A row without a text gets the text of its columns, "name: Kettle", a line each, long texts first. Id, title, address and
date are read from columns of the usual names, and properties of schema.org (price, brand, image) become metadata of
that name, so that filters and items of NLWeb find them. The columns remain metadata, but for free text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.engine.retrieve.measures import read_bounds
from aidre.engine.schema_text import extract_text, extract_title
from aidre.ingest.formats.tables.column_names import DATE_PROPERTIES, TYPES, Columns, find_columns, squeeze
from aidre.ingest.records import RESERVED_METADATA, File, is_schema_object, note, read_date, to_document_id

_TEXT_CHARACTERS: Final = 80
"""A longer text comes first in the text of a row."""

_FREE_CHARACTERS: Final = 200
"""A longer text, or one of several lines, is not metadata: no filter compares it."""

_TITLE_CHARACTERS: Final = 300
_NAME_CHARACTERS: Final = 100
"""Longest title, and longest text that names a row."""

_MAX_DEPTH: Final = 8
"""Levels of an object that text is taken from."""

_MAX_GUESSED: Final = 1 << 20
"""Ids of a file that are remembered: a column that is only called like one may repeat its values."""

_ADDRESS: Final = re.compile(r"(?:https?:|data:|www\.|//)\S*", re.IGNORECASE)
_LETTER: Final = re.compile(r"[^\W\d_]")
_WEB: Final = re.compile(r"https?://\S+")
_WRITTEN_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
_CURRENCIES: Final = frozenset({"EUR", "USD", "GBP", "CHF"})
_MEMBERS: Final = frozenset({"id", "title", "text", "url", "updated_at", "section", "type", "metadata", "vectors"})
_NOT_TEXT: Final = frozenset({"id", "uuid", "guid", "vectors", "metadata", "semanticpayload"})
"""Members that say nothing to a reader; `metadata` is read member by member."""


class Unmapped:
    """Completes the rows of one file. `names` are the columns of a table, None where each row has its own."""

    def __init__(self, file: File, names: Collection[str] | None = None) -> None:
        mapping = file.mapping
        self._file = file
        self._mapped = () if mapping is None else tuple(mapping.members)
        self._is_listed = mapping is not None and mapping.metadata is not None
        self._is_text_mapped = "text" in self._mapped
        self._columns = find_columns(tuple(names)) if names is not None and mapping is None else None
        self._guessed: set[str] = set()

    def lacks_text(self, row: Mapping[str, Json]) -> bool:
        """Whether neither the row nor a mapping says what its text is."""
        text = row.get("text")
        return not self._is_text_mapped and (text is None or (type(text) is str and not text.strip()))

    def guess_id(self, row: Mapping[str, Json]) -> str | None:
        """The id that the columns of a row have. One that is not called "id" is a guess: it holds for the first row
        that has it, since the column may be something else of the row (the product of a review)."""
        columns = self._columns or find_columns(tuple(row))
        for name in (*columns.ids, *columns.urls):
            identity = _to_id(row.get(name))
            if identity is None:
                continue
            if squeeze(name) == "id":
                return identity
            if identity in self._guessed:
                return None
            if len(self._guessed) < _MAX_GUESSED:
                self._guessed.add(identity)
            return identity
        return None

    def complete(self, row: dict[str, Json], original: Mapping[str, Json]) -> dict[str, Json]:
        """The row with what it lacks, but for its id; `original` is the row before a mapping.

        A row that brings a payload says itself what it is: of a schema.org object text and title are its own.
        """
        columns = self._columns or find_columns(tuple(row))
        completed = dict(row)
        payload = row.get("semantic_payload")
        about = payload if is_schema_object(payload) else {}
        if completed.get("title") is None and "title" not in self._mapped:
            names = (_to_title(row.get(name)) for name in columns.titles)
            title = next(filter(None, names), None) or extract_title(about)
            completed |= {} if title is None else {"title": title}
        if not self._is_listed and "semantic_payload" not in row:
            completed |= _find_properties(row, columns)
        if self.lacks_text(row):
            completed["text"] = extract_text(about) or to_text(original)
            if completed.get("title") is None and "title" not in self._mapped:
                completed |= _find_name(row, columns)
            _add_url_and_date(completed, columns)
            self._remove_texts(completed, columns)
        return completed

    def _remove_texts(self, row: dict[str, Json], columns: Columns) -> None:
        """Remove the metadata that are free text, or cannot be stored."""
        for name in row.keys() - _MEMBERS - set(columns.titles):
            if _is_free(name, row[name], columns):
                del row[name]
        for name in RESERVED_METADATA & row.keys() - {"updated_at"}:
            if name != "canonical" or type(row[name]) not in (bool, str):
                del row[name]
                note(self._file, f"the column {name} is text alone: no filter can have its name")
        if "type" in row and type(row["type"]) is not str:
            del row["type"]


def _find_name(row: Mapping[str, Json], columns: Columns) -> dict[str, Json]:
    """The first short text of a row as its title, where no column is called like one; no dates and addresses."""
    names = (name for name in row if name not in _MEMBERS and name not in columns.texts and name not in columns.ids)
    for name in names:
        title = _to_title(row[name]) if type(row[name]) is str else None
        if title and len(title) <= _NAME_CHARACTERS and _LETTER.search(title) and read_date(title) is None:
            return {"title": title}
    return {}


def _add_url_and_date(row: dict[str, Json], columns: Columns) -> None:
    if row.get("url") is None:
        url = next((row[name] for name in columns.urls if _is_web(row.get(name))), None)
        row |= {} if url is None else {"url": url.strip()}
    if row.get("updated_at") is None:
        dates = (read_date(row[name]) for name in columns.dates if row.get(name) is not None)
        date = next(filter(None, dates), None)
        row |= {} if date is None else {"updated_at": date}


def to_text(row: Mapping[str, Json]) -> str:
    """The columns of a row as lines, "name: Kettle", those with long texts first; addresses only where all are."""
    lines = [(name, text) for name, text in _texts(row) if squeeze(name.partition(".")[0]) not in _NOT_TEXT]
    telling = [(name, text) for name, text in lines if not _ADDRESS.fullmatch(text)] or lines
    long = [pair for pair in telling if len(pair[1]) > _TEXT_CHARACTERS]
    short = [pair for pair in telling if len(pair[1]) <= _TEXT_CHARACTERS]
    return "\n".join(f"{name}: {text}" for name, text in (*long, *short))


def _texts(row: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for name, value in row.items():
        if name == "metadata" and type(value) is dict:
            yield from _texts(value)
        else:
            yield from _value_texts(name.strip() or "column", value, _MAX_DEPTH)


def _value_texts(name: str, value: Json, depth: int) -> Iterator[tuple[str, str]]:
    """The texts in a value, each with its name; a member of an object has a dotted one."""
    if type(value) is str:
        if value.strip():
            yield name, value.strip()
    elif type(value) is dict and depth:
        for member, inner in value.items():
            yield from _value_texts(f"{name}.{member}", inner, depth - 1)
    elif type(value) is list and depth:
        if all(type(item) not in (dict, list) for item in value):
            words = ", ".join(text for item in value for _, text in _value_texts(name, item, 0))
            yield from _value_texts(name, words, depth)
        else:
            for item in value:
                yield from _value_texts(name, item, depth - 1)
    elif value is not None and type(value) not in (dict, list):
        yield name, orjson.dumps(value).decode()


def _find_properties(row: Mapping[str, Json], columns: Columns) -> dict[str, Json]:
    """The properties of schema.org that the columns hold, by their names; and the type, if the row names none."""
    found: dict[str, Json] = {}
    own = row["metadata"] if type(row.get("metadata")) is dict else {}
    for property_, column in columns.properties.items():
        value = row.get(column)
        if value is not None and property_ not in own:
            read = _READERS.get(property_)
            found |= {property_: value} if read is None else read(property_, value, column)
    if row.get("type") is None:
        kind = next((kind for name, kind in TYPES if name in found), None)
        found |= {} if kind is None else {"type": kind}
    return found


def _read_date(property_: str, value: Json, column: str) -> dict[str, Json]:
    """A date that is written in another way than RFC 3339 in that way, if it is one."""
    is_standard = type(value) is str and _WRITTEN_DATE.match(value)
    return {property_: value if is_standard else read_date(value) or value}


def _read_price(property_: str, value: Json, column: str) -> dict[str, Json]:
    """A price as a number, with its currency where the cell or the name of the column tells it."""
    code = squeeze(column)[-3:].upper()
    codes: tuple[str, ...] = (code,) if code in _CURRENCIES else ()
    if type(value) is str:
        bounds = read_bounds(value)
        if bounds is None or not bounds.exact or bounds.low is None:
            return {property_: value}
        value, codes = bounds.low, bounds.currencies or codes
    return {property_: value, **({"priceCurrency": codes[0]} if len(codes) == 1 else {})}


_READERS: Final[Mapping[str, Callable[[str, Json, str], dict[str, Json]]]] = {
    "price": _read_price,
    **dict.fromkeys(DATE_PROPERTIES, _read_date),
}


def _is_free(name: str, value: Json, columns: Columns) -> bool:
    if type(value) is not str or _ADDRESS.fullmatch(value.strip()):
        return False
    return name in columns.texts or len(value) > _FREE_CHARACTERS or "\n" in value.strip()


def _to_title(value: Json) -> str | None:
    if type(value) in (int, float):
        return str(value)
    if type(value) is not str or not value.strip() or len(value) > _TITLE_CHARACTERS or _ADDRESS.fullmatch(value):
        return None
    return " ".join(value.split())


def _to_id(value: Json) -> str | None:
    try:
        return None if value is None else to_document_id(value.strip() if type(value) is str else value)
    except InvalidDocument:
        return None


def _is_web(value: Json) -> bool:
    return type(value) is str and _WEB.fullmatch(value.strip()) is not None
