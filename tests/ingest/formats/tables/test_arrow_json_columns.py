"""Arrow columns as JSON: the bytes that their values have one by one, and text that is not UTF-8."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from aidre.ingest.formats.tables.arrow_json import to_json_values, write_json

_PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_TEXT = _PLAIN | st.sampled_from(['"', "\\", "\n\x1f", "é\u2028"])
_inside = st.fixed_dictionaries({"z": st.none() | _TEXT, "a": st.none() | st.lists(st.booleans(), max_size=2)})
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.none() | _TEXT,
            "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
            "flag": st.none() | st.booleans(),
            "number": st.none() | st.floats(),
            "inside": st.none() | _inside,
            "metadata": st.none() | st.sampled_from(['{"b": 1, "a": [2]}', "{}"]),
        }
    ),
    min_size=1,
    max_size=6,
)
_KIND = pa.struct(
    [
        ("text", pa.string()),
        ("whole", pa.int64()),
        ("flag", pa.bool_()),
        ("number", pa.float64()),
        ("inside", pa.struct([("z", pa.dictionary(pa.int8(), pa.string())), ("a", pa.list_(pa.bool_()))])),
        ("metadata", pa.string()),
    ]
)


@pytest.mark.slow
@settings(max_examples=50)
@given(_rows)
def test_a_column_is_written_as_its_values_are(rows: list[dict[str, Any]]) -> None:
    column = pa.array(rows, _KIND)
    values = to_json_values(column, "x", {})
    stored, ordered = write_json(column, "x", {})
    assert stored.to_pylist() == [orjson.dumps(value) for value in values]
    assert ordered.to_pylist() == [orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in values]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_that_is_not_utf_8_is_a_fault_of_its_row(kind: pa.DataType) -> None:
    column = pa.array([b"fine", b"\xff"], pa.binary()).view(pa.string()).cast(kind, safe=False)
    faults: dict[int, str] = {}
    stored, _ = write_json(column, "name", faults)
    assert stored.to_pylist() == [b'"fine"', None] and faults == {1: "name is not UTF-8"}
