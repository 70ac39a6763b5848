"""What the names `id`, `title`, `text` and `section` mean in a filter: members of every row, or metadata.

Where a document of the collection has a metadata field of the name (or a member of its schema.org object), that is
meant. Where none has, `id` is `document_id` and `title` the title of the document; `text` and `section` are refused,
since nothing would be found by them, and everything by their negation. `metadata.NAME` always means the stored field,
of metadata or of a schema.org object: one column has both.

A field is asked for by its stored name, or as TITLE, in a function `has_field`: whether a live document has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from aidre.engine.errors import InvalidFilter, printable_name
from aidre.engine.index.fields.filters import (
    MEMBERS,
    RESERVED,
    And,
    Compare,
    Filter,
    Not,
    Or,
    Wording,
    comparisons,
    filter_fields,
    stored_name,
)

HasField: TypeAlias = Callable[[str], bool]

TITLE: Final = "metadata.(title)"
"""The title of a document among stored names. Metadata are stored under no such name, and no filter can write it."""

_MEANINGS: Final = {"id": "document_id", "title": TITLE}
_TEXTUAL: Final = frozenset({"document_id", "url", "site", "type", TITLE})
"""Fields whose values are all strings."""


def meant_field(name: str, has_field: HasField, path: str, *, by_words: bool = True) -> str:
    """The stored name of the field that a name means, as `field_name` returns it. Raises InvalidFilter for a member
    that is searched; `path` is how its message names it, `by_words` whether the engine searches by words."""
    if name not in MEMBERS or has_field(name):
        return stored_name(name)
    if name not in _MEANINGS:
        cure = "search for its words in mode lexical, a phrase in double quotes" if by_words else "search for it"
        raise InvalidFilter(f"{path} is searched text, not a field of filters: {cure}", member=path.partition(".")[0])
    return _MEANINGS[name]


def with_members(filter_: Filter, has_field: HasField, *, by_words: bool = True) -> Filter:
    """The filter with the stored names of the fields that it means. Raises InvalidFilter."""
    meant = {name: meant_field(name, has_field, _path(name), by_words=by_words) for name in filter_fields(filter_)}
    return filter_ if all(name == stored for name, stored in meant.items()) else _renamed(filter_, meant)


def _renamed(filter_: Filter, names: dict[str, str]) -> Filter:
    match filter_:
        case Compare(name):
            return replace(filter_, field=names[name])
        case Wording():
            return filter_
        case Not(operand):
            return Not(_renamed(operand, names))
        case And(operands):
            return And(tuple(_renamed(operand, names) for operand in operands))
        case Or(operands):
            return Or(tuple(_renamed(operand, names) for operand in operands))


def unknown_fields(filter_: Filter, has_field: HasField) -> tuple[str, ...]:
    """The fields that a filter names and no live document has, sorted, as `field_name` returns them."""
    always = RESERVED | _MEANINGS.keys()
    return tuple(sorted(name for name in filter_fields(filter_) - always if not has_field(stored_name(name))))


def check_deletion(filter_: Filter, has_field: HasField, *, allow_unknown: bool) -> None:
    """Raises InvalidFilter for a filter by which a deletion could remove what its author means to spare: by a name with
    two meanings, by a field that no live document has (unless `allow_unknown`), by the comparison of a field of strings
    with a number, or without any condition, as a program may send whose conditions came out empty."""
    names = filter_fields(filter_)
    if not names:
        raise InvalidFilter(
            'filter has no condition, so the deletion is refused: to delete all documents write {"document_id": '
            '{"exists": true}}, or drop the collection',
            member="filter",
        )
    for name in sorted(MEMBERS & names):
        if has_field(name):
            raise InvalidFilter(
                f"{_path(name)} is a metadata field here and a member of every row, too: in a deletion write "
                f"document_id for the ids of documents, or metadata.{name} for the metadata field",
                member="filter",
            )
    meant = {name: meant_field(name, has_field, _path(name)) for name in names}
    unknown = [_path(name) for name, stored in sorted(meant.items()) if not has_field(stored)]
    if unknown and not allow_unknown:
        raise InvalidFilter(
            f"no document has {', '.join(unknown)}, so the deletion is refused: correct the name, or allow it "
            "(allow_unknown)",
            member="filter",
        )
    _check_strings(filter_, meant)


def _check_strings(filter_: Filter, meant: dict[str, str]) -> None:
    for comparison in comparisons(filter_):
        if comparison.op == "exists" or meant[comparison.field] not in _TEXTUAL:
            continue
        if not all(
            isinstance(value, str)
            for value in (comparison.value if isinstance(comparison.value, tuple) else (comparison.value,))
        ):
            message = f"{_path(comparison.field)} has strings alone: compare it with strings in a deletion"
            raise InvalidFilter(message, member="filter")


def _path(name: str) -> str:
    return f"filter.{printable_name(name)}"
