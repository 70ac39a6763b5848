"""Columns over documents, one rule of filters a test (test_field_masks.py checks them all against an oracle)."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields.builder import FieldRow
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.fields.reader import FieldIndex, build_fields, merge_fields


def row(metadata: dict[str, Any], number: int = 0, **reserved: Any) -> FieldRow:
    given: dict[str, Any] = {"url": None, "type": None, "updated_at": "2026-04-01T10:00:00Z"} | reserved
    return FieldRow(document_id=f"d{number}", metadata=metadata, **given)


def matches(rows: Sequence[FieldRow], written: Any, dates: Sequence[str] = ()) -> list[int]:
    mask = FieldIndex(build_fields(rows, dates)).mask(parse_filter(written, dates))
    return np.flatnonzero(mask).tolist()


def test_true_is_not_one_and_a_number_is_not_its_digits() -> None:
    values: list[Any] = [True, 1, 1.0, "1", "true", None, [], {}]
    rows = [row({"a": value}) for value in values]
    assert matches(rows, {"a": True}) == [0]
    assert matches(rows, {"a": 1}) == [1, 2]
    assert matches(rows, {"a": "1"}) == [3]
    assert matches(rows, {"a": {"in": ["true", True]}}) == [0, 4]
    assert matches(rows, {"a": {"exists": True}}) == [0, 1, 2, 3, 4, 7]


def test_large_integers_compare_exactly_with_integers_and_floats() -> None:
    rows = [row({"a": value}) for value in (2**60, 2**60 + 1, float(2**60), 2**53 + 1)]
    assert matches(rows, {"a": 2**60 + 1}) == [1]
    assert matches(rows, {"a": 2**60}) == [0, 2]
    assert matches(rows, {"a": {"gt": float(2**60)}}) == [1]
    assert matches(rows, {"a": {"lt": 2**53 + 2}}) == [3]
    assert matches(rows, {"a": float(2**53)}) == []


def test_integers_beyond_64_bits_count_as_floats_however_large() -> None:
    rows = [row({"a": value}) for value in (2**70, 10**400, -(10**400), math.inf, 5)]
    assert matches(rows, {"a": 2**70}) == [0]
    assert matches(rows, {"a": {"gt": 2**63}}) == [0, 1, 3]
    assert matches(rows, {"a": {"lt": -(2**80)}}) == [2]
    assert matches(rows, {"a": 5}) == [4]


def test_nan_exists_and_compares_with_nothing() -> None:
    rows = [row({"a": math.nan}), row({"a": 1.0}), row({})]
    assert matches(rows, {"a": {"exists": True}}) == [0, 1]
    assert matches(rows, {"or": [{"a": {"gte": -math.inf}}, {"a": {"lte": math.inf}}]}) == [1]
    assert matches(rows, {"a": {"ne": 1}}) == [0, 2]


def test_not_equal_holds_for_a_missing_field_and_no_element_of_a_list() -> None:
    rows = [row({"tags": ["x", "y"]}), row({"tags": ["y"]}), row({"tags": "x"}), row({"tags": []}), row({})]
    assert matches(rows, {"tags": "x"}) == [0, 2]
    assert matches(rows, {"tags": {"ne": "x"}}) == [1, 3, 4]
    assert matches(rows, {"not": {"tags": "x"}}) == [1, 3, 4]
    assert matches(rows, {"tags": {"gt": "x"}}) == [0, 1]


def test_a_name_nobody_carries_matches_nothing_and_is_unequal_everywhere() -> None:
    rows = [row({"a": 1}), row({})]
    for operator in ({"eq": 1}, {"in": [1, "x", True]}, {"gt": 0}, {"lte": "z"}, {"exists": True}):
        assert matches(rows, {"nobody": operator}) == []
    assert matches(rows, {"nobody": {"ne": 1}}) == [0, 1]
    assert matches(rows, {"nobody": {"exists": False}}) == [0, 1]


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


def test_a_type_is_the_documents_or_any_of_its_schema_object() -> None:
    rows = [
        row({}, type="Recipe"),
        row({}, schema_object={"@type": ["Recipe", "NewsArticle"]}),
        row({}, schema_object={"@type": "https://schema.org/Recipe"}),
        row({}, schema_object={"@type": 5}),
        row({}),
    ]
    assert matches(rows, {"type": "Recipe"}) == [0, 1, 2]
    assert matches(rows, {"type": "https://schema.org/Recipe"}) == [2]
    assert matches(rows, {"type": {"exists": False}}) == [3, 4]


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


def test_a_batch_gathered_by_another_release_is_refused_so_that_it_is_built_again() -> None:
    batch = build_fields([row({"a": 1})])
    with pytest.raises(ValueError, match="another release"):
        FieldIndex(batch.replace_schema_metadata({"rows": "1"}))


def test_a_list_of_many_numbers_is_answered_alike_near_together_and_far_apart() -> None:
    stored = [0, 5, -(2**63), 2**63 - 1, 70_000, 69_999, True, 7.0, -1]
    rows = [row({"n": value}) for value in stored]
    near = [*range(0, 60, 2), 7]
    assert matches(rows, {"n": {"in": near}}) == [0, 7]
    assert matches(rows, {"n": {"in": [*near, 70_000, 2**63 - 1]}}) == [0, 3, 4, 7]
    assert matches(rows, {"n": {"in": [*range(2**63 - 60, 2**63, 1)]}}) == [3]
    complete = [row({"n": value}) for value in range(-50, 50)]
    assert matches(complete, {"n": {"in": [*range(-200, 0, 3), 48]}}) == [*range(0, 50, 3), 98]


def test_dates_compare_as_instants() -> None:
    rows = [
        row({"born": "2026-04-01"}, updated_at="2026-04-01T12:00:00+02:00"),
        row({"born": "2026-04-01T00:30:00+01:00"}, updated_at="2026-04-01T10:00:00.250Z"),
        row({"born": "in spring"}, updated_at="2026-04-01T09:59:59Z"),
        row({"born": 20260401}, updated_at="2026-04-01"),
    ]
    assert matches(rows, {"updated_at": "2026-04-01T10:00:00Z"}) == [0]
    assert matches(rows, {"updated_at": {"gte": "2026-04-01T10:00:00"}}) == [0, 1]
    assert matches(rows, {"updated_at": {"lt": "2026-04-01T00:00:01Z"}}) == [3]
    assert matches(rows, {"born": {"lt": "2026-04-01"}}, dates=["born"]) == [1]
    assert matches(rows, {"born": {"gte": "0001-01-01"}}, dates=["born"]) == [0, 1]
    assert matches(rows, {"born": {"exists": True}}, dates=["born"]) == [0, 1, 2, 3]
    with pytest.raises(InvalidFilter, match="born"):
        matches(rows, {"born": "in spring"}, dates=["born"])


def test_a_field_declared_a_date_after_it_was_stored_compares_as_dates_all_the_same() -> None:
    fields = FieldIndex(build_fields([row({"born": ["2026-04-01", "x"]}), row({"born": "2025-01-01"}), row({})]))
    assert fields.mask(parse_filter({"born": {"gt": "2025-06-01T00:00:00Z"}}, ["born"])).tolist() == [
        True,
        False,
        False,
    ]
    assert fields.mask(parse_filter({"born": {"gt": "2025-06-01"}})).tolist() == [True, False, False]
    assert fields.mask(parse_filter({"born": {"ne": "2026-04-01"}}, ["born"])).tolist() == [False, True, True]


def test_strings_order_by_code_point_also_beyond_the_basic_plane() -> None:
    rows = [row({"a": text}) for text in ("\U0001f600", "\uffff", "\ud800", "z", "")]
    assert matches(rows, {"a": {"gt": "\uffff"}}) == [0]
    assert matches(rows, {"a": {"lt": "\uffff"}}) == [2, 3, 4]
    assert matches(rows, {"a": "\ud800"}) == [2]


@pytest.mark.parametrize("carriers", [range(300), range(0, 200), range(0, 300, 3)])
def test_complete_common_and_rare_fields_answer_alike(carriers: range) -> None:
    rows = [row({"n": i, "f": i / 8, "s": f"{i:03d}"} if i in carriers else {}) for i in range(300)]
    assert matches(rows, {"n": {"gte": 17, "lt": 55}}) == [i for i in carriers if 17 <= i < 55]
    assert matches(rows, {"f": {"gt": 17 / 8, "lte": 55 / 8}}) == [i for i in carriers if 17 < i <= 55]
    assert matches(rows, {"s": {"gt": "017", "lte": "055"}}) == [i for i in carriers if 17 < i <= 55]
    picked = [*range(0, 200, 7), carriers[-1]]
    kept = [i for i in carriers if i in picked]
    assert matches(rows, {"n": {"in": picked}}) == kept
    assert matches(rows, {"f": {"in": [i / 8 for i in picked]}}) == kept
    assert matches(rows, {"s": {"in": [f"{i:03d}" for i in picked]}}) == kept
    assert matches(rows, {"n": {"exists": False}}) == [i for i in range(300) if i not in carriers]


@pytest.mark.parametrize("others", [0, 1, 9])
def test_values_at_and_beyond_the_ends_of_64_bits_and_of_floats_compare_exactly(others: int) -> None:
    stored = [-(2**63), 2**63 - 1, 0, math.inf, -math.inf, float(2**60), 1.5]
    rows = [row({"a": value}) for value in stored] + [row({})] * others
    assert matches(rows, {"a": {"gt": -math.inf}}) == [0, 1, 2, 3, 5, 6]
    assert matches(rows, {"a": {"gte": -(10**400)}}) == [0, 1, 2, 3, 4, 5, 6]
    assert matches(rows, {"a": {"lt": 10**30}}) == [0, 1, 2, 4, 5, 6]
    assert matches(rows, {"a": {"gt": math.inf}}) == matches(rows, {"a": {"lt": -math.inf}}) == []
    assert matches(rows, {"a": {"gte": math.inf}}) == [3]
    assert matches(rows, {"a": -(2**63)}) == [0]
    assert matches(rows, {"a": {"lte": -(2**63)}}) == [0, 4]
    assert matches(rows, {"a": {"gt": 2**63 - 1}}) == [3]
    assert matches(rows, {"a": {"in": [2**60 - 1, 2**60 + 1]}}) == []
    assert matches(rows, {"a": {"in": [1, 2]}}) == []


def test_thousands_of_names_cost_rows_of_one_small_batch() -> None:
    rows = [row({f"name{i}": i, "shared": "x"}) for i in range(2_000)]
    batch = build_fields(rows)
    assert batch.num_columns == build_fields([]).num_columns
    assert batch.nbytes < 400_000
    assert matches(rows, {"name1711": 1711}) == [1711]
    assert len(FieldIndex(batch).names) == 2_001


def test_opening_takes_no_memory_for_a_name() -> None:
    batch = build_fields([row({f"name{i}": i for i in range(5_000)})])
    tracemalloc.start()
    try:
        fields = FieldIndex(batch)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 10_000
    assert "name4711" in fields and "name5000" not in fields and "" not in fields


def test_names_are_the_metadata_members_and_not_the_reserved_fields() -> None:
    fields = FieldIndex(
        build_fields([row({"a": {"b": [1]}, "c": None, "type": 1}, type="Recipe", url="https://x.org/")])
    )
    assert fields.names == {"a", "a.b", "metadata.type"}


def test_metadata_nested_without_end_is_stored() -> None:
    deep: Any = "found"
    for _ in range(3_000):
        deep = {"k": deep}
    fields = FieldIndex(build_fields([row({"k": deep}), row({"k": {"k": 1}})]))
    assert fields.mask(parse_filter({"k.k": {"exists": True}})).tolist() == [True, True]


def test_no_documents_are_fields_of_no_rows() -> None:
    fields = FieldIndex(build_fields([]))
    assert (fields.rows, fields.names) == (0, frozenset())
    assert fields.mask(parse_filter({"a": 1})).shape == (0,)
    assert merge_fields([]).num_rows == 0


def test_a_mask_belongs_to_the_caller() -> None:
    fields = FieldIndex(build_fields([row({"a": 1}), row({"b": True})]))
    filters: list[Any] = [{"a": 1}, {"a": {"exists": True}}, {"a": {"ne": 1}}, {}, {"or": []}, {"nobody": 1}]
    for written in filters:
        asked = parse_filter(written)
        before = fields.mask(asked).tolist()
        fields.mask(asked)[:] ^= True
        assert fields.mask(asked).tolist() == before


def through_a_file(batch: pa.RecordBatch, path: Any) -> FieldIndex:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return FieldIndex(pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0))


def test_fields_read_from_a_memory_map_answer_like_those_in_memory(tmp_path: Any) -> None:
    rows = [row({"a": i % 7, "t": [f"t{i % 5}", "all"], f"rare{i % 40}": 0.5}, number=i) for i in range(200)]
    batch = build_fields(rows)
    mapped, held = through_a_file(batch, tmp_path / "fields.arrow"), FieldIndex(batch)
    for written in ({"a": {"in": [1, 3]}}, {"t": "t2"}, {"rare3": {"lt": 1}}, {"document_id": "d77"}):
        asked = parse_filter(written)
        assert mapped.mask(asked).any()
        assert mapped.mask(asked).tolist() == held.mask(asked).tolist()


def test_a_batch_that_holds_no_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="not a batch of fields"):
        FieldIndex(pa.record_batch({"name": ["a"]}))


def test_a_column_that_lost_values_is_refused_and_not_misread() -> None:
    batch = build_fields([row({"a": 1}), row({"a": 2})])
    claimed = batch.replace_schema_metadata({**(batch.schema.metadata or {}), b"rows": b"3"})
    with pytest.raises(ValueError, match="lost values"):
        FieldIndex(claimed).mask(parse_filter({"a": 1}))


@given(st.text(alphabet="0159-:TtZ .+", min_size=1, max_size=2), st.integers(0, 19))
@example("0000", 0)
def test_a_date_is_read_alike_among_plain_and_among_other_strings(patch: str, place: int) -> None:
    text = ("2026-04-01T10:00:00Z"[:place] + patch + "2026-04-01T10:00:00Z"[place + len(patch) :])[:20]
    rows = [row({"plain": text, "mixed": text}), row({"plain": "2026-01-01T00:00:00Z", "mixed": ""})]
    fields, names = FieldIndex(build_fields(rows, ["plain", "mixed"])), ["plain", "mixed"]
    plain, mixed = (fields.mask(parse_filter({name: {"lte": "9999-12-31"}}, names)).tolist() for name in names)
    assert plain == [mixed[0], True]
    assert not mixed[1]
