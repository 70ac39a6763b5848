"""The fields of a segment as a batch: opened, refused, merged, and never written to by those who ask."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from aidre.engine.index.fields.field_index import FieldIndex, merge_fields
from aidre.engine.index.fields.filters import parse_filter
from tests.support.fields import build_fields, matches, row


def test_a_name_nobody_carries_matches_nothing_and_is_unequal_everywhere() -> None:
    rows = [row({"a": 1}), row({})]
    for operator in ({"eq": 1}, {"in": [1, "x", True]}, {"gt": 0}, {"lte": "z"}, {"exists": True}):
        assert matches(rows, {"nobody": operator}) == []
    assert matches(rows, {"nobody": {"ne": 1}}) == [0, 1]
    assert matches(rows, {"nobody": {"exists": False}}) == [0, 1]


def test_a_batch_gathered_by_another_release_is_refused_so_that_it_is_built_again() -> None:
    batch = build_fields([row({"a": 1})])
    with pytest.raises(ValueError, match="another release"):
        FieldIndex(batch.replace_schema_metadata({"rows": "1"}))


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
