"""Facets, highlights and passages of `POST /search`, as extensions of the draft: what is asked, and how it is said.

Facets and highlights are refused where a collection withholds its text: counts and spans would tell its words. Where
chunks are counted, facets of texts are refused: their values would be texts that no budget counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import orjson
from msgspec import UNSET, convert, json, structs

from aidre.api.http import BadRequest, Unprocessable, UnsupportedReturnField, present, read_integers
from aidre.api.protocols.aidre.search_messages import (
    MAX_FACETS,
    MAX_RANGES,
    Facet,
    FacetRangeCount,
    FacetRequest,
    FacetValue,
    Highlight as ShownHighlight,
    HighlightRequest,
    Order,
    Passage,
    Weights,
)
from aidre.api.retrieval import VisibleCollection, tells_text
from aidre.engine import types
from aidre.engine.errors import printable_name
from aidre.engine.index.fields import MAX_CHARACTERS, field_name, stored_name
from aidre.engine.index.text import MAX_HIGHLIGHTED
from aidre.engine.model import FUSED_RANKS, Highlight, HighlightLimits
from aidre.engine.retrieve import (
    MAX_COPIES,
    MAX_PASSAGES,
    ORDERED,
    Answer,
    FieldOrder,
    Question,
    parsed_ranges,
    told_copies,
)

FACET_VALUES, MAX_FACET_VALUES = 20, 1_000
"""Values of a facet, unless the request says how many, and at most."""
DEFAULTS = HighlightLimits()
MOST = HighlightLimits(spans=1_000, snippets=10, snippet_chars=2_000)

FACETS = {
    "limit": FACET_VALUES,
    "limit_max": MAX_FACET_VALUES,
    "facets_max": MAX_FACETS,
    "ranges_max": MAX_RANGES,
    "counts": "documents of all matches, not of the page: in mode lexical of the chunks with a word of the query, else "
    "of all that pass the filter; every condition of the filter holds, but with exclude_own those on the field itself "
    "that are joined by and",
}
HIGHLIGHT = {
    **structs.asdict(HighlightRequest(DEFAULTS.spans, DEFAULTS.snippets, DEFAULTS.snippet_chars)),
    "spans_max": MOST.spans,
    "snippets_max": MOST.snippets,
    "snippet_chars_max": MOST.snippet_chars,
    "text_chars": MAX_HIGHLIGHTED,
    "unit": "code points; in JavaScript Array.from(text)",
}
GROUP = {
    "values": ["chunk", "document"],
    "default": "chunk",
    "passages_max": MAX_PASSAGES,
    "collapse": True,
    "copies_max": MAX_COPIES,
}
ORDER = {"results": ORDERED, "directions": ["ascending", "descending"], "values": "numbers and dates"}
WEIGHTS = {"members": ["dense", "lexical"], "modes": ["hybrid"]}
FUSION = {"values": ["score", "rrf"], "ranks": FUSED_RANKS, "modes": ["hybrid"]}


def read_limits(body: Mapping[str, Any], least: float) -> dict[str, Any]:
    """The members `facets` and `highlight` of a body that may have limits, with the integers that orjson reads as
    floats."""
    read: dict[str, Any] = {}
    if isinstance(body.get("facets"), list):
        read["facets"] = [{**facet} if isinstance(facet, dict) else facet for facet in body["facets"]]
    if isinstance(body.get("highlight"), dict):
        read["highlight"] = {**body["highlight"]}
    for limited in (*read.get("facets", ()), read.get("highlight")):
        if isinstance(limited, dict):
            read_integers(limited, "limit", "spans", "snippets", "snippet_chars", least=least)
    return read


def parse_facets(requests: Sequence[str | FacetRequest] | None) -> tuple[types.FacetRequest, ...]:
    """Raises BadRequest, InvalidFilter."""
    facets = [_parse_facet(facet, f"facets[{number}]") for number, facet in enumerate(requests or ())]
    names = [facet.field for facet in facets]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise BadRequest(f"facets names {printable_name(name)} twice: send it once", member=f"facets[{number}]")
    return tuple(facets)


def _parse_facet(request: str | FacetRequest, path: str) -> types.FacetRequest:
    facet = FacetRequest(request) if isinstance(request, str) else request
    if not facet.field or len(facet.field) > MAX_CHARACTERS:
        raise BadRequest(f"{path} must name a field in 1 to {MAX_CHARACTERS:,} characters", member=path)
    ranges = tuple((bounds.from_, bounds.to) for bounds in facet.ranges or ())
    limit = min(facet.limit or FACET_VALUES, MAX_FACET_VALUES)
    parsed = types.FacetRequest(facet.field, limit, ranges, bool(facet.exclude_own))
    parsed_ranges(parsed, path)  # a range that is refused is named by its place in the request
    return parsed


def parse_highlight(request: bool | HighlightRequest, query: str | None) -> HighlightLimits:
    """Raises BadRequest."""
    if query is None:
        raise BadRequest("highlight needs query: a vector has no words", member="highlight")
    if isinstance(request, bool):
        return DEFAULTS
    return HighlightLimits(
        min(request.spans or DEFAULTS.spans, MOST.spans),
        min(DEFAULTS.snippets if request.snippets is None else request.snippets, MOST.snippets),
        min(request.snippet_chars or DEFAULTS.snippet_chars, MOST.snippet_chars),
    )


def parse_order(request: Order) -> FieldOrder:
    """Raises BadRequest."""
    if not request.field or len(request.field) > MAX_CHARACTERS:
        raise BadRequest(f"order.field must name a field in 1 to {MAX_CHARACTERS:,} characters", member="order.field")
    return FieldOrder(stored_name(request.field), request.direction, all_relevant=True)


def parse_weights(request: Weights) -> float:
    """The weight of vectors, of which that of words is the rest. Raises BadRequest."""
    total = request.dense + request.lexical
    if not 0 < total < math.inf:
        raise BadRequest("weights has no weight above 0, or one beyond float64", member="weights")
    return request.dense / total


def check_extensions(question: Question, collection: VisibleCollection) -> None:
    """Raises UnsupportedReturnField where the collection withholds its text, Unprocessable where its engine cannot."""
    can = collection.snapshot.can
    highlights = question.highlight is not None
    extras = ("facets", bool(question.facets), can.facets), ("highlight", highlights, can.highlight)
    for name, is_asked, is_possible in extras:
        if is_asked and not collection.settings.return_text:
            raise UnsupportedReturnField(f"this collection does not return text, so it has no {name}", field=name)
        if is_asked and not is_possible:
            raise Unprocessable(
                f"this collection has no {name}: its engine lacks the capability {name}: leave {name} out", member=name
            )


def check_facets(requests: Sequence[types.FacetRequest], collection: VisibleCollection) -> None:
    """Raises UnsupportedReturnField for a facet of a text, where chunks are counted."""
    for number, request in enumerate(requests):
        if tells_text(field_name(request.field), collection.snapshot, collection.settings):
            raise UnsupportedReturnField(
                f"facets[{number}] names {printable_name(request.field)}, a text, and texts are counted here "
                "(limits.chunks_per_day): leave it out",
                field="facets",
            )


def check_order(order: FieldOrder, collection: VisibleCollection) -> None:
    """Raises UnsupportedReturnField for the order of a text, which is withheld or counted."""
    if tells_text(order.field, collection.snapshot, collection.settings):
        raise UnsupportedReturnField(
            f"order.field {printable_name(order.field)} is a text, which this collection does not return: "
            "order by another field",
            field="order",
        )


def extensions(collections: Sequence[VisibleCollection]) -> dict[str, Any]:
    """The members of `extensions` in the discovery document: what some collection has."""
    open_ones = [collection.snapshot.can for collection in collections if collection.settings.return_text]
    return {
        **({"facets": FACETS} if not collections or any(can.facets for can in open_ones) else {}),
        **({"highlight": HIGHLIGHT} if not collections or any(can.highlight for can in open_ones) else {}),
    }


def render_facets(requests: Sequence[types.FacetRequest], counted: Sequence[types.Facet]) -> bytes:
    """The JSON of the member `facets`."""
    return json.encode(
        {request.field: _facet(request, facet) for request, facet in zip(requests, counted, strict=True)}
    )


def _facet(request: types.FacetRequest, counted: types.Facet) -> Facet:
    ranges = [
        FacetRangeCount(count, present(low), present(high))
        for (low, high), count in zip(request.ranges, counted.ranges, strict=True)
    ]
    return Facet(
        documents=counted.documents,
        missing=counted.missing,
        distinct=counted.distinct,
        values=[FacetValue(value, count) for value, count in counted.counts],
        min=present(counted.minimum),
        max=present(counted.maximum),
        ranges=ranges or UNSET,
    )


def render_highlight(found: Highlight) -> bytes:
    """The JSON of the member `highlight` of a result."""
    return orjson.dumps(found)


def render_passages(found: Answer, *, with_ids: bool, with_text: bool) -> list[bytes]:
    """The JSON of the members `passages` and `copies` of each result."""
    passages = [b'"passages":[]'] * len(found.hits)
    if found.passages is not None:
        highlights = found.passage_highlights or repeat(None)
        shown = (
            _passages(found, hits, marks, with_ids=with_ids, with_text=with_text)
            for hits, marks in zip(found.passages, highlights, strict=False)
        )
        passages = [b'"passages":%b' % json.encode(passage) for passage in shown]
    if found.copies is None or not any(found.copies):
        return passages
    return [
        b'%b,"copies":%b' % (passage, orjson.dumps(told_copies(hits))) if hits else passage
        for passage, hits in zip(passages, found.copies, strict=True)
    ]


def _passages(
    found: Answer, hits: Sequence[types.Hit], highlights: Sequence[Highlight] | None, *, with_ids: bool, with_text: bool
) -> list[Passage]:
    relevances: Iterable[float | None] = found.relevances_of(hits) or repeat(None)
    marks: Iterable[Highlight | None] = repeat(None) if highlights is None else highlights
    return [
        Passage(
            score,
            list(chunk.span),
            id=chunk.id if with_ids else UNSET,
            relevance=present(relevance),
            section=present(chunk.section),
            text=chunk.text if with_text else UNSET,
            highlight=UNSET if highlight is None else convert(highlight, ShownHighlight, from_attributes=True),
        )
        for (chunk, score), relevance, highlight in zip(hits, relevances, marks, strict=False)
    ]
