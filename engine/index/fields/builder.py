"""Builds typed columns from documents: the values of their fields, flattened, by name and JSON type.

The members of the metadata and of the schema.org object are fields, those of nested objects under dotted names. A field
that both have holds the values of both. A reserved name always means the reserved field; a member of that name is
reached as `metadata.NAME`. Knows no files, and of filters only the names of fields.

Every element of a list is a value of its field. An object is itself only PRESENT: it exists, and compares with nothing.
Null is no value. The traversal keeps its own stack, so no depth of nesting can exhaust Python's.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from aidre.engine.index.fields.columns import INT_MISSING, Column, Kind, Rows, Values, build_column, dtype_of
from aidre.engine.index.fields.filters import (
    MAX_CHARACTERS,
    RESERVED,
    is_schema_date,
    metadata_name,
    parse_instant,
    plain_number,
    site_of,
    stored_name,
)
from aidre.engine.model import Json
from aidre.engine.storage import BinaryArray, StringDictionary, binary_array, build_dictionary, kernels

Leaf: TypeAlias = tuple[str, Any]
"""A dotted name, and a str, int, float or bool, or PRESENT."""

PRESENT: Final = object()
SCALARS: Final = frozenset({str, int, float, bool})

MAX_OBJECT_VALUES: Final = 10_000
MAX_OBJECT_NAMES: Final = 1_000
"""Values, and distinct names, that are read of one schema.org object."""

MAX_OBJECT_CHARACTERS: Final = 256
"""Longest name, and longest string stored as a value. Longer strings are text to search (a body, a description)."""

_SKIPPED: Final = frozenset({"@context", "metadata"})
_CONTAINERS: Final = frozenset({"@value", "@list", "@set"})
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_TERM_URL: Final = re.compile(r"https?://schema\.org/([A-Za-z0-9]+)")


def flatten_member(name: str, value: Json) -> Iterator[Leaf]:
    """The values of one member of the metadata. Names longer than a filter may write are not descended into."""
    stack = [(name, value)]
    while stack:
        path, node = stack.pop()
        kind = type(node)
        if kind is dict:
            yield path, PRESENT
            if len(path) <= MAX_CHARACTERS:
                stack.extend([(f"{path}.{key}", member) for key, member in node.items()])
        elif kind is list or kind is tuple:
            stack.extend([(path, member) for member in node])
        elif node is not None:
            yield path, node if kind in SCALARS else PRESENT


def flatten_object(schema_object: Mapping[str, Json]) -> Iterator[Leaf]:
    """The values of a schema.org object. Publishers often write all of them as strings, so strings are interpreted.

    A string that is wholly a JSON number is that number too. The URL of a schema.org term
    ("https://schema.org/InStock") is the term too. A string of more than MAX_OBJECT_CHARACTERS is only PRESENT.
    `@value`, `@list` and `@set` are values of the member that holds them. `@context` is skipped, since it does not
    describe the thing, and `metadata`, since a row's metadata are flattened on their own. The traversal is breadth
    first, so of an object beyond MAX_OBJECT_VALUES values or MAX_OBJECT_NAMES names the deepest members are left out.
    """
    queue = deque((key, value) for key, value in schema_object.items() if key not in _SKIPPED)
    names: set[str] = set()
    room = MAX_OBJECT_VALUES - len(queue)
    for _ in range(MAX_OBJECT_VALUES):
        if not queue:
            return
        path, node = queue.popleft()
        if node is None or len(path) > MAX_OBJECT_CHARACTERS:
            continue
        if path not in names:
            if len(names) >= MAX_OBJECT_NAMES:
                continue
            names.add(path)
        kind = type(node)
        if kind is dict or kind is list or kind is tuple:
            children = _members(path, node) if kind is dict else ((path, member) for member in node)
            before = len(queue)
            queue.extend(islice(children, max(0, room)))
            room -= len(queue) - before
            if kind is dict and _CONTAINERS.isdisjoint(node):
                yield path, PRESENT
        elif kind is str:
            yield from _interpret_string(path, node)
        else:
            yield path, node if kind in SCALARS else PRESENT


def _members(path: str, value: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    return (
        (path if key in _CONTAINERS else f"{path}.{key}", member) for key, member in value.items() if key != "@context"
    )


def _interpret_string(path: str, text: str) -> Iterator[Leaf]:
    if len(text) > MAX_OBJECT_CHARACTERS:
        yield path, PRESENT
        return
    yield path, text
    number = _NUMBER.fullmatch(text)
    if number is not None:
        yield path, float(text) if number["fraction"] else int(text)
    elif text.startswith("http"):
        term_url = _TERM_URL.fullmatch(text)
        if term_url is not None:
            yield path, term_url[1]


Columns: TypeAlias = dict[tuple[str, Kind], Column]

Pairs: TypeAlias = tuple[list[int], list[Any]]
"""Rows and their values, in any order; a row with several values appears several times."""

SparseStrings: TypeAlias = tuple[Rows, BinaryArray]
"""The rows that have a string, and those strings."""

Content: TypeAlias = tuple[Mapping[str, Json], Mapping[str, Json] | None]
"""The metadata and the schema.org object of a document."""


class ReservedColumns(NamedTuple):
    """The reserved fields of documents, column by column; `site` is derived from `urls`."""

    ids: BinaryArray
    updated_at: BinaryArray
    urls: SparseStrings
    types: SparseStrings


@dataclass(slots=True)
class _Collector:
    """Collects values: of members by Python type and path, and the types of schema.org objects.

    `object` is the type of PRESENT, for values that compare with nothing.
    """

    members: dict[type, dict[str, Pairs]] = field(default_factory=lambda: {kind: {} for kind in (*SCALARS, object)})
    types: Pairs = field(default_factory=lambda: ([], []))

    def add(self, contents: Iterable[Content]) -> None:
        """Add documents, one a row. The inner loop is a hot path: it runs for every value of a bulk load."""
        members = self.members
        for row, (metadata, schema_object) in enumerate(contents):
            if schema_object is not None:
                self._add_object(row, schema_object)
            for path, value in metadata.items():
                paths = members.get(type(value))
                if paths is None:
                    if value is not None:
                        self._add_leaves(row, flatten_member(path, value))
                    continue
                pairs = paths.get(path)
                if pairs is None:
                    pairs = paths[path] = ([], [])
                pairs[0].append(row)
                pairs[1].append(value)

    def _add_object(self, row: int, schema_object: Mapping[str, Json]) -> None:
        for name in _schema_types(schema_object):
            self.types[0].append(row)
            self.types[1].append(name)
        self._add_leaves(row, flatten_object(schema_object))

    def _add_leaves(self, row: int, leaves: Iterable[Leaf]) -> None:
        for name, leaf in leaves:
            rows, values = self.members[type(leaf)].setdefault(name, ([], []))
            rows.append(row)
            values.append(leaf)


def _schema_types(schema_object: Mapping[str, Json]) -> Iterator[str]:
    """The types of a schema.org object; of a type that is a URL also its last path segment."""
    declared = schema_object.get("@type")
    for name in declared if isinstance(declared, list) else [declared]:
        if isinstance(name, str):
            yield name
            if "schema.org/" in name:
                yield name.rpartition("/")[2]


def field_names(content: Content) -> set[str]:
    """The names of the fields of a document, as a filter writes them, without the reserved ones."""
    metadata, schema_object = content
    paths: set[str] = set()
    for path, value in metadata.items():
        if type(value) in SCALARS:
            paths.add(path)
        else:
            paths.update(name for name, _ in flatten_member(path, value))
    if schema_object is not None:
        paths.update(name for name, _ in flatten_object(schema_object))
    return set(map(metadata_name, paths))


def columns_from(reserved: ReservedColumns, contents: Iterable[Content], dates: Collection[str]) -> tuple[Columns, int]:
    """The columns over documents whose reserved fields are columns already, and the number of documents.

    Strings are also read as dates in the fields `dates`, and in fields that schema.org gives to dates.
    """
    collector = _Collector()
    collector.add(contents)
    builder = _ColumnBuilder(len(reserved.ids))
    _add_reserved(builder, reserved, collector.types)
    declared = frozenset(map(stored_name, dates)) - RESERVED
    members = collector.members
    for path, (rows, values) in members[str].items():
        name = metadata_name(path)
        builder.add_strings(name, rows, binary_array(values), dates=name in declared or is_schema_date(name))
    for path, pairs in members[int].items():
        builder.add_integers(path, pairs, members[float])
    for path, pairs in members[float].items():
        builder.add_floats(path, pairs, members[object])
    for path, (rows, values) in members[bool].items():
        builder.add(metadata_name(path), "bool", rows, values)
    for path, (rows, _) in members[object].items():
        builder.add(metadata_name(path), "other", rows, np.zeros(len(rows), np.int32))
    return builder.columns, builder.size


def string_column(strings: BinaryArray) -> Column:
    """The column of one string a document, or null."""
    rows = np.flatnonzero(strings.is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
    dictionary, codes = build_dictionary(strings.drop_null())
    return build_column("string", len(strings), rows, codes, dictionary)


def _add_reserved(builder: _ColumnBuilder, reserved: ReservedColumns, schema_types: Pairs) -> None:
    every_row = np.arange(builder.size, dtype=np.int32)
    builder.add_dates("updated_at", every_row, parse_instants(reserved.updated_at))
    builder.add_strings("document_id", every_row, reserved.ids)
    builder.add_strings("url", *reserved.urls)
    builder.add_strings("site", *_sites(*reserved.urls))
    rows = np.concatenate([reserved.types[0], np.array(schema_types[0], np.int32)])
    builder.add_strings("type", rows, pa.concat_arrays([reserved.types[1], binary_array(schema_types[1])]))


@dataclass(slots=True)
class _ColumnBuilder:
    """Builds columns over `size` documents from (row, value) pairs."""

    size: int
    columns: Columns = field(default_factory=dict)

    def add(self, name: str, kind: Kind, rows: Any, values: Any) -> None:
        if len(rows):
            pairs = np.array(rows, np.int32), np.array(values, dtype_of(kind))
            self.columns[name, kind] = build_column(kind, self.size, *pairs)

    def add_strings(self, name: str, rows: Sequence[int] | Rows, strings: BinaryArray, *, dates: bool = False) -> None:
        if len(rows):
            dictionary, codes = build_dictionary(strings)
            self.columns[name, "string"] = build_column(
                "string", self.size, np.array(rows, np.int32), codes, dictionary
            )
            if dates:
                self.add_dates(name, rows, parse_instants(dictionary.array)[codes])

    def add_dates(self, name: str, rows: Sequence[int] | Rows, instants: Values) -> None:
        is_date = instants != INT_MISSING
        self.add(name, "date", np.array(rows, np.int32)[is_date], instants[is_date])

    def add_integers(self, path: str, pairs: Pairs, floats: dict[str, Pairs]) -> None:
        """Integers that do not fit into 64 bits are moved to the floats of the same field."""
        rows, values = pairs
        try:
            fits = np.array(values, np.int64) != INT_MISSING
        except OverflowError:
            fits = np.array([INT_MISSING < value < -INT_MISSING for value in values])
        if not fits.all():
            wide = np.flatnonzero(~fits).tolist()
            float_rows, float_values = floats.setdefault(path, ([], []))
            float_rows.extend(rows[i] for i in wide)
            float_values.extend(float(plain_number(values[i])) for i in wide)
            narrow = np.flatnonzero(fits).tolist()
            rows, values = [rows[i] for i in narrow], [values[i] for i in narrow]
        self.add(metadata_name(path), "int", rows, values)

    def add_floats(self, path: str, pairs: Pairs, others: dict[str, Pairs]) -> None:
        """NaN is moved to the values that are only present."""
        rows, values = np.array(pairs[0], np.int32), np.array(pairs[1], np.float64)
        is_nan = np.isnan(values)
        if is_nan.any():
            other_rows, other_values = others.setdefault(path, ([], []))
            other_rows.extend(rows[is_nan].tolist())
            other_values.extend([PRESENT] * int(is_nan.sum()))
        self.add(metadata_name(path), "float", rows[~is_nan], values[~is_nan])


def _sites(rows: Rows, urls: BinaryArray) -> SparseStrings:
    """The sites of the URLs that have one. Each distinct origin (up to the slash after the host) is parsed once."""
    origins = [
        url[:end] if (end := url.find(b"/", 8)) > 0 and url.startswith((b"http://", b"https://")) else url
        for url in urls.to_pylist()
    ]
    site_by_origin = {origin: site_of(origin.decode("utf-8", "surrogatepass")) for origin in set(origins)}
    sites = list(map(site_by_origin.__getitem__, origins))
    has_site = np.fromiter((site is not None for site in sites), np.bool_, len(sites))
    return rows[has_site], binary_array([site for site in sites if site is not None])


# -- dates -----------------------------------------------------------------------------------------------------

_YEAR_1_SECONDS: Final = -62_135_596_800
"""The first second of the year 1: Python's dates begin there, Arrow's do not."""


def parse_instants(strings: BinaryArray) -> Values:
    """Microseconds since 1970 of each date, INT_MISSING for a string that is none.

    Arrow parses them if all have the form of "2026-04-01T10:00:00Z", else `parse_instant` does, one by one.
    """
    has_form = kernels.and_(kernels.equal(kernels.binary_length(strings), 20), kernels.ends_with(strings, b"Z"))
    if len(strings) and kernels.all(has_form).as_py():
        try:
            seconds: Values = strings.cast(pa.large_string()).cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            return _parse_one_by_one(strings)
        if seconds.min() >= _YEAR_1_SECONDS:
            return np.multiply(seconds, 1_000_000)
    return _parse_one_by_one(strings)


def _parse_one_by_one(strings: BinaryArray) -> Values:
    instants = (
        INT_MISSING if instant is None else instant for instant in map(parse_instant, StringDictionary(strings).texts())
    )
    return np.fromiter(instants, np.int64, len(strings))
