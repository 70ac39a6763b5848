"""Nested metadata and schema.org objects: the names and the values under which filters find their members."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aidre.engine.index.fields.field_index import FieldIndex
from aidre.engine.index.fields.filters import parse_filter
from tests.support.fields import build_fields, matches, row

PRODUCT = {
    "@context": {"@vocab": "https://schema.org/", "secret": "x"},
    "@type": "Product",
    "name": "Lamp",
    "brand": {"@type": "Brand", "name": "Lumen"},
    "keywords": ["light", "desk"],
    "offers": [
        {"@type": "Offer", "price": "19.99", "availability": "http://schema.org/InStock", "validThrough": "2026-05-01"},
        {"@type": "Offer", "price": 25, "availability": "OutOfStock", "validThrough": "2026-04-01T23:00:00-02:00"},
    ],
    "aggregateRating": {"ratingValue": "4.50", "reviewCount": "0012"},
    "sku": "00815",
    "weight": {"@value": "7e-1", "@type": "xsd:decimal"},
    "url": "https://shop.example/lamp",
    "metadata": {"shelf": "B"},
    "description": "long " * 60,
}


def test_members_of_a_schema_object_are_fields_by_dotted_names() -> None:
    rows = [row({}, schema_object=PRODUCT), row({"brand": {"name": "Other"}}), row({})]
    for written in (
        {"brand.name": "Lumen"},
        {"keywords": "desk"},
        {"offers.price": 25},
        {"offers.@type": "Offer"},
        {"weight": {"lt": 1}},
        {"weight.@value": {"exists": False}, "weight.@type": "xsd:decimal"},
        {"metadata.url": "https://shop.example/lamp"},
        {"offers": {"exists": True}},
    ):
        assert matches(rows, written) == [0], written
    assert matches(rows, {"url": {"exists": True}}) == []
    assert matches(rows, {"@context.secret": {"exists": True}}) == []
    assert matches(rows, {"metadata.metadata.shelf": {"exists": True}}) == []


def test_a_field_has_the_values_of_the_metadata_and_of_the_schema_object() -> None:
    rows = [row({"keywords": "lamp", "sku": 815}, schema_object=PRODUCT), row({"keywords": ["desk"]})]
    assert matches(rows, {"keywords": "lamp"}) == [0]
    assert matches(rows, {"keywords": "desk"}) == [0, 1]
    assert matches(rows, {"and": [{"sku": 815}, {"sku": "00815"}]}) == [0]


def test_a_string_that_is_a_json_number_counts_as_both_in_a_schema_object_only() -> None:
    rows = [row({}, schema_object=PRODUCT), row({"offers": {"price": "19.99"}})]
    assert matches(rows, {"offers.price": {"gte": 19.99, "lt": 20}}) == [0]
    assert matches(rows, {"offers.price": "19.99"}) == [0, 1]
    assert matches(rows, {"aggregateRating.ratingValue": 4.5}) == [0]
    assert matches(rows, {"aggregateRating.reviewCount": {"gte": 0}}) == []
    assert matches(rows, {"sku": {"gte": 0}}) == []
    odd = ["1", "-0", "1e400", "9" * 200, " 1", "1_0", "+1", "1.", ".5", "0x1", "NaN", "Infinity", "١", "1\n", ""]
    objects = [row({}, schema_object={"@type": "T", "n": text}) for text in odd]
    assert matches(objects, {"n": {"gte": -math.inf}}) == [0, 1, 2, 3]


def test_a_term_of_schema_org_is_reached_with_and_without_its_address() -> None:
    rows = [row({}, schema_object=PRODUCT)]
    assert matches(rows, {"offers.availability": "InStock"}) == [0]
    assert matches(rows, {"offers.availability": {"in": ["http://schema.org/InStock"]}}) == [0]


def test_a_field_that_schema_org_gives_to_dates_compares_dates_as_instants_and_other_strings_as_strings() -> None:
    rows = [
        row({}, schema_object=PRODUCT),
        row({"offers": {"validThrough": "2026-05-01T02:00:00+02:00"}}),
        row({}, schema_object={"@type": "T", "offers": {"validThrough": "until sold out"}}),
    ]
    assert matches(rows, {"offers.validThrough": "2026-05-01"}) == [0, 1]
    assert matches(rows, {"offers.validThrough": {"lte": "2026-04-02T01:00:00Z"}}) == [0]
    assert matches(rows, {"offers.validThrough": {"gt": "2020-01-01"}}) == [0, 1]
    assert matches(rows, {"offers.validThrough": {"gt": "until"}}) == [2]
    assert matches(rows, {"offers.validThrough": {"in": ["until sold out", "2026-05-01T00:00:00Z"]}}) == [0, 1, 2]


def test_a_long_text_of_a_schema_object_is_only_there() -> None:
    body = "word " * 100_000
    batch = build_fields([row({}, schema_object={"@type": "Article", "articleBody": body, "headline": "Short"})])
    assert batch.nbytes < 5_000
    fields = FieldIndex(batch)
    assert fields.mask(parse_filter({"articleBody": {"exists": True}})).tolist() == [True]
    assert fields.mask(parse_filter({"articleBody": {"gte": ""}})).tolist() == [False]
    assert fields.mask(parse_filter({"headline": {"gte": ""}})).tolist() == [True]


def deep(levels: int) -> Any:
    value: Any = "found"
    for _ in range(levels):
        value = {"k": value}
    return value


@pytest.mark.parametrize(
    "hostile",
    [
        {"names": {f"name{i}": i for i in range(50_000)}},
        {"n" * 300: 1},
        {"list": [[f"value {i}"] for i in range(50_000)]},
        {"list": [{f"k{i}": [{}] * 50} for i in range(5_000)]},
        {"k": deep(5_000)},
        {"k" * 255: {"l" * 255: 1}},
    ],
)
def test_a_hostile_schema_object_costs_a_bounded_part_of_the_file_and_keeps_its_first_members(hostile: Any) -> None:
    batch = build_fields([row({}, schema_object={"@type": "Thing", "offers": {"price": 5}, **hostile})])
    assert batch.nbytes < 500_000
    fields = FieldIndex(batch)
    assert len(fields.names) <= 1_000
    assert max(map(len, fields.names)) <= 256
    assert fields.mask(parse_filter({"type": "Thing", "offers.price": 5})).tolist() == [True]


def test_dotted_names_reach_nested_members_lists_of_objects_and_keys_with_a_dot() -> None:
    rows = [
        row({"author": {"name": "Ada"}}),
        row({"author": [{"name": "Bob"}, {"name": "Ada"}]}),
        row({"author.name": "Ada"}),
        row({"author": "Ada"}),
    ]
    assert matches(rows, {"author.name": "Ada"}) == [0, 1, 2]
    assert matches(rows, {"author": {"exists": True}}) == [0, 1, 3]
    assert matches(rows, {"author": "Ada"}) == [3]


def test_the_prefix_reaches_metadata_behind_a_reserved_name() -> None:
    rows = [
        row({"type": "meta", "metadata": {"type": "deep", "x": 1}}, type="Recipe"),
        row({"site": "Not.Normal"}, url="https://www.Shop.example/x"),
    ]
    assert matches(rows, {"type": "Recipe"}) == [0]
    assert matches(rows, {"type": "meta"}) == []
    assert matches(rows, {"metadata.type": "meta"}) == [0]
    assert matches(rows, {"metadata.metadata.type": "deep"}) == [0]
    assert matches(rows, {"metadata.x": 1}) == []
    assert matches(rows, {"site": "shop.example"}) == [1]
    assert matches(rows, {"metadata.site": "Not.Normal"}) == [1]


def test_metadata_nested_without_end_is_stored() -> None:
    deep: Any = "found"
    for _ in range(3_000):
        deep = {"k": deep}
    fields = FieldIndex(build_fields([row({"k": deep}), row({"k": {"k": 1}})]))
    assert fields.mask(parse_filter({"k.k": {"exists": True}})).tolist() == [True, True]
