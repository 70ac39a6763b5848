"""The field index: the fields of documents in one Arrow record batch, and the masks of filters over them.

Each row of the batch is one typed column, keyed by (name, kind), so that thousands of rare names cost rows and not a
schema of thousands of columns. Masks have one entry a document. Knows no chunks, deletes or segments.

Counts of the distinct values of a column among some of its rows.

Codes and integers of a narrow range are counted in a table, others are sorted; a sorted column is in order already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import takewhile
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields.builder import (
    Columns,
    Content,
    ReservedColumns,
    columns_from,
    parse_instants,
    string_column,
)
from aidre.engine.index.fields.columns import (
    EMPTY_DICTIONARY,
    INT_MISSING,
    Column,
    Kind,
    Mask,
    Rows,
    Values,
    build_column,
    dtype_of,
)
from aidre.engine.index.fields.filters import (
    RESERVED,
    And,
    Compare,
    Filter,
    Instant,
    Not,
    Or,
    Scalar,
    ValueRange,
    Wording,
)
from aidre.engine.index.fields.members import TITLE
from aidre.engine.storage import (
    BinaryArray,
    StringDictionary,
    build_dictionary,
    empty_binary_array,
    is_run_start,
    to_utf8,
)

_MIN_TABLE_SPAN: Final = 1 << 16
"""A table may always have this many entries; beyond it, no more than there are values."""

_DAY: Final = 86_400_000_000
"""Microseconds. Dates without a time are counted by day."""

_CENTS: Final = 100.0
"""Most floats of documents have two decimals at most, such as prices, and are counted as integers."""


class ValueCounts(NamedTuple):
    """The distinct values of one kind in ascending order, and the number of rows that have each.

    Values are codes into the `dictionary` for strings, 0 and 1 for `bool`, microseconds since 1970 for `date`.
    """

    kind: Kind
    values: Values
    counts: NDArray[np.int64]
    dictionary: StringDictionary


def count_values(column: Column, mask: Mask | None) -> ValueCounts:
    """The counts among the rows of a mask, among all rows if it is None. A row counts once for each of its values."""
    if column.rows is not None:
        values = column.values if mask is None else column.values[mask[column.rows]]
        counted = _count_runs(values)
    else:
        counted = _count_dense(column, column.values if mask is None else column.values[mask])
    return ValueCounts(column.kind, *counted, column.dictionary)


def bounds_of(column: Column, mask: Mask | None) -> tuple[Any, Any] | None:
    """The least and the greatest value among the rows of a mask; None where there is none."""
    if column.rows is not None:
        values = column.values if mask is None else column.values[mask[column.rows]]
        return (values[0].item(), values[-1].item()) if len(values) else None
    present = column.present() if mask is None else column.present() & mask
    values = column.values[present]
    return (values.min().item(), values.max().item()) if len(values) else None


def _count_dense(column: Column, values: Values) -> tuple[Values, NDArray[np.int64]]:
    if column.kind == "float":
        return _count_floats(values[~np.isnan(values)])
    if column.kind in {"int", "date"}:
        return _count_integers(values[values != INT_MISSING])
    counts = np.bincount(np.add(values, 1, dtype=np.intp))[1:]  # the first entry is that of -1, the missing value
    found = np.flatnonzero(counts)
    return found, counts[found]


def _count_integers(values: Values) -> tuple[Values, NDArray[np.int64]]:
    if not len(values):
        return values, np.empty(0, np.int64)
    counted = _count_in_table(values)
    if counted is None:
        days = values // _DAY
        by_day = _count_in_table(days) if (days * _DAY == values).all() else None
        counted = None if by_day is None else (by_day[0] * _DAY, by_day[1])
    return counted or _count_runs(np.sort(values))


def _count_floats(values: Values) -> tuple[Values, NDArray[np.int64]]:
    if len(values) and _is_narrow(values.min() * _CENTS, values.max() * _CENTS, len(values)):
        cents = np.rint(values * _CENTS)
        if (cents / _CENTS == values).all():
            found, counts = _count_integers(cents.astype(np.int64))
            return found / _CENTS, counts
    return _count_runs(np.sort(values))


def _count_in_table(values: Values) -> tuple[Values, NDArray[np.int64]] | None:
    """None for a range that is too wide for a table."""
    least = int(values.min())
    if not _is_narrow(least, int(values.max()), len(values)):
        return None
    counts = np.bincount(values - least)
    found = np.flatnonzero(counts)
    return found + least, counts[found]


def _is_narrow(least: float, most: float, count: int) -> bool:
    return bool(most - least < max(_MIN_TABLE_SPAN, count) and abs(least) < 2**62)


def _count_runs(ordered: Values) -> tuple[Values, NDArray[np.int64]]:
    starts = np.flatnonzero(is_run_start(ordered))
    return ordered[starts], np.diff(starts, append=len(ordered))


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
"""Version of the collected values, not of the schema: 1 had no members of schema.org objects."""

_BESIDE: Final = -1
"""Instead of the row of the batch, of the column that is not in it."""

_COMPARABLE: Final[dict[Kind, tuple[type, ...]]] = {
    "string": (str,), "bool": (bool,), "int": (int, float), "float": (int, float), "date": (Instant,), "other": (),
}  # fmt: skip


def build_fields(reserved: ReservedColumns, contents: Iterable[Content], dates: Collection[str]) -> pa.RecordBatch:
    """The field index of documents; strings of the fields `dates` are also stored as instants."""
    return _batch(*columns_from(reserved, contents, dates))


def _batch(columns: Columns, size: int) -> pa.RecordBatch:
    """The batch of some columns over `size` documents, sorted by name and kind."""
    entries = sorted(((to_utf8(name), kind, column) for (name, kind), column in columns.items()), key=lambda e: e[:2])
    numbers: dict[str, list[Values]] = {name: [] for name in _NUMBERS}
    empty = np.empty(0, np.int8)
    for _, _, column in entries:
        stored = {"rows": column.rows, column.values.dtype.name: column.values}
        for name, arrays in numbers.items():
            values = stored.get(name)
            arrays.append(empty if values is None else values)
    dictionaries = [column.dictionary.array for _, _, column in entries]
    words = pa.concat_arrays([*dictionaries, empty_binary_array()])
    batch_columns: list[Any] = [
        pa.array([name for name, _, _ in entries], pa.large_binary()),
        pa.array([kind for _, kind, _ in entries], pa.string()),
        pa.array([column.rows is None for _, _, column in entries], pa.bool_()),
        *(
            _list_column(arrays, pa.array(np.concatenate([*arrays, empty]), _NUMBERS[name]))
            for name, arrays in numbers.items()
        ),
        _list_column(dictionaries, words),
    ]
    metadata = {"rows": str(size), "version": str(_VERSION)}
    return pa.RecordBatch.from_arrays(batch_columns, schema=_SCHEMA.with_metadata(metadata))


def _list_column(arrays: Sequence[Any], values: BinaryArray) -> BinaryArray:
    """A list column with one entry for each array; `values` is their concatenation."""
    offsets: Any = pa.array(np.cumsum([0, *map(len, arrays)]), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, values, type=pa.large_list(values.type))


class FieldIndex:
    """A view over one batch of `build_fields`, in memory or mapped; immutable, safe to share between threads.

    Opening reads no name, and a column is opened when a filter first uses it. The batch has no titles: `titles` gives
    them, one a document or null, when a filter first asks for TITLE. Raises ValueError for a batch of another schema or
    version, or one whose lengths contradict each other.
    """

    def __init__(self, batch: pa.RecordBatch, titles: Callable[[], BinaryArray] | None = None) -> None:
        if not batch.schema.equals(_SCHEMA):
            raise ValueError("not a batch of fields; build it again from the documents")
        batch.validate()
        metadata = batch.schema.metadata or {}
        if metadata.get(b"version") != str(_VERSION).encode():
            raise ValueError("was written by another release, which collects other fields; compact the collection")
        self.rows = int(metadata[b"rows"])
        self._lists = {name: _ListColumn(batch.column(name)) for name in (*_NUMBERS, "words")}
        self._dense, self._kinds = batch.column("dense"), batch.column("kind")
        self._names = StringDictionary(batch.column("name"))
        self._titles = titles
        self._columns: Columns = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all stored fields except the reserved ones."""
        return frozenset(self._names.texts()) - RESERVED

    def __contains__(self, name: str) -> bool:
        """Whether any document has the field."""
        return bool(self._existing(name).any()) if name == TITLE else bool(self._entries(name))

    def _entries(self, name: str) -> dict[Kind, int]:
        """The stored columns of a field: by kind, the row of the batch."""
        if name == TITLE:
            return {} if self._titles is None else {"string": _BESIDE}
        key = to_utf8(name)
        entries = takewhile(lambda entry: self._names[entry] == key, range(self._names.first(key), len(self._names)))
        return {self._kinds[entry].as_py(): entry for entry in entries}

    def mask(self, filter_: Filter) -> Mask:
        """The rows that pass the filter; the caller owns the array."""
        match filter_:
            case Compare(name, "ne", value):
                return ~self._compared(name, "eq", value)
            case Compare(name, "exists", value):
                return self._existing(name) if value else ~self._existing(name)
            case Compare(name, op, value):
                return self._compared(name, op, value)
            case Wording():
                raise InvalidFilter("documents have no wording: it is asked of their chunks")
            case Not(operand):
                return ~self.mask(operand)
            case And(operands):
                return self._all(operands)
            case Or(operands):
                return ~self._all([Not(operand) for operand in operands])

    def _all(self, filters: Sequence[Filter]) -> Mask:
        mask = np.ones(self.rows, np.bool_)
        for filter_ in filters:
            mask &= self.mask(filter_)
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
            comparable = [_stored_form(scalar) for scalar in values if type(scalar) in _COMPARABLE[kind]]
            if comparable:
                column = self.column(name, kind)
                if op == "contains" and kind == "string":
                    parts = (column.dictionary.containing(str(scalar)) for scalar in comparable)
                    masks.append(column.mask_within((code, code) for codes in parts for code in codes))
                elif op in {"eq", "in", "contains"}:
                    masks.append(column.mask_within(column.point_intervals(comparable)))
                else:
                    masks.append(
                        column.mask_within(column.adjacent_values(scalar).interval(op) for scalar in comparable)
                    )
        return reduce(np.logical_or, masks) if masks else np.zeros(self.rows, np.bool_)

    def counts(self, name: str, mask: Mask | None) -> Iterator[ValueCounts]:
        """By kind, the distinct values of a field among the rows of a mask, with the number of these rows that have
        each. A string counts as a string only; values that compare with nothing are left out."""
        kinds = self._entries(name)
        for kind in kinds:
            if kind != "other" and not (kind == "date" and "string" in kinds):
                yield count_values(self.column(name, kind), mask)

    def bounds(self, name: str, kind: Kind, mask: Mask | None) -> tuple[Any, Any] | None:
        """The least and the greatest stored value of a kind among the rows of a mask; None where there is none."""
        return bounds_of(self.column(name, kind), mask) if kind in self._entries(name) else None

    def within(self, name: str, wanted: ValueRange) -> Mask:
        """The rows that have a value in the range."""
        mask = np.zeros(self.rows, np.bool_)
        bounds = [(op, value) for op, value in (("gte", wanted.low), ("lt", wanted.high)) if value is not None]
        for kind in self.kinds(name):
            if all(type(value) in _COMPARABLE[kind] for _, value in bounds):
                column = self.column(name, kind)
                sides = [column.adjacent_values(_stored_form(value)).interval(op) for op, value in bounds]
                if all(low <= high for low, high in sides):  # an empty side may have no number on its other end
                    mask |= column.mask_within([(max(low for low, _ in sides), min(high for _, high in sides))])
        return mask

    def stored(self) -> Iterator[tuple[str, Kind]]:
        """The name and kind of every column of the batch."""
        return zip(self._names.texts(), self._kinds.to_pylist(), strict=True)

    def kinds(self, name: str) -> list[Kind]:
        """The kinds of column that `column` has of a field; strings can always be read as dates."""
        stored: list[Kind] = list(self._entries(name))
        return [*stored, "date"] if "string" in stored and "date" not in stored else stored

    def dictionary(self, name: str) -> StringDictionary:
        """The distinct strings of a field, in order."""
        return self.column(name, "string").dictionary if "string" in self._entries(name) else EMPTY_DICTIONARY

    def column(self, name: str, kind: Kind) -> Column:
        """A stored column, or dates read from the strings of a field that was not declared a date."""
        column = self._columns.get((name, kind))
        if column is None:
            entry = self._entries(name).get(kind)
            column = self._read_dates(name) if entry is None else self._open_column(entry, kind)
            self._columns[name, kind] = column
        return column

    def _open_column(self, entry: int, kind: Kind) -> Column:
        if entry == _BESIDE:
            return string_column(empty_binary_array() if self._titles is None else self._titles())
        dictionary = StringDictionary(self._lists["words"].slice(entry)) if kind == "string" else EMPTY_DICTIONARY
        values = self._lists[np.dtype(dtype_of(kind, len(dictionary))).name].numbers(entry)
        rows = None if self._dense[entry].as_py() else self._lists["rows"].numbers(entry)
        if len(values) != (self.rows if rows is None else len(rows)):
            raise ValueError("a column of fields has lost values; build the fields again from the documents")
        return Column(kind, self.rows, values, rows, dictionary)

    def _read_dates(self, name: str) -> Column:
        column = self.column(name, "string")
        rows, codes = column.pairs()
        instants = parse_instants(column.dictionary.array)[codes]
        is_date = instants != INT_MISSING
        return build_column("date", self.rows, rows[is_date], instants[is_date])


