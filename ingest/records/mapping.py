"""The meaning of a table's columns, `[collections.NAME.mapping]`, and its application to rows. Knows no file format.

    id = "doc_no"                           the column becomes the member
    text = ["headline", "body"]             columns are joined, by blank lines in `text` and by spaces elsewhere
    title = "{brand} {model.name}"          a template; a column that the row lacks is left empty
    metadata = ["brand", "price"]           the only metadata; by default every column without another use
    vectors = {"space-id" = "embedding"}    the column holds vectors of the space

A table below it, `[collections.NAME.mapping."reviews*.csv"]`, is for the files of that pattern alone.

A dotted name reaches into an object, unless a column has the whole name. Members that the mapping does not mention
are read from the columns of their names, as without a mapping.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, TypeAlias

import orjson

from aidre.engine.errors import ConfigurationError, InvalidDocument
from aidre.engine.model import Json

MEMBERS = (
    "id", "title", "text", "url", "updated_at", "section", "type", "canonical", "semantic_payload",
)  # fmt: skip
"""Members of a document that a mapping can fill from columns, beside `metadata` and `vectors`."""

ROW_MEMBERS = (*MEMBERS, "vectors", "@type", "@id", "@graph")
"""Names that have a meaning without a mapping, and that `metadata = [...]` does not remove."""

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """Text with columns in between: `pieces` are text at even indices and names of columns at odd ones."""

    pieces: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.pieces[1::2]

    def fill(self, row: Mapping[str, Json], member: str) -> str | None:
        """The text for a row; None if the row has none of the columns."""
        values = [get_column(row, column) for column in self.columns]
        if values and all(value is None for value in values):
            return None
        texts = [self.pieces[0]]
        for value, text in zip(values, self.pieces[2::2], strict=True):
            texts += ["" if value is None else _to_text(value, member), text]
        return "".join(texts)


MemberSource: TypeAlias = str | tuple[str, ...] | TextTemplate
"""A column, several columns to be joined, or a template."""


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """`members` maps names of members to their columns. With `metadata` None all unused columns are metadata.

    `columns` are all columns that the mapping names; `consumed` are the names of a row that do not keep their meaning.
    """

    members: Mapping[str, MemberSource]
    vectors: Mapping[str, str]
    metadata: tuple[str, ...] | None
    columns: tuple[str, ...]
    consumed: frozenset[str]

    def apply(self, row: Mapping[str, Json]) -> dict[str, Json]:
        """The mapped row; raises InvalidDocument. A schema.org object keeps its properties."""
        members = {name: _read_member(row, name, source) for name, source in self.members.items()}
        mapped = self._keep_unmapped(row)
        if self.metadata is not None:
            mapped["metadata"] = _select_metadata(row, self.metadata)
        mapped |= {name: value for name, value in members.items() if value is not None}
        vectors = {space: value for space, name in self.vectors.items() if (value := get_column(row, name)) is not None}
        if vectors:
            own = row["vectors"] if type(row.get("vectors")) is dict else {}
            mapped["vectors"] = own | vectors
        return mapped

    def columns_of(self, member: str) -> Sequence[str]:
        return _columns_of(self.members[member]) if member in self.members else ()

    def only_renames(self, columns: Collection[str]) -> bool:
        """Whether, for a table of these columns, the mapping only renames: it joins, nests and repeats none."""
        used = [*self.members.values(), *(self.metadata or ())]
        return (
            all(type(source) is str and source in columns for source in (*used, *self.vectors.values()))
            and len(set(used)) == len(used)
            and {*ROW_MEMBERS, "metadata"}.isdisjoint(self.metadata or ())
            and (self.metadata is None or "metadata" not in columns)
            and "@type" not in columns
        )

    def _keep_unmapped(self, row: Mapping[str, Json]) -> dict[str, Json]:
        """The part of a row that keeps its names."""
        if "@type" in row:
            return dict(row)
        if self.metadata is not None:
            return {name: row[name] for name in ROW_MEMBERS if name in row and name not in self.consumed}
        unmapped = {name: value for name, value in row.items() if name not in self.consumed}
        for column in self.columns:
            if "." in column and column not in row:
                _remove_path(unmapped, column.split("."))
        return unmapped


@dataclass(frozen=True, slots=True)
class Mappings:
    """The mappings of a collection: those of patterns, in order, and the one of all other files."""

    by_pattern: tuple[tuple[str, ColumnMapping], ...] = ()
    others: ColumnMapping | None = None

    def of(self, path: str) -> ColumnMapping | None:
        """The mapping of a file, by its path inside the source: a pattern without a slash is of its name alone."""
        name = PurePosixPath(path).name
        for pattern, mapping in self.by_pattern:
            if fnmatchcase(path if "/" in pattern else name, pattern):
                return mapping
        return self.others

    def __iter__(self) -> Iterator[ColumnMapping]:
        yield from (mapping for _, mapping in self.by_pattern)
        yield from () if self.others is None else (self.others,)


def get_column(row: Mapping[str, Json], name: str) -> Json:
    """The value of a column, or at a dotted path; None if the row lacks it."""
    if name in row:
        return row[name]
    value: Json = row
    for step in name.split("."):
        value = value.get(step) if type(value) is dict else None
    return value


def parse_mappings(table: Mapping[str, Any], where: str) -> Mappings | None:
    """The mappings in a table of the configuration, whose key is `where`; None if it is empty.

    Raises ConfigurationError.
    """
    patterns = {name: value for name, value in table.items() if is_pattern(name, value)}
    parsed = ((name, parse_column_mapping(value, f"{where}.{name!r}")) for name, value in patterns.items())
    by_pattern = tuple((name, mapping) for name, mapping in parsed if mapping is not None)
    others = parse_column_mapping({name: value for name, value in table.items() if name not in patterns}, where)
    return Mappings(by_pattern, others) if by_pattern or others is not None else None


def is_pattern(name: str, value: Any) -> bool:
    """Whether a key of a mapping is the pattern of files that the table below it is for."""
    return type(value) is dict and name not in (*MEMBERS, "metadata", "vectors")


def parse_column_mapping(table: Mapping[str, Any], where: str) -> ColumnMapping | None:
    """The mapping in a table of the configuration, whose key is `where`; None if it is empty.

    Raises ConfigurationError.
    """
    members: dict[str, MemberSource] = {}
    vectors: Mapping[str, str] = {}
    metadata: tuple[str, ...] | None = None
    for name, value in table.items():
        key = f"{where}.{name if name.isprintable() else ascii(name)}"
        if name == "metadata":
            metadata = _parse_names(value, key)
            if any(other.startswith(f"{name}.") for name in metadata for other in metadata):
                raise ConfigurationError(f"{key} names a column and a part of it: name one of them")
        elif name == "vectors":
            if type(value) is not dict or not all(type(column) is str and column for column in value.values()):
                raise ConfigurationError(f'{key} must be a table like {{"space-id" = "column"}}, not {value!r}')
            vectors = value
        elif name not in MEMBERS:
            names = ", ".join((*MEMBERS, "metadata", "vectors"))
            raise ConfigurationError(f"{key} is not a member of a document: the members are {names}")
        elif type(value) is str and value:
            members[name] = _parse_template(value, key) if "{" in value or "}" in value else value
        else:
            members[name] = _parse_names(value, key)
    member_columns = [column for source in members.values() for column in _columns_of(source)]
    columns = tuple(dict.fromkeys((*member_columns, *(metadata or ()), *vectors.values())))
    return ColumnMapping(members, vectors, metadata, columns, frozenset((*columns, *members))) if table else None


def _parse_template(text: str, key: str) -> TextTemplate:
    pieces = [""]
    end = 0
    for match in _FIELD.finditer(text):
        pieces[-1] += text[end : match.start()]
        end = match.end()
        if match[0] in ("{{", "}}"):
            pieces[-1] += match[0][0]
        elif match[1]:
            pieces += [match[1].strip(), ""]
        else:
            raise ConfigurationError(f'{key} has a brace without a column: write "{{column}}", or "{{{{" for a brace')
    pieces[-1] += text[end:]
    return TextTemplate(tuple(pieces))


def _parse_names(value: Any, key: str) -> tuple[str, ...]:
    if type(value) is not list or not value or not all(type(name) is str and name for name in value):
        raise ConfigurationError(f"{key} must be the name of a column or a list of names, not {value!r}")
    return tuple(value)


def _columns_of(source: MemberSource) -> Sequence[str]:
    if type(source) is str:
        return (source,)
    return source.columns if isinstance(source, TextTemplate) else tuple(source)


def _read_member(row: Mapping[str, Json], member: str, source: MemberSource) -> Json:
    if type(source) is str:
        return get_column(row, source)
    if isinstance(source, TextTemplate):
        return source.fill(row, member)
    values = [value for column in source if (value := get_column(row, column)) is not None]
    return ("\n\n" if member == "text" else " ").join(_to_text(value, member) for value in values) or None


def _to_text(value: Json, member: str) -> str:
    if type(value) is str:
        return value
    if type(value) is list and all(type(item) in (str, int, float) for item in value):
        return ", ".join(map(str, value))
    if type(value) in (dict, list):
        raise InvalidDocument(f"{member} is mapped to a column that holds no words but an object")
    return orjson.dumps(value).decode()


def _remove_path(row: dict[str, Json], path: Sequence[str]) -> None:
    """Remove a nested value; the objects on the path are replaced by copies, since they belong to the original row."""
    for step in path[:-1]:
        inner = row.get(step)
        if type(inner) is not dict:
            return
        row[step] = row = dict(inner)
    row.pop(path[-1], None)


def _select_metadata(row: Mapping[str, Json], names: Sequence[str]) -> dict[str, Json]:
    """The metadata of these names, at the same paths; a name may also mean a field of the row's own `metadata`."""
    own = row.get("metadata")
    selected: dict[str, Json] = {}
    for name in names:
        value = get_column(row, name)
        if value is None and type(own) is dict:
            value = get_column(own, name)
        if value is not None:
            *path, last = [name] if name in row else name.split(".")
            inner = selected
            for step in path:
                inner = inner.setdefault(step, {})
            inner[last] = value
    return selected
