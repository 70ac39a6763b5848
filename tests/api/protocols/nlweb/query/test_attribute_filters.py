"""Open filter attributes as filters of the engine, asked of the fields that items really have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from aidre.api.protocols.nlweb.query import attribute_filters
from aidre.api.protocols.nlweb.query.attribute_filters import build_filter
from aidre.engine.index.fields.field_index import FieldIndex
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.model import Json
from tests.support.fields import FieldRow, build_fields, dated
from tests.support.properties import REPEATABLE

ITEMS: dict[str, dict[str, Json]] = {
    "muffins": {
        "@type": "Recipe", "name": "Cinnamon muffins", "cookTime": "PT25M", "recipeCuisine": "American",
        "author": {"@type": "Person", "name": "Jane Doe", "address": {"addressRegion": "Texas"}},
        "aggregateRating": {"@type": "AggregateRating", "ratingValue": "4.5"}, "datePublished": "2024-06-01",
        "suitableForDiet": "https://schema.org/VeganDiet", "recipeIngredient": ["flour", "cinnamon"],
        "isAccessibleForFree": True,
    },
    "roast": {"@type": ["Recipe", "HowTo"], "name": "Roast", "cookTime": "PT2H", "datePublished": "2021-03-04"},
    "diner": {
        "@type": "Restaurant", "name": "Idaho Diner", "priceRange": "$$",
        "address": {
            "@type": "PostalAddress", "addressLocality": "Boise", "addressRegion": "ID", "addressCountry": "US",
        },
    },
    "shop": {"@type": "https://schema.org/Bakery", "name": "Bäckerei", "areaServed": ["Berlin", "Potsdam"]},
    "knife": {"@type": "Product", "name": "Knife", "sku": "10-20", "offers": {
        "@type": "Offer", "price": "12.50", "priceCurrency": "USD", "availability": "https://schema.org/InStock"}},
    "pan": {"@type": "Product", "name": "Pan", "offers": {"price": 20, "priceCurrency": "EUR"}},
    "pot": {"@type": "Product", "name": "Pot", "offers": {
        "@type": "AggregateOffer", "lowPrice": 15, "highPrice": 40, "priceCurrency": "USD"}},
    "film": {"@type": "Movie", "name": "Film", "datePublished": "1999", "inLanguage": "en", "genre": ["Drama", "War"]},
    "concert": {"@type": "MusicEvent", "name": "Concert", "startDate": "2026-07-01T20:00:00+02:00",
                "isAccessibleForFree": "False",
                "location": {"@type": "Place", "name": "Old Mill", "address": "Mill St. 1, Springfield, ID 83702"}},
}  # fmt: skip
METADATA: dict[str, dict[str, Json]] = {
    "note": {"price": 7, "type": "tool", "reviewed": "2025-01-02", "team": "Search"},
    "page": {"team": "search"},
}
NAMES = [*ITEMS, *METADATA]
FIELDS = FieldIndex(
    build_fields(
        [
            *(FieldRow(name, None, None, "2026-01-01T00:00:00Z", {}, item) for name, item in ITEMS.items()),
            FieldRow("note", None, None, "2024-01-01T00:00:00Z", METADATA["note"], None),
            FieldRow("page", "https://example.com/", None, "2026-01-01T00:00:00Z", METADATA["page"], None),
        ],
        dates=["reviewed"],
    )
)


def texts(field: str, pattern: str) -> list[str]:
    return FIELDS.dictionary(field).matching(pattern, 10)


def found(attributes: dict[str, Any]) -> set[str]:
    """The documents that pass, of attributes that are all applied."""
    filtered = build_filter(attributes, FIELDS.names, ["reviewed"], texts)
    assert filtered.ignored == ()
    if filtered.filter is None:
        return set(NAMES)
    mask = FIELDS.mask(dated(filtered.filter, ["reviewed"]))
    return {name for name, passes in zip(NAMES, mask.tolist(), strict=True) if passes}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("Recipe", {"muffins", "roast"}),
        ("recipes", {"muffins", "roast"}),
        ("https://schema.org/Recipe", {"muffins", "roast"}),
        ("HowTo", {"muffins", "roast"}),
        ("LocalBusiness", {"diner", "shop"}),
        ("FoodEstablishment", {"diner", "shop"}),
        ("Bakery", {"shop"}),
        (["Movie", "Product"], {"film", "knife", "pan", "pot"}),
        ("Movie, Product", {"film", "knife", "pan", "pot"}),
        ("Event", {"concert"}),
        ("CreativeWork", {"muffins", "roast", "film", "note", "page"}),
        ("Article", {"note"}),
        ("WebPage", {"page"}),
        ("Thing", set(NAMES)),
        ("all", set(NAMES)),
        ("Person", set()),
        ("VendorSpecificThing", set()),
    ],
)
def test_a_type_finds_its_subtypes_however_it_is_written(value: Any, names: set[str]) -> None:
    assert found({"itemType": value}) == names
    assert found({"item_type": value}) == names


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("less than 20", {"knife", "pot", "note"}),
        ("at most 20", {"knife", "pan", "pot", "note"}),
        ("less than $20", {"knife", "pot", "note"}),
        ("at most 20 euros", {"pan", "note"}),
        ("10-20", {"knife", "pan", "pot"}),
        ("between 30 and 35", {"pot"}),
        (">= 50", set()),
        (20, {"pan", "pot"}),
        ("12.50", {"knife"}),
        ({"max": 13}, {"knife", "note"}),
        ({"minPrice": 35}, {"pot"}),
        (["under 10", "over 30"], {"note", "pot"}),
        ("$$", {"diner"}),
    ],
)
def test_a_price_is_read_from_free_text_and_compared_in_its_currency(value: Any, names: set[str]) -> None:
    assert found({"price": value}) == names


def test_bounds_may_be_attributes_of_their_own_or_nested() -> None:
    assert found({"minPrice": 16, "maxPrice": "30"}) == {"pan", "pot"}
    assert found({"offers": {"price": "<15", "priceCurrency": "usd"}}) == {"knife"}
    assert found({"offers.price": "<15"}) == {"knife"}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("Idaho", {"diner", "concert"}),
        ("idaho", {"diner", "concert"}),
        ("ID", {"diner", "concert"}),
        ("in Idaho", {"diner", "concert"}),
        ("springfield", {"concert"}),
        ("Springfield, Idaho", {"concert"}),
        ("mill st. 1", {"concert"}),
        ("83702", {"concert"}),
        ("Mill", {"concert"}),
        ("Spring", set()),
        ("field", set()),
        ("Springfield, Oregon", set()),
        (".*", set()),
        ("st", set()),
        ("near Boise", {"diner"}),
        ("Boise, ID", {"diner"}),
        ("Boise, Idaho, USA", {"diner"}),
        ("United States", {"diner"}),
        ("berlin", {"shop"}),
        ({"@type": "Place", "address": {"addressLocality": "Boise", "addressRegion": "Idaho"}}, {"diner"}),
        (["Berlin", "Boise"], {"shop", "diner"}),
        ("Indonesia", set()),
        ("Boise, Oregon", set()),
        ("Texas", set()),
    ],
)
def test_a_location_is_compared_with_where_the_item_is(value: Any, names: set[str]) -> None:
    assert found({"location": value}) == names


@pytest.mark.parametrize(
    ("attribute", "value", "names"),
    [
        ("datePublished", "after 2023", {"muffins"}),
        ("datePublished", "2021", {"roast"}),
        ("datePublished", "before 2000", {"film"}),
        ("datePublished", 1999, {"film"}),
        ("datePublished", "2021..2024", {"muffins", "roast"}),
        ("startDate", "2026-07-01", {"concert"}),
        ("date", "July 2026", {"concert"}),
        ("date", "1999", {"film"}),
        ("published", "July 2026", set()),
        ("updated_at", "before 2025", {"note"}),
        ("reviewed", "2025", {"note"}),
    ],
)
def test_a_date_is_a_span_of_time(attribute: str, value: Any, names: set[str]) -> None:
    assert found({attribute: value}) == names


@pytest.mark.parametrize(
    ("value", "names"),
    [("under 30 minutes", {"muffins"}), ("over an hour", {"roast"}), ("PT120M", {"roast"}), ("1 minute", set())],
)
def test_a_cooking_time_is_compared_by_its_minutes(value: str, names: set[str]) -> None:
    assert found({"cookTime": value}) == names


@pytest.mark.parametrize(
    ("attribute", "value", "names"),
    [
        ("author", "jane doe", {"muffins"}),
        ("author.name", "Jane Doe", {"muffins"}),
        ("author", {"name": "JANE DOE"}, {"muffins"}),
        ("ratingValue", ">= 4", {"muffins"}),
        ("rating", "at least 4.6 stars", set()),
        ("aggregateRating.ratingValue", 4.5, {"muffins"}),
        ("ratingValue", "4.5", {"muffins"}),
        ("recipeIngredient", "Cinnamon", {"muffins"}),
        ("ingredients", ["cinnamon", "salt"], {"muffins"}),
        ("cuisine", "american", {"muffins"}),
        ("suitableForDiet", "https://schema.org/VeganDiet", {"muffins"}),
        ("suitableForDiet", "VeganDiet", {"muffins"}),
        ("diet", "vegan", {"muffins"}),
        ("availability", "in stock", {"knife"}),
        ("availability", "instock", set()),
        ("availability", "InStock", {"knife"}),
        ("sku", "10-20", {"knife"}),
        ("genre", ["war", "comedy"], {"film"}),
        ("isAccessibleForFree", True, {"muffins"}),
        ("isAccessibleForFree", "yes", {"muffins"}),
        ("isAccessibleForFree", False, {"concert"}),
        ("language", "EN", {"film"}),
        ("team", "SEARCH", {"note", "page"}),
        ("Team", "Search", {"note", "page"}),
        ("metadata.type", "tool", {"note"}),
        ("metadata.team", "Search", {"note", "page"}),
        ("url", "https://example.com/", {"page"}),
        ("document_id", "roast", {"roast"}),
    ],
)
def test_any_other_attribute_is_compared_with_the_field_of_its_name(
    attribute: str, value: Any, names: set[str]
) -> None:
    assert found({attribute: value}) == names


def test_attributes_narrow_each_other() -> None:
    assert found({"itemType": "Product", "price": "< 20", "sku": "10-20"}) == {"knife"}


@pytest.mark.parametrize(
    ("attributes", "ignored"),
    [
        ({"personalized": True}, ("personalized",)),
        ({"price": "cheap"}, ("price",)),
        ({"price": True}, ("price",)),
        ({"price": [10, "cheap"]}, ("price",)),
        ({"price": []}, ("price",)),
        ({"author": ["Jane Doe", None]}, ("author",)),
        ({"location": "near me"}, ("location",)),
        ({"location": {"latitude": 43.6, "longitude": -116.2}}, ("location",)),
        ({"location": ""}, ("location",)),
        ({"datePublished": "recently"}, ("datePublished",)),
        ({"updated_at": "whenever"}, ("updated_at",)),
        ({"reviewed": "never"}, ("reviewed",)),
        ({"cookTime": "quick"}, ("cookTime",)),
        ({"cookTime": 30}, ("cookTime",)),
        ({"itemType": 7}, ("itemType",)),
        ({"itemType": []}, ("itemType",)),
        ({"offers": {"price": "<15", "colour": "red"}}, ("offers.colour",)),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, ("a.b.c.d",)),
        ({"author": {}}, ("author",)),
        ({"name": "x" * 5_000}, ("name",)),
        ({"author": None, "nothing": None}, ()),
    ],
)
def test_what_cannot_be_applied_is_named(attributes: dict[str, Any], ignored: tuple[str, ...]) -> None:
    assert build_filter(attributes, FIELDS.names, ["reviewed"]).ignored == ignored


def test_what_can_be_applied_is_applied_beside_what_cannot() -> None:
    filtered = build_filter({"itemType": "Movie", "mood": "sad"}, FIELDS.names)
    assert filtered.ignored == ("mood",)
    assert filtered.filter == {"type": {"in": ["Movie"]}}


def test_no_attribute_is_no_filter() -> None:
    assert build_filter({}, FIELDS.names) == build_filter({"x": None}, FIELDS.names)
    assert build_filter({}, FIELDS.names).filter is None


def test_a_field_that_is_called_like_an_operator_cannot_be_asked_for() -> None:
    for name in ("and", "or", "not"):
        filtered = build_filter({name: "x"}, {name})
        assert (filtered.filter, filtered.ignored) == (None, (name,))


def test_a_whole_text_is_no_filter() -> None:
    names = {"articleBody", "hasPart.articleBody", "comment.text", "metadata.text"}
    for name in ("articleBody", "hasPart.articleBody", "comment.text", "ARTICLEBODY"):
        filtered = build_filter({name: "Only subscribers read this."}, names)
        assert (filtered.filter, filtered.ignored) == (None, (name,))


def test_more_conditions_than_the_engine_takes_are_named_not_sent() -> None:
    many = {f"offers.price{'_' * number}": [f"{one}-{one + 1}" for one in range(100)] for number in range(60)}
    filtered = build_filter(many, FIELDS.names)
    assert filtered.ignored
    parse_filter(filtered.filter)


NAME = st.sampled_from(
    ["itemType", "type", "price", "minPrice", "location", "datePublished", "updated_at", "reviewed", "cookTime",
     "author", "ratingValue", "offers", "offers.price", "sku", "metadata.type", "and", "or", "not", "", "date", "url",
     "unknown"]
) | st.text(max_size=8)  # fmt: skip
WORDS = st.text(max_size=20) | st.sampled_from(
    ["under 20", "10-20", "Recipe", "after 2024", "Idaho", "under 30 minutes", "$$", "\ud800", "\u0000", "https://schema.org/X"]
)  # fmt: skip
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAME, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(REPEATABLE, max_examples=100)
@given(st.dictionaries(NAME, VALUE, max_size=5))
def test_any_attributes_make_a_filter_that_the_engine_takes(attributes: dict[str, Any]) -> None:
    filtered = build_filter(attributes, FIELDS.names, ["reviewed"])
    if filtered.filter is not None:
        FIELDS.mask(dated(filtered.filter, ["reviewed"]))
    for name in filtered.ignored:
        assert name.split(".")[0] in {key.split(".")[0] for key in attributes}


def test_where_too_many_texts_would_have_to_be_looked_through_a_place_is_named() -> None:
    filtered = build_filter({"location": "Springfield", "genre": "War"}, FIELDS.names, (), lambda *_: None)
    assert filtered.ignored == ("location",)
    assert filtered.filter is not None


def test_attributes_that_would_take_long_to_read_are_named_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: how often a text is spelled in other ways."""
    spelled: list[str] = []

    def spelling(text: str) -> list[str]:
        spelled.append(text)
        return spell(text)

    spell = attribute_filters._spellings
    monkeypatch.setattr(attribute_filters, "_spellings", spelling)
    place, fields = "us,ID,uk,de,ch,fr,at,it", [f"{name}.addressRegion" for name in ("address", "location", "place")]
    known = [*fields, *(f"{name}.addressCountry" for name in ("address", "location", "place"))]
    many = {f"location{'_' * number}": [place] * 100 for number in range(60)}
    assert build_filter(many, known).ignored == tuple(many)
    long = build_filter({"location": "Berlin", "Location_": "Paris", "name": "x" * 9_000, "genre": "War"}, known)
    assert long.ignored == ("Location_", "name", "genre")
    assert build_filter({"location": ",".join("abcdefghi")}, known).ignored == ("location",)
    assert len(spelled) < 20_000
