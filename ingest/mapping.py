"""What the columns of a table mean: `[collections.NAME.mapping]`, and rows as it makes them. Knows no file format.

    id = "doc_no"                           the column becomes the member
    text = ["headline", "body"]             columns are joined, by blank lines in `text` and by spaces elsewhere
    title = "{brand} {model.name}"          a template; a column that a row has not leaves nothing
    metadata = ["brand", "price"]           the only metadata; without it every column that is not used otherwise
    vectors = {"space-id" = "embedding"}    the column holds vectors of the space

A dotted name reaches into an object unless a column has the whole name. Names that the mapping does not mention
mean what they mean without it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from aidre.engine.errors import ConfigurationError, InvalidDocument
from aidre.engine.model import Json

MEMBERS = (
    "id", "title", "text", "url", "updated_at", "section", "type", "canonical", "semantic_payload",
)  # fmt: skip
KEPT = (*MEMBERS, "vectors", "@type", "@id", "@graph")
"""Names that mean something without a mapping, also beside `metadata = [...]`."""

RESERVED = ("metadata", "vectors", "@type", "@id", "@graph")
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """Words with columns in between: `pieces` are words at even places and columns at odd ones."""

    pieces: tuple[str, ...]

    def filled(self, row: Mapping[str, Json], name: str) -> str | None:
        """None for a row that has none of the columns."""
        values = [reach(row, column) for column in self.pieces[1::2]]
        if self.pieces[1::2] and all(value is None for value in values):
            return None
        words = [self.pieces[0]]
        for value, after in zip(values, self.pieces[2::2], strict=True):
            words += ["" if value is None else _words(value, name), after]
        return "".join(words)


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """`members` by name: a column, several to be joined, or a template. `metadata` None keeps what is left over.

    `columns` are all that are named; `taken` are the names of a row that do not stay as they are.
    """

    members: Mapping[str, str | tuple[str, ...] | Template]
    vectors: Mapping[str, str]
    metadata: tuple[str, ...] | None
    columns: tuple[str, ...]
    taken: frozenset[str]

    def row(self, row: Mapping[str, Json]) -> dict[str, Json]:
        """A row as the mapping makes it; raises InvalidDocument. A schema.org object keeps its properties."""
        mapped = {name: _member(row, name, source) for name, source in self.members.items()}
        if "@type" in row:
            made = dict(row)
        elif self.metadata is None:
            made = {name: value for name, value in row.items() if name not in self.taken}
            for column in self.columns:
                if "." in column and column not in row:
                    _drop(made, column.split("."))
        else:
            made = {name: row[name] for name in KEPT if name in row and name not in self.taken}
        if self.metadata is not None:
            made["metadata"] = _kept(row, self.metadata)
        made |= {name: value for name, value in mapped.items() if value is not None}
        brought = {space: value for space, name in self.vectors.items() if (value := reach(row, name)) is not None}
        if brought:
            own = row["vectors"] if type(row.get("vectors")) is dict else {}
            made["vectors"] = own | brought
        return made

    def columns_of(self, member: str) -> Sequence[str]:
        return _columns(self.members[member]) if member in self.members else ()

    def is_plain(self, names: Collection[str]) -> bool:
        """Whether columns of these names need only other names: none is joined, nested, or used twice."""
        used = [*self.members.values(), *(self.metadata or ())]
        return (
            all(type(each) is str and each in names for each in (*used, *self.vectors.values()))
            and len(set(used)) == len(used)
            and not {*MEMBERS, *RESERVED}.intersection(self.metadata or ())
            and (self.metadata is None or "metadata" not in names)
            and "@type" not in names
        )


def reach(row: Mapping[str, Json], name: str) -> Json:
    """The value under a column's name, or under a dotted path; None where the row has it not."""
    if name in row:
        return row[name]
    value: Json = row
    for step in name.split("."):
        value = value.get(step) if type(value) is dict else None
    return value


def column_mapping(table: Mapping[str, Any], where: str) -> ColumnMapping | None:
    """The mapping that a table of the configuration says, None for an empty one; raises ConfigurationError."""
    members: dict[str, str | tuple[str, ...] | Template] = {}
    vectors: Mapping[str, str] = {}
    metadata: tuple[str, ...] | None = None
    for name, value in table.items():
        place = f"{where}.{name}"
        if name == "metadata":
            metadata = _names(value, place)
            if any(other.startswith(f"{name}.") for name in metadata for other in metadata):
                raise ConfigurationError(f"{place} names a column and a part of it: name one of them")
        elif name == "vectors":
            if type(value) is not dict or not all(type(column) is str and column for column in value.values()):
                raise ConfigurationError(f'{place} must be a table like {{"space-id" = "column"}}, not {value!r}')
            vectors = value
        elif name not in MEMBERS:
            known = ", ".join((*MEMBERS, "metadata", "vectors"))
            raise ConfigurationError(f"{place} is no member of a document: the members are {known}")
        elif type(value) is str and value:
            members[name] = _template(value, place) if "{" in value or "}" in value else value
        else:
            members[name] = _names(value, place)
    named = [column for member in members.values() for column in _columns(member)]
    columns = tuple(dict.fromkeys((*named, *(metadata or ()), *vectors.values())))
    return ColumnMapping(members, vectors, metadata, columns, frozenset((*columns, *members))) if table else None


def _template(text: str, place: str) -> Template:
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
            raise ConfigurationError(f'{place} has a brace without a column: write "{{column}}", or "{{{{" for a brace')
    pieces[-1] += text[end:]
    return Template(tuple(pieces))


def _names(value: Any, place: str) -> tuple[str, ...]:
    if type(value) is not list or not value or not all(type(name) is str and name for name in value):
        raise ConfigurationError(f"{place} must be the name of a column or a list of names, not {value!r}")
    return tuple(value)


def _columns(source: str | tuple[str, ...] | Template) -> Sequence[str]:
    if type(source) is str:
        return (source,)
    return source.pieces[1::2] if isinstance(source, Template) else tuple(source)


def _member(row: Mapping[str, Json], name: str, source: str | tuple[str, ...] | Template) -> Json:
    if type(source) is str:
        return reach(row, source)
    if isinstance(source, Template):
        return source.filled(row, name)
    values = [value for column in source if (value := reach(row, column)) is not None]
    return ("\n\n" if name == "text" else " ").join(_words(value, name) for value in values) or None


def _words(value: Json, name: str) -> str:
    if type(value) is str:
        return value
    if type(value) is list and all(type(item) in (str, int, float) for item in value):
        return ", ".join(map(str, value))
    if type(value) in (dict, list):
        raise InvalidDocument(f"{name} is mapped to a column that holds no words but an object")
    return orjson.dumps(value).decode()


def _drop(made: dict[str, Json], path: Sequence[str]) -> None:
    """Take a nested value out, without changing the row that it came from."""
    for step in path[:-1]:
        inner = made.get(step)
        if type(inner) is not dict:
            return
        made[step] = made = dict(inner)
    made.pop(path[-1], None)


def _kept(row: Mapping[str, Json], names: Sequence[str]) -> dict[str, Json]:
    """The metadata of these names, nested ones where they stand; those of a row's own `metadata` are meant too."""
    own = row.get("metadata")
    kept: dict[str, Json] = {}
    for name in names:
        value = reach(row, name)
        if value is None and type(own) is dict:
            value = reach(own, name)
        if value is not None:
            *path, last = [name] if name in row else name.split(".")
            inner = kept
            for step in path:
                inner = inner.setdefault(step, {})
            inner[last] = value
    return kept
