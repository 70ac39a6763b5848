"""What only Parquet has: columns of vectors in every shape, typed values, batches."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidre.ingest.formats.tables.parquet import _split_spaces, find_parquet_spaces
from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Rejected
from tests.support.rows import documents, table

VECTORS = [[1.0, 2.0], [3.0, 4.0], None, [5.0, 6.0]]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 2), pa.list_(pa.float64()), pa.large_list(pa.float16())])
@pytest.mark.parametrize("outer", ["struct", "map"])
@pytest.mark.parametrize("batch", [2, 8192])
def test_vectors_are_read_from_every_kind_of_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, outer: str, batch: int
) -> None:
    monkeypatch.setattr("aidre.ingest.formats.tables.parquet.BATCH_ROWS", batch)
    if outer == "struct":
        column = pa.array([{"d": vector, "s": None} for vector in VECTORS], pa.struct([("d", kind), ("s", kind)]))
    else:
        pairs = [[("d", vector)] if vector else None for vector in VECTORS]
        column = pa.array(pairs, pa.map_(pa.string(), kind))
    found = documents(table(tmp_path, {"id": list("abcd"), "vectors": column}, row_group_size=3))
    read = [each.vectors and each.vectors["d"].tolist() for each in found]
    assert read == VECTORS


def test_a_struct_of_vectors_that_is_null_brings_none(tmp_path: Path) -> None:
    kind = pa.struct([("d", pa.list_(pa.float32()))])
    found = documents(table(tmp_path, {"id": ["a", "b"], "vectors": pa.array([None, {"d": [1, 2]}], kind)}))
    assert [each.vectors is None for each in found] == [True, False]


def test_vectors_of_a_batch_share_one_matrix(tmp_path: Path) -> None:
    column = pa.array([{"d": [n, n]} for n in range(5)], pa.struct([("d", pa.list_(pa.float32(), 2))]))
    found = documents(table(tmp_path, {"id": list("abcde"), "vectors": column}))
    owners = {id(each.vectors["d"].base) for each in found if each.vectors}
    assert len(owners) == 1


def test_metadata_may_be_a_string_of_json(tmp_path: Path) -> None:
    found = table(tmp_path, {"id": ["a", "b"], "text": ["x", "x"], "metadata": ['{"n": 1}', "oops"]})
    assert documents(found[:1])[0].metadata == {"n": 1}
    assert isinstance(found[1], Rejected) and "metadata" in found[1].reason


def test_the_spaces_of_a_parquet_file_are_found(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    file = File(path, "src", "r.parquet")
    pq.write_table(pa.table({"vectors": [{"a:1": [1.0], "b": [1.0]}]}), path)
    assert find_parquet_spaces(file) == {"a:1", "b"}
    pq.write_table(
        pa.table({"vectors": pa.array([[("m", [1.0])]], pa.map_(pa.string(), pa.list_(pa.float32())))}), path
    )
    assert find_parquet_spaces(file) == {"m"}
    pq.write_table(pa.table({"id": ["a"]}), path)
    assert find_parquet_spaces(file) == set()


@pytest.mark.parametrize("sliced", [slice(0, 3), slice(1, 3), slice(2, 2)])
def test_vectors_of_a_slice_of_maps_are_its_own(sliced: slice) -> None:
    maps = pa.array([[("d", [float(n), 1.0])] for n in range(3)], pa.map_(pa.string(), pa.list_(pa.float32())))
    found = {int(row): lists.to_pylist() for _, lists, row in _split_spaces(maps[sliced]) for row in row[:1]}
    expected = [[float(n), 1.0] for n in range(3)[sliced]]
    assert found == ({0: expected} if expected else {})


def test_empty_tables_and_odd_columns(tmp_path: Path) -> None:
    assert table(tmp_path, {}) == []
    assert table(tmp_path, {"id": pa.array([], pa.string())}) == []
    assert documents(table(tmp_path, {"id": ["a"], "text": ["x"], "vectors": pa.nulls(1)}))[0].vectors is None
    assert documents(table(tmp_path, {"id": ["a"], "text": pa.array(["x"], pa.string_view())}))[0].text == "x"
    with pytest.raises(pa.ArrowTypeError, match="vectors"):
        table(tmp_path, {"id": ["a"], "vectors": [[1.0, 2.0]]})


def test_a_table_without_a_column_of_text_has_the_text_of_its_columns(tmp_path: Path) -> None:
    columns = {"sku": ["a", "b"], "name": ["Lamp", "Chair"], "price": [3.5, None], "when": [date(2026, 5, 1), None]}
    lamp, chair = documents(table(tmp_path, columns))
    assert (lamp.id, lamp.title, lamp.text) == ("a", "Lamp", "sku: a\nname: Lamp\nprice: 3.5\nwhen: 2026-05-01")
    assert (lamp.metadata["price"], lamp.metadata["when"]) == (3.5, "2026-05-01")
    assert (chair.id, chair.text) == ("b", "sku: b\nname: Chair")
    assert table(tmp_path, {"sku": pa.array([], pa.string())}) == []


def test_columns_of_bytes_cost_no_row(tmp_path: Path) -> None:
    picture = pa.array(
        [{"bytes": b"\xff", "path": "a.png"}], pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    )
    (found,) = documents(table(tmp_path, {"name": ["Cat"], "raw": pa.array([b"\xff"]), "image": picture}))
    assert (found.text, found.metadata) == ("name: Cat", {"name": "Cat"})
