"""What is collected of documents into columns: types, dates, names, and numbers of any size."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, strategies as st

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields.builder import Content, field_names
from aidre.engine.index.fields.field_index import FieldIndex
from aidre.engine.index.fields.filters import parse_filter
from tests.support.fields import build_fields, dated, matches, row


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


def test_the_fields_of_a_document_are_those_that_a_filter_finds_it_by() -> None:
    metadata = {"a": 1, "b": {"c": [{"d": "x"}, 5]}, "url": "hidden by a reserved name", "none": None}
    content: Content = metadata, {"@type": "Recipe", "offers": [{"price": 4.5}], "@context": "https://schema.org"}
    names = field_names(content)
    assert names >= {"a", "b", "b.c", "b.c.d", "metadata.url", "offers", "offers.price"}
    assert not names & {"url", "none", "@context"}
    rows = [row(metadata, schema_object=content[1])]
    assert [name for name in names if matches(rows, {name: {"exists": True}}) != [0]] == []


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
    assert fields.mask(dated({"born": {"gt": "2025-06-01T00:00:00Z"}}, ["born"])).tolist() == [
        True,
        False,
        False,
    ]
    assert fields.mask(parse_filter({"born": {"gt": "2025-06-01"}})).tolist() == [True, False, False]
    assert fields.mask(dated({"born": {"ne": "2026-04-01"}}, ["born"])).tolist() == [False, True, True]


@pytest.mark.slow
@given(st.text(alphabet="0159-:TtZ .+", min_size=1, max_size=2), st.integers(0, 19))
@example("0000", 0)
def test_a_date_is_read_alike_among_plain_and_among_other_strings(patch: str, place: int) -> None:
    text = ("2026-04-01T10:00:00Z"[:place] + patch + "2026-04-01T10:00:00Z"[place + len(patch) :])[:20]
    rows = [row({"plain": text, "mixed": text}), row({"plain": "2026-01-01T00:00:00Z", "mixed": ""})]
    fields, names = FieldIndex(build_fields(rows, ["plain", "mixed"])), ["plain", "mixed"]
    plain, mixed = (fields.mask(dated({name: {"lte": "9999-12-31"}}, names)).tolist() for name in names)
    assert plain == [mixed[0], True]
    assert not mixed[1]


def test_names_are_the_metadata_members_and_not_the_reserved_fields() -> None:
    fields = FieldIndex(
        build_fields([row({"a": {"b": [1]}, "c": None, "type": 1}, type="Recipe", url="https://x.org/")])
    )
    assert fields.names == {"a", "a.b", "metadata.type"}


def test_integers_beyond_64_bits_count_as_floats_however_large() -> None:
    rows = [row({"a": value}) for value in (2**70, 10**400, -(10**400), math.inf, 5)]
    assert matches(rows, {"a": 2**70}) == [0]
    assert matches(rows, {"a": {"gt": 2**63}}) == [0, 1, 3]
    assert matches(rows, {"a": {"lt": -(2**80)}}) == [2]
    assert matches(rows, {"a": 5}) == [4]
