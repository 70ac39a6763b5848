"""What a program asks beside the hits of a search: facets of its matches, and where its words are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from aidre_client.errors import InvalidInput
from aidre_client.values.arguments import check_range
from aidre_client.values.model import FacetRequest, HighlightLimits

MAX_FACET_VALUES = 1_000
MAX_FACETS, MAX_RANGES = 16, 32


Facets: TypeAlias = str | FacetRequest | Sequence[str | FacetRequest]
"""One field or several, each by its name or with what is asked of it."""


def to_requests(facets: Facets) -> tuple[FacetRequest, ...]:
    """InvalidInput."""
    listed: Any = [facets] if isinstance(facets, str | FacetRequest) else facets
    if not isinstance(listed, Sequence) or not all(isinstance(item, str | FacetRequest) for item in listed):
        raise InvalidInput("facets= is the name of a field, an aidre.FacetRequest, or a list of them")
    requests = tuple(FacetRequest(item) if isinstance(item, str) else item for item in listed)
    check_range("the number of facets", len(requests), 1, MAX_FACETS)
    for request in requests:
        _check(request)
    if len({request.field for request in requests}) < len(requests):
        raise InvalidInput("facets= names a field twice")
    return requests


def _check(request: FacetRequest) -> None:
    where, ranges = f"facet {str(request.field)[:64]!r}", any_of(request.ranges)
    if not isinstance(request.field, str) or not request.field:
        raise InvalidInput("a facet names a field")
    check_range(f"{where}: limit", request.limit, 1, MAX_FACET_VALUES)
    is_list = isinstance(ranges, Sequence) and not isinstance(ranges, str) and len(ranges) <= MAX_RANGES
    if not is_list or not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in ranges):
        raise InvalidInput(f"{where}: ranges is a list of at most {MAX_RANGES} pairs, such as [(None, 10), (10, 50)]")
    if not isinstance(request.exclude_own, bool):
        raise InvalidInput(f"{where}: exclude_own is True or False")


def any_of(value: Any) -> Any:
    """A value whose declared type a program may not have kept."""
    return value


def to_members(request: FacetRequest) -> Mapping[str, Any]:
    """As a server is asked."""
    ends = [{"from": low, "to": high} for low, high in request.ranges]
    ranges = [{name: end for name, end in pair.items() if end is not None} for pair in ends]
    members = {"field": request.field, "limit": request.limit, "exclude_own": request.exclude_own}
    return {**members, "ranges": ranges} if ranges else members


def to_limits(highlight: Any) -> HighlightLimits | None:
    """InvalidInput."""
    if isinstance(highlight, bool):
        return HighlightLimits() if highlight else None
    if not isinstance(highlight, HighlightLimits):
        raise InvalidInput("highlight= is True, False or an aidre.HighlightLimits")
    check_range("highlight: spans", highlight.spans, 1, 1_000)
    check_range("highlight: snippets", highlight.snippets, 0, 10)
    check_range("highlight: snippet_chars", highlight.snippet_chars, 1, 2_000)
    return highlight
