"""Arrow columns as JSON values: dates, decimals, maps, text that is JSON, and cells that JSON cannot hold."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from aidre.ingest.records.source_items import Rejected
from tests.support.rows import from_parquet, one, reason, table


@pytest.mark.slow
def test_json_in_a_column_of_parquet_has_the_bounds_of_a_row(tmp_path: Path) -> None:
    many = '{"a": [' + "[]," * 600_000 + "[]]}"
    rows = [{"id": "a", "text": "x", "metadata": many}, {"id": "b", "text": "x", "metadata": "{}"}]
    found = from_parquet(tmp_path, rows)
    assert reason(found[:1]) == "metadata has more than 1,000,000 values (commas and brackets): split it"
    payload = from_parquet(tmp_path, [{"id": "a", "text": "x", "semantic_payload": many}])
    assert reason(payload) == "semantic_payload has more than 1,000,000 values (commas and brackets): split it"


def test_parquet_values_become_json(tmp_path: Path) -> None:
    moment = datetime.datetime(2026, 4, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    columns = {
        "id": [1],
        "text": pa.array(["x"]).dictionary_encode(),
        "updated_at": pa.array([moment], pa.timestamp("ns", "Europe/Vienna")),
        "day": [datetime.date(2026, 4, 1)],
        "price": [Decimal("1.5")],
        "nothing": [float("nan")],
        "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "metadata": pa.array([{"a": None, "b": {"c": None, "d": [1]}}]),
        "semantic_payload": ['{"k": 1}'],
    }
    document = one(table(tmp_path, columns))
    assert document.updated_at == "2026-04-01T10:00:00Z"
    assert document.semantic_payload == {"k": 1}
    assert document.metadata == {
        "day": "2026-04-01",
        "price": 1.5,
        "tags": {"a": 1},
        "b": {"d": [1]},
    }


def test_cells_that_json_cannot_hold_fail_row_by_row(tmp_path: Path) -> None:
    raw = pa.array([b"x", b"\xff", b"x"], pa.binary())
    broken = pa.StringArray.from_buffers(3, *raw.buffers()[1:])
    found = table(tmp_path, {"id": list("abc"), "text": broken})
    assert [isinstance(each, Rejected) and each.reason for each in found] == [False, "text is not UTF-8", False]
    far = pa.array([0, 2**62, 0], pa.int64()).cast(pa.timestamp("us"))
    found = table(tmp_path, {"id": list("abc"), "text": ["x"] * 3, "when": far})
    assert [isinstance(each, Rejected) for each in found] == [False, True, False]
    found = table(tmp_path, {"id": ["a"], "text": ["x"], "nested": [[b"x"]]})
    assert "nested" in reason(found)
