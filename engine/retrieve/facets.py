"""Counts the facets that a question asks for."""

from __future__ import annotations

from collections.abc import Sequence

from aidre.engine.errors import printable_name
from aidre.engine.index.fields import Filter, ValueRange, field_name, parse_range, without_field
from aidre.engine.ports import Reader
from aidre.engine.types import Facet, FacetRequest


def counted_facets(
    reader: Reader, requests: Sequence[FacetRequest], filter: Filter | None, text: str | None
) -> tuple[Facet, ...]:
    """The facets of the documents that pass a filter; with `text` of those with a word of it. InvalidFilter."""
    return tuple(_counted(reader, one, filter, text) for one in requests)


def _counted(reader: Reader, request: FacetRequest, filter: Filter | None, text: str | None) -> Facet:
    field = field_name(request.field)
    if request.exclude_own and filter is not None:
        filter = without_field(filter, field)
    return reader.facet(field, filter, text=text, limit=request.limit, ranges=parsed_ranges(request))


def parsed_ranges(request: FacetRequest, where: str | None = None) -> tuple[ValueRange, ...]:
    """The ranges of a facet; `where` names it in an error. InvalidFilter."""
    where = f"facet {printable_name(request.field)!r}" if where is None else where
    name = field_name(request.field)
    return tuple(
        parse_range(name, low, high, f"{where}.ranges[{number}]") for number, (low, high) in enumerate(request.ranges)
    )
