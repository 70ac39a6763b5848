"""From documents to columns: what a document offers to filters, flattened and sorted by name and JSON type.

Members of the metadata and of the schema.org object are fields, those of nested objects by dotted names (leaves.py);
where both have a name, the field has the values of both. Reserved names mean what they always mean, the others are
reached by `metadata.NAME`. Knows nothing of files, of filters only how fields are called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from aidre.engine.columns import INT_MISSING, Column, Kind, Rows, Values, column_of, dtype_of
from aidre.engine.filters import (
    RESERVED,
    field_name,
    holds_dates,
    metadata_name,
    parse_instant,
    plain_number,
    site_of,
)
from aidre.engine.leaves import PRESENT, SCALARS, Leaf, member_leaves, object_leaves
from aidre.engine.model import Json
from aidre.engine.words import Strings, Words, kernels, ranked, strings_of


class FieldRow(NamedTuple):
    """What one document offers to filters."""

    document_id: str
    url: str | None
    type: str | None
    updated_at: str
    metadata: Mapping[str, Json]
    schema_object: Mapping[str, Json] | None = None


Columns: TypeAlias = dict[tuple[str, Kind], Column]
Pairs: TypeAlias = tuple[list[int], list[Any]]
"""Rows and their values, as they come."""


Present: TypeAlias = tuple[Rows, Strings]
"""The rows that have a string, and their strings."""

Content: TypeAlias = tuple[Mapping[str, Json], Mapping[str, Json] | None]
"""The metadata and the schema.org object of a document."""


class Reserved(NamedTuple):
    """The reserved fields of documents, column by column."""

    ids: Strings
    moments: Strings
    urls: Present
    types: Present


@dataclass(slots=True)
class _Gathered:
    """All values so far: members by type and path, and the types of schema.org objects."""

    members: dict[type, dict[str, Pairs]] = field(default_factory=lambda: {kind: {} for kind in (*SCALARS, object)})
    types: Pairs = field(default_factory=lambda: ([], []))

    def take(self, contents: Iterable[Content]) -> None:
        """One document after the other; the inner loop runs once for every value of a million documents."""
        members = self.members
        for row, (metadata, schema_object) in enumerate(contents):
            if schema_object is not None:
                self._take_object(row, schema_object)
            for path, value in metadata.items():
                paths = members.get(type(value))
                if paths is None:
                    if value is not None:
                        self._take_leaves(row, member_leaves(path, value))
                    continue
                pairs = paths.get(path)
                if pairs is None:
                    pairs = paths[path] = ([], [])
                pairs[0].append(row)
                pairs[1].append(value)

    def _take_object(self, row: int, schema_object: Mapping[str, Json]) -> None:
        for name in _schema_types(schema_object):
            self.types[0].append(row)
            self.types[1].append(name)
        self._take_leaves(row, object_leaves(schema_object))

    def _take_leaves(self, row: int, leaves: Iterable[Leaf]) -> None:
        for name, leaf in leaves:
            rows, values = self.members[type(leaf)].setdefault(name, ([], []))
            rows.append(row)
            values.append(leaf)


def _schema_types(schema_object: Mapping[str, Json]) -> Iterator[str]:
    """The types of a schema.org object; one that is given as a URL by its last name too."""
    declared = schema_object.get("@type")
    for name in declared if isinstance(declared, list) else [declared]:
        if isinstance(name, str):
            yield name
            if "schema.org/" in name:
                yield name.rpartition("/")[2]


def names_of(content: Content) -> set[str]:
    """The names of the fields that a document has, as filters write them, the reserved ones aside."""
    metadata, schema_object = content
    paths: set[str] = set()
    for path, value in metadata.items():
        if type(value) in SCALARS:
            paths.add(path)
        else:
            paths.update(name for name, _ in member_leaves(path, value))
    if schema_object is not None:
        paths.update(name for name, _ in object_leaves(schema_object))
    return set(map(metadata_name, paths))


def columns_of(documents: Iterable[FieldRow], dates: Collection[str]) -> tuple[Columns, int]:
    """The columns over the documents and how many these are."""
    documents = list(documents)
    reserved = Reserved(
        strings_of([each.document_id for each in documents]),
        strings_of([each.updated_at for each in documents]),
        _present([each.url for each in documents]),
        _present([each.type for each in documents]),
    )
    return columns_from(reserved, ((each.metadata, each.schema_object) for each in documents), dates)


def _present(values: Sequence[str | None]) -> Present:
    rows = [row for row, value in enumerate(values) if value is not None]
    return np.array(rows, np.int32), strings_of([value for value in values if value is not None])


def columns_from(reserved: Reserved, contents: Iterable[Content], dates: Collection[str]) -> tuple[Columns, int]:
    """The columns over documents that are given by columns, and how many these are.

    Strings are read as dates too in the fields `dates` and in those that hold dates by their schema.org names.
    """
    gathered = _Gathered()
    gathered.take(contents)
    size = len(reserved.ids)
    columns = _Columns(size)
    every = np.arange(size, dtype=np.int32)
    columns.put_dates("updated_at", every, instants_of(reserved.moments))
    columns.put_strings("document_id", every, reserved.ids)
    columns.put_strings("url", *reserved.urls)
    columns.put_strings("site", *_sites(*reserved.urls))
    (own, types), (others, names) = reserved.types, gathered.types
    columns.put_strings(
        "type", np.concatenate([own, np.array(others, np.int32)]), pa.concat_arrays([types, strings_of(names)])
    )
    declared = frozenset(map(field_name, dates)) - RESERVED
    found = gathered.members
    for path, (rows, values) in found[str].items():
        name = metadata_name(path)
        columns.put_strings(name, rows, strings_of(values), dates=name in declared or holds_dates(name))
    for path, pairs in found[int].items():
        columns.put_integers(path, pairs, found[float])
    for path, pairs in found[float].items():
        columns.put_floats(path, pairs, found[object])
    for path, (rows, values) in found[bool].items():
        columns.put(metadata_name(path), "bool", rows, values)
    for path, (rows, _) in found[object].items():
        columns.put(metadata_name(path), "other", rows, np.zeros(len(rows), np.int32))
    return columns.columns, size


@dataclass(slots=True)
class _Columns:
    size: int
    columns: Columns = field(default_factory=dict)

    def put(self, name: str, kind: Kind, rows: Any, values: Any) -> None:
        if len(rows):
            numbers = np.array(rows, np.int32), np.array(values, dtype_of(kind))
            self.columns[name, kind] = column_of(kind, self.size, *numbers)

    def put_strings(self, name: str, rows: Sequence[int] | Rows, strings: Strings, *, dates: bool = False) -> None:
        if len(rows):
            words, codes = ranked(strings)
            self.columns[name, "string"] = column_of("string", self.size, np.array(rows, np.int32), codes, words)
            if dates:
                self.put_dates(name, rows, instants_of(words.array)[codes])

    def put_dates(self, name: str, rows: Sequence[int] | Rows, moments: Values) -> None:
        read = moments != INT_MISSING
        self.put(name, "date", np.array(rows, np.int32)[read], moments[read])

    def put_integers(self, path: str, pairs: Pairs, floats: dict[str, Pairs]) -> None:
        """Those that do not fit into 64 bits go to the floats of the same field."""
        rows, values = pairs
        try:
            fitting = np.array(values, np.int64) != INT_MISSING
        except OverflowError:
            fitting = np.array([INT_MISSING < value < -INT_MISSING for value in values])
        if not fitting.all():
            wide = np.flatnonzero(~fitting).tolist()
            others = floats.setdefault(path, ([], []))
            others[0].extend(rows[i] for i in wide)
            others[1].extend(float(plain_number(values[i])) for i in wide)
            narrow = np.flatnonzero(fitting).tolist()
            rows, values = [rows[i] for i in narrow], [values[i] for i in narrow]
        self.put(metadata_name(path), "int", rows, values)

    def put_floats(self, path: str, pairs: Pairs, others: dict[str, Pairs]) -> None:
        """NaN goes to what is only there."""
        rows, values = np.array(pairs[0], np.int32), np.array(pairs[1], np.float64)
        absent = np.isnan(values)
        if absent.any():
            there = others.setdefault(path, ([], []))
            there[0].extend(rows[absent].tolist())
            there[1].extend([PRESENT] * int(absent.sum()))
        self.put(metadata_name(path), "float", rows[~absent], values[~absent])


def _sites(rows: Rows, urls: Strings) -> Present:
    """The sites of the URLs that have one. What ends at the first slash behind the host is looked at once."""
    heads = [
        url[:end] if (end := url.find(b"/", 8)) > 0 and url.startswith((b"http://", b"https://")) else url
        for url in urls.to_pylist()
    ]
    known = {head: site_of(head.decode("utf-8", "surrogatepass")) for head in set(heads)}
    sites = list(map(known.__getitem__, heads))
    has_one = np.fromiter((site is not None for site in sites), np.bool_, len(sites))
    return rows[has_one], strings_of([site for site in sites if site is not None])


def instants_of(strings: Strings) -> Values:
    """Microseconds since 1970 of every date, INT_MISSING where a string is none. All in one go if all are plain."""
    plain = kernels.and_(kernels.equal(kernels.binary_length(strings), 20), kernels.ends_with(strings, b"Z"))
    if len(strings) and kernels.all(plain).as_py():
        try:
            seconds: Values = strings.cast(pa.large_string()).cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            return _instants_one_by_one(strings)
        if seconds.min() >= _YEAR_1:
            return np.multiply(seconds, 1_000_000)
    return _instants_one_by_one(strings)


_YEAR_1: Final = -62_135_596_800


def _instants_one_by_one(strings: Strings) -> Values:
    texts = Words(strings).texts()
    moments = (INT_MISSING if one is None else one for one in map(parse_instant, texts))
    return np.fromiter(moments, np.int64, len(strings))
