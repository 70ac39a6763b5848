"""The fields of documents in one Arrow record batch, and the masks that filters mean over them.

A row of the batch is one column, (name, kind), so that thousands of rare names cost rows and not a schema of
thousands of columns. One row a document; knows nothing of chunks, deletes and segments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import takewhile
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.columns import INT_MISSING, NO_WORDS, Column, Kind, Mask, Rows, Values, column_of, dtype_of
from aidre.engine.field_rows import Columns, Content, FieldRow, Reserved, columns_from, columns_of, instants_of
from aidre.engine.filters import RESERVED, And, Compare, Filter, Instant, Not, Or, Scalar
from aidre.engine.words import Strings, Words, encoded, no_strings, ranked

__all__ = ["FieldRow", "Fields", "build_fields", "build_fields_from", "concat_fields"]

_NUMBERS: Final[dict[str, Any]] = {
    "rows": pa.int32(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
}
_TYPES: Final[dict[str, pa.DataType]] = {
    "name": pa.large_binary(),
    "kind": pa.string(),
    "dense": pa.bool_(),
    **{name: pa.large_list(kind) for name, kind in _NUMBERS.items()},
    "words": pa.large_list(pa.large_binary()),
}
_SCHEMA: Final = pa.schema(_TYPES)
_VERSION: Final = 2
"""Of what is gathered, not of the columns: batches without the members of schema.org objects were the first."""
_COMPARED: Final[dict[Kind, tuple[type, ...]]] = {
    "string": (str,), "bool": (bool,), "int": (int, float), "float": (int, float), "date": (Instant,), "other": (),
}  # fmt: skip


def build_fields(rows: Iterable[FieldRow], dates: Collection[str] = ()) -> pa.RecordBatch:
    """The columns of these documents; strings of the fields `dates` are stored as instants too."""
    return _batch(*columns_of(rows, dates))


def build_fields_from(reserved: Reserved, contents: Iterable[Content], dates: Collection[str] = ()) -> pa.RecordBatch:
    """The same of documents that are given by columns."""
    return _batch(*columns_from(reserved, contents, dates))


def _batch(columns: Columns, size: int) -> pa.RecordBatch:
    """The columns in order of name and kind, whatever order they were met in."""
    entries = sorted(((encoded(name), kind, column) for (name, kind), column in columns.items()), key=lambda e: e[:2])
    arrays: dict[str, list[Values]] = {name: [] for name in _NUMBERS}
    nothing = np.empty(0, np.int8)
    for _, _, column in entries:
        stored = {"rows": column.rows, column.values.dtype.name: column.values}
        for name, each in arrays.items():
            values = stored.get(name)
            each.append(nothing if values is None else values)
    words = [column.words.array for _, _, column in entries]
    parts: list[Any] = [
        pa.array([name for name, _, _ in entries], pa.large_binary()),
        pa.array([kind for _, kind, _ in entries], pa.string()),
        pa.array([column.rows is None for _, _, column in entries], pa.bool_()),
        *(
            _listed(lists, pa.array(np.concatenate([*lists, nothing]), _NUMBERS[name]))
            for name, lists in arrays.items()
        ),
        _listed(words, pa.concat_arrays([*words, no_strings()])),
    ]
    metadata = {"rows": str(size), "version": str(_VERSION)}
    return pa.RecordBatch.from_arrays(parts, schema=_SCHEMA.with_metadata(metadata))


def _listed(parts: Sequence[Any], values: Strings) -> Strings:
    """A list column with one entry a part; `values` are those of all parts."""
    offsets: Any = pa.array(np.cumsum([0, *map(len, parts)]), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, values, type=pa.large_list(values.type))


class Fields:
    """A view over one batch of `build_fields`, in memory or mapped; immutable, safe to share between threads.

    Opening looks at no name; a column is looked at when a filter first names it. Raises ValueError for a batch that
    is not one of `build_fields`, or whose lengths contradict each other.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(_SCHEMA):
            raise ValueError("not a batch of fields; build it again from the documents")
        batch.validate()
        metadata = batch.schema.metadata or {}
        if metadata.get(b"version") != str(_VERSION).encode():
            raise ValueError("holds the fields as another release gathers them; compact the collection")
        self.rows = int(metadata[b"rows"])
        self._lists = {name: _Lists(batch.column(name)) for name in (*_NUMBERS, "words")}
        self._dense, self._kinds = batch.column("dense"), batch.column("kind")
        self._names = Words(batch.column("name"))
        self._columns: Columns = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """All of them but the reserved ones."""
        return frozenset(self._names.texts()) - RESERVED

    def __contains__(self, name: str) -> bool:
        """Whether any document has the field."""
        return bool(self._entries(name))

    def _entries(self, name: str) -> dict[Kind, int]:
        """The kinds of column that are stored of a field, each with its row of the batch."""
        wanted = encoded(name)
        own = takewhile(lambda entry: self._names[entry] == wanted, range(self._names.first(wanted), len(self._names)))
        return {self._kinds[entry].as_py(): entry for entry in own}

    def mask(self, filter: Filter) -> Mask:
        """The rows that the filter lets through; the array belongs to the caller."""
        match filter:
            case Compare(name, "ne", value):
                return ~self._compared(name, "eq", value)
            case Compare(name, "exists", value):
                return self._existing(name) if value else ~self._existing(name)
            case Compare(name, op, value):
                return self._compared(name, op, value)
            case Not(part):
                return ~self.mask(part)
            case And(parts):
                return self._all(parts)
            case Or(parts):
                return ~self._all([Not(part) for part in parts])

    def _all(self, parts: Sequence[Filter]) -> Mask:
        mask = np.ones(self.rows, np.bool_)
        for part in parts:
            mask &= self.mask(part)
            if not mask.any():
                break
        return mask

    def _existing(self, name: str) -> Mask:
        mask = np.zeros(self.rows, np.bool_)
        for kind in self._entries(name):
            mask |= self.column(name, kind).present()
        return mask

    def _compared(self, name: str, op: str, value: Scalar | tuple[Scalar, ...]) -> Mask:
        values = value if isinstance(value, tuple) else (value,)
        masks = []
        for kind in self.kinds(name):
            alike = [one for one in values if type(one) in _COMPARED[kind]]
            if alike:
                column, plain = self.column(name, kind), list(map(_plain, alike))
                if op in {"eq", "in"}:
                    masks.append(column.within(column.points(plain)))
                else:
                    masks.append(column.within(column.landmarks(one).interval(op) for one in plain))
        return reduce(np.logical_or, masks) if masks else np.zeros(self.rows, np.bool_)

    def stored(self) -> Iterator[tuple[str, Kind]]:
        """Every column that the batch holds, by name and kind."""
        return zip(self._names.texts(), self._kinds.to_pylist(), strict=True)

    def kinds(self, name: str) -> list[Kind]:
        """The kinds of column that the field has; strings can always be looked at as dates."""
        known: list[Kind] = list(self._entries(name))
        return [*known, "date"] if "string" in known and "date" not in known else known

    def words(self, name: str) -> Words:
        """The different strings of a field."""
        return self.column(name, "string").words if "string" in self._entries(name) else NO_WORDS

    def column(self, name: str, kind: Kind) -> Column:
        """A column as it is stored, or dates read from a field's strings where it was not declared a date."""
        column = self._columns.get((name, kind))
        if column is None:
            entry = self._entries(name).get(kind)
            column = self._dated(name) if entry is None else self._stored(entry, kind)
            self._columns[name, kind] = column
        return column

    def _stored(self, entry: int, kind: Kind) -> Column:
        words = Words(self._lists["words"].part(entry)) if kind == "string" else NO_WORDS
        values = self._lists[np.dtype(dtype_of(kind, len(words))).name].numbers(entry)
        rows = None if self._dense[entry].as_py() else self._lists["rows"].numbers(entry)
        if len(values) != (self.rows if rows is None else len(rows)):
            raise ValueError("a column of fields has lost values; build the fields again from the documents")
        return Column(
            kind, self.rows, values, rows, Words(self._lists["words"].part(entry)) if kind == "string" else NO_WORDS
        )

    def _dated(self, name: str) -> Column:
        column = self.column(name, "string")
        rows, codes = column.pairs()
        moments = instants_of(column.words.array)[codes]
        read = moments != INT_MISSING
        return column_of("date", self.rows, rows[read], moments[read])


