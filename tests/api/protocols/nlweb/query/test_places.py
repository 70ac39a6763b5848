"""Places: their names as words of their own, in any script."""

from __future__ import annotations

import pytest

from aidre.api.protocols.nlweb.query.places import place_names, place_pattern, read_places, split_place
from aidre.engine.index.fields.field_index import FieldIndex
from aidre.engine.model import Json
from tests.support.fields import FieldRow, build_fields


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("東京", ["東京都渋谷区1-1"]),
        ("örebro", ["Örebro, Sverige"]),
        ("Sweden", ["Örebro, Sverige"]),
        ("new york", ["New  York City"]),
        ("rebro", []),
        ("stanbul", []),
        ("in", []),
        ("ulm", ["Ulm, Donau"]),
        ("(Old) *", ["Mill (Old) * 1"]),
        ("x\ud800", []),
    ],
)
def test_a_place_is_words_of_their_own_in_any_script(name: str, held: list[str]) -> None:
    known = ["東京都渋谷区1-1", "Örebro, Sverige", "New  York City", "in the park", "Ulm, Donau", "Mill (Old) * 1"]
    members: dict[str, Json] = {"location": [*known, "İstanbul", "\ud800"]}
    stored = FieldIndex(build_fields([FieldRow("a", None, None, "2026-01-01T00:00:00Z", members, None)]))
    pattern = place_pattern(name)
    assert held == ([] if pattern is None else stored.dictionary("location").matching(pattern, 9))


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("Boise", ["Boise"]),
        ("near Boise, ID", ["Boise", "ID"]),
        ("in Berlin", ["Berlin"]),
        ("near me", []),
        ("", []),
    ],
)
def test_a_place_is_read_as_the_names_that_it_must_have(written: str, names: list[str]) -> None:
    assert split_place(written) == names


def test_two_letters_are_a_region_or_a_country_by_their_field() -> None:
    assert "idaho" in [name.lower() for name in place_names("address.addressRegion", "ID")]
    assert "indonesia" in [name.lower() for name in place_names("address.addressCountry", "ID")]
    assert "indonesia" not in [name.lower() for name in place_names("address.addressRegion", "ID")]


def test_of_several_places_one_that_is_none_takes_all_away() -> None:
    places = read_places({"addressLocality": "Berlin", "name": "Boise, ID", "@type": "Place"})
    assert sorted(parts for _, parts in places) == [["Berlin"], ["Boise", "ID"]]
    assert read_places({"addressLocality": "Berlin", "name": "near me"}) == []
    assert read_places({"latitude": 43.6, "longitude": -116.2}) == []