def _stored_form(value: Scalar) -> str | float:
    return value.microseconds if isinstance(value, Instant) else value


class _ListColumn:
    """One list column of the batch, read entry by entry without a copy."""

    def __init__(self, array: Any) -> None:
        self._offsets = array.offsets.to_numpy()
        self._values = array.values

    def slice(self, entry: int) -> BinaryArray:
        start, stop = int(self._offsets[entry]), int(self._offsets[entry + 1])
        values: BinaryArray = self._values[max(start, 0) : max(stop, 0)]
        return values

    def numbers(self, entry: int) -> Values:
        return np.asarray(self.slice(entry).to_numpy())


# -- merging ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _MergedRows:
    """Chosen rows of one field index; `new_rows` has the row of each in the merged index, -1 for rows not chosen."""

    fields: FieldIndex
    chosen: NDArray[np.intp]
    new_rows: Rows

    def pairs(self, name: str, kind: Kind) -> tuple[Rows, Values, StringDictionary] | None:
        if kind not in self.fields.kinds(name):
            return None
        column = self.fields.column(name, kind)
        rows, values = column.renumbered(self.chosen, self.new_rows)
        return rows, values, column.dictionary


def merge_fields(indexes: Sequence[tuple[FieldIndex, NDArray[np.intp]]]) -> pa.RecordBatch:
    """The given rows of each index, each at most once, in order: equal to `build_fields` of their documents."""
    size = 0
    sources: list[_MergedRows] = []
    for fields, chosen in indexes:
        new_rows = np.full(fields.rows, -1, np.int32)
        new_rows[chosen] = np.arange(size, size + len(chosen), dtype=np.int32)
        sources.append(_MergedRows(fields, chosen, new_rows))
        size += len(chosen)
    columns: Columns = {}
    for name, kind in {stored for fields, _ in indexes for stored in fields.stored()}:
        column = _merged_column([source.pairs(name, kind) for source in sources], kind, size)
        if column is not None:
            columns[name, kind] = column
    return _batch(columns, size)


def _merged_column(
    sources: Sequence[tuple[Rows, Values, StringDictionary] | None], kind: Kind, size: int
) -> Column | None:
    """One column of the pairs of all sources; None where there are none."""
    present = [source for source in sources if source is not None and len(source[0])]
    if not present:
        return None
    rows, values = np.concatenate([source[0] for source in present]), [source[1] for source in present]
    if kind != "string":
        return build_column(kind, size, rows, np.concatenate(values))
    strings: list[BinaryArray] = []
    start = 0
    for i, (_, codes, dictionary) in enumerate(present):
        is_used = np.zeros(len(dictionary), np.bool_)
        is_used[codes] = True
        values[i] = (np.cumsum(is_used) + (start - 1))[codes]  # codes into the strings of all sources, concatenated
        strings.append(dictionary.array if is_used.all() else dictionary.array.filter(pa.array(is_used)))
        start += len(strings[-1])
    dictionary, codes = build_dictionary(pa.concat_arrays(strings))
    return build_column(kind, size, rows, codes[np.concatenate(values)], dictionary)