def _plain(value: Scalar) -> str | float:
    return value.microseconds if isinstance(value, Instant) else value


class _Lists:
    """One list column of the batch, an entry at a time, without a copy."""

    def __init__(self, array: Any) -> None:
        self._offsets = array.offsets.to_numpy()
        self._values = array.values

    def part(self, entry: int) -> Strings:
        start, stop = int(self._offsets[entry]), int(self._offsets[entry + 1])
        part: Strings = self._values[max(start, 0) : max(stop, 0)]
        return part

    def numbers(self, entry: int) -> Values:
        return np.asarray(self.part(entry).to_numpy())


@dataclass(frozen=True, slots=True)
class _Part:
    """Chosen rows of one Fields: `places` says of every row where it goes, -1 if nowhere."""

    fields: Fields
    chosen: NDArray[np.intp]
    places: Rows

    def pairs(self, name: str, kind: Kind) -> tuple[Rows, Values, Words] | None:
        if kind not in self.fields.kinds(name):
            return None
        column = self.fields.column(name, kind)
        rows, values = column.chosen(self.chosen, self.places)
        return rows, values, column.words


def concat_fields(parts: Sequence[tuple[Fields, NDArray[np.intp]]]) -> pa.RecordBatch:
    """The given rows of each part, each at most once, in order: what `build_fields` makes of their documents."""
    size = 0
    sources: list[_Part] = []
    for fields, chosen in parts:
        places = np.full(fields.rows, -1, np.int32)
        places[chosen] = np.arange(size, size + len(chosen), dtype=np.int32)
        sources.append(_Part(fields, chosen, places))
        size += len(chosen)
    columns: Columns = {}
    for name, kind in {stored for fields, _ in parts for stored in fields.stored()}:
        column = _joined([source.pairs(name, kind) for source in sources], kind, size)
        if column is not None:
            columns[name, kind] = column
    return _batch(columns, size)


def _joined(parts: Sequence[tuple[Rows, Values, Words] | None], kind: Kind, size: int) -> Column | None:
    """One column of the pairs of all parts; None where there are none."""
    found = [part for part in parts if part is not None and len(part[0])]
    if not found:
        return None
    rows, values = np.concatenate([part[0] for part in found]), [part[1] for part in found]
    if kind != "string":
        return column_of(kind, size, rows, np.concatenate(values))
    words: list[Strings] = []
    start = 0
    for number, (_, codes, dictionary) in enumerate(found):
        used = np.zeros(len(dictionary), np.bool_)
        used[codes] = True
        values[number] = (np.cumsum(used) + (start - 1))[codes]
        words.append(dictionary.array if used.all() else dictionary.array.filter(pa.array(used)))
        start += len(words[-1])
    joined, codes = ranked(pa.concat_arrays(words))
    return column_of(kind, size, rows, codes[np.concatenate(values)], joined)
