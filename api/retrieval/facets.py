"""What a caller asks of the values of a field."""

from __future__ import annotations

from dataclasses import dataclass

from aidre.engine.index.fields import Filter, ValueRange, without_field
from aidre.engine.ports import Reader
from aidre.engine.types import Facet


@dataclass(frozen=True, slots=True)
class AskedFacet:
    """`name` is the field as written, `written` the ends of the ranges as written; `exclude_own` counts without the
    conditions of the filter on the field."""

    name: str
    field: str
    limit: int
    ranges: tuple[ValueRange, ...]
    written: tuple[tuple[int | float | str | None, int | float | str | None], ...]
    exclude_own: bool


def count_facets(
    snapshot: Reader, asked: tuple[AskedFacet, ...], filter: Filter | None, text: str | None
) -> list[Facet]:
    """The facets of the documents that pass a filter; with `text` of those with a word of it. InvalidFilter."""
    return [
        snapshot.facet(
            one.field,
            without_field(filter, one.field) if one.exclude_own and filter is not None else filter,
            text=text,
            limit=one.limit,
            ranges=one.ranges,
        )
        for one in asked
    ]
