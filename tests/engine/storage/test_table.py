"""Row access to Arrow files of several batches: the values that Arrow has, at every row and across batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.storage import table as module
from aidre.engine.storage.arrow import ArrowFile, open_file, write_file
from aidre.engine.storage.table import Table

ROWS = 11
SCHEMA = pa.schema(
    [
        ("text", pa.large_string()),
        ("bytes", pa.large_binary()),
        ("fixed", pa.binary(3)),
        ("long", pa.int64()),
        ("short", pa.int32()),
        ("full", pa.int64()),
        ("flag", pa.bool_()),
    ]
)
VALUES: dict[str, list[Any]] = {
    "text": [None if row % 4 == 1 else "é" * row for row in range(ROWS)],
    "bytes": [None if row % 3 == 1 else bytes([row]) * row for row in range(ROWS)],
    "fixed": [bytes([row]) * 3 for row in range(ROWS)],
    "long": [None if row == 5 else row * 2**40 for row in range(ROWS)],
    "short": [None if row % 2 else -row for row in range(ROWS)],
    "full": list(range(ROWS)),
    "flag": [None, True, False, *[True] * (ROWS - 3)],
}


@pytest.fixture
def table(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Three batches of 4, 4 and 3 rows, read from a file."""
    monkeypatch.setattr(module, "BATCH_ROWS", 4)
    whole = pa.RecordBatch.from_pydict(VALUES, schema=SCHEMA)
    path = tmp_path_factory.mktemp("table") / "table.arrow"
    return Table(open_file(path, write_file(path, [whole.slice(start, 4) for start in (0, 4, 8)], SCHEMA)))


@pytest.mark.parametrize("name", SCHEMA.names)
def test_a_value_is_the_one_that_was_written(name: str, table: Table) -> None:
    assert [table.value(name, row) for row in range(ROWS)] == VALUES[name]
    assert table.chunked(name).to_pylist() == VALUES[name]


def test_a_column_of_bytes_is_empty_or_none_where_it_is_null(table: Table) -> None:
    for name in ("text", "bytes"):
        expected = [one.encode() if isinstance(one, str) else one for one in VALUES[name]]
        assert [table.bytes(name).get(row) for row in range(ROWS)] == expected
        assert [table.bytes(name)[row] for row in range(ROWS)] == [one or b"" for one in expected]
    assert [table.fixed("fixed")[row] for row in range(ROWS)] == VALUES["fixed"]


def test_integers_of_both_widths_are_read(table: Table) -> None:
    for name in ("long", "short", "full"):
        assert [table.integers(name).get(row) for row in range(ROWS)] == VALUES[name]
    assert table.numbers("full").tolist() == VALUES["full"]


def test_raw_buffers_hold_the_values_between_their_offsets(table: Table) -> None:
    found = [
        content[offsets[row] : offsets[row + 1]]
        for (offsets, content), rows in zip(table.raw("bytes"), (4, 4, 3), strict=True)
        for row in range(rows)
    ]
    assert found == [one or b"" for one in VALUES["bytes"]]
    (none, fixed), *_ = table.raw("fixed")
    assert none is None and fixed[:6] == VALUES["fixed"][0] + VALUES["fixed"][1]


def test_a_column_is_opened_once(table: Table) -> None:
    assert table.bytes("text") is table.bytes("text")
    assert table.fixed("fixed") is table.fixed("fixed")
    assert table.integers("long") is table.integers("long")


def test_a_row_that_is_not_there_is_an_index_error(table: Table) -> None:
    with pytest.raises(IndexError):
        table.value("text", ROWS + 1)
    with pytest.raises(IndexError):
        table.value("long", 12)


def test_a_damaged_offset_ends_at_the_end_of_the_buffer() -> None:
    offsets = np.array([0, 2, 10**12, 4], np.int64)
    buffers: list[Any] = [None, pa.py_buffer(offsets), pa.py_buffer(b"abcd")]
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 3, buffers)
    batch = pa.RecordBatch.from_arrays([column], names=["bytes"])
    damaged = Table(ArrowFile(batch.schema, (batch,)))
    assert [damaged.bytes("bytes")[row] for row in range(3)] == [b"ab", b"cd", b""]


def test_no_rows_have_empty_columns(tmp_path: Any) -> None:
    path = tmp_path / "empty.arrow"
    empty = Table(open_file(path, write_file(path, [], SCHEMA)))
    assert empty.numbers("full").tolist() == []
    assert empty.chunked("text").to_pylist() == empty.raw("text") == []
