"""The values that every engine gives back: hits and facets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aidre.engine.types import Hit, facet_of


def test_a_hit_has_the_members_of_its_chunk() -> None:
    members = {"id": "d#chunk_1", "document_id": "d", "text": "alpha", "title": "A", "url": None, "metadata": {"a": 1}}
    chunk: Any = SimpleNamespace(**members)
    hit = Hit(chunk, 0.25)
    assert {name: getattr(hit, name) for name in members} == members
    assert repr(hit) == "<Hit 'd#chunk_1', score 0.2500: 'alpha'>"


def test_the_values_of_a_facet_are_ordered_by_number_then_type_then_value() -> None:
    counts: Any = {("string", "b"): 1, ("string", "a"): 1, ("int", 3): 1, ("bool", True): 1, ("float", 0.5): 2}
    facet = facet_of(counts, documents=5, missing=2)
    assert facet.counts == ((0.5, 2), (True, 1), (3, 1), ("a", 1), ("b", 1))
    assert (facet.minimum, facet.maximum, facet.documents, facet.missing, facet.distinct) == (0.5, 3, 5, 2, 5)


def test_a_facet_of_dates_shows_instants_and_their_bounds() -> None:
    counts: Any = {("date", 86_400_000_000): 1, ("date", 0): 1, ("string", "soon"): 3}
    facet = facet_of(counts, documents=5, missing=0)
    assert facet.counts == (("soon", 3), ("1970-01-01T00:00:00Z", 1), ("1970-01-02T00:00:00Z", 1))
    assert (facet.minimum, facet.maximum) == ("1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z")


def test_a_facet_without_numbers_and_dates_has_no_bounds() -> None:
    facet = facet_of({("string", "a"): 1}, documents=1, missing=0)
    assert (facet.minimum, facet.maximum) == (None, None)
