"""Look-ups by hash: collisions are told apart by the full value, keys that are not there are not found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.index.ids import IdIndex, build_ids, build_keys, open_keys
from aidre.engine.storage.format import NO_KEY
from tests.support.stores import NAME, fill, names, normal, put, record, space_of

STRANGE = ["a", "A", "ä", "a b", "a\nb", "\x00", "😀", "a#chunk_1", "x" * 5000, "1", "01", "../a", "%2e"]


def column(values: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.large_string())])


def test_every_id_is_found_at_its_row_and_no_other() -> None:
    opened = IdIndex(build_ids(column(STRANGE), column(STRANGE[:3])))
    values = [value.encode() for value in STRANGE]
    for row, value in enumerate(values):
        assert opened.chunks.find(value, lambda place, value=value: values[place] == value) == row  # type: ignore[misc]
    found = opened.chunks.find_all([*values, b"absent"], lambda number, row: number == row)
    assert found.tolist() == [*range(len(values)), -1]
    assert opened.documents.find_all(values, lambda number, row: number == row).tolist() == [0, 1, 2] + [-1] * 10


def test_ids_whose_hashes_collide_never_answer_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xxhash.xxh3_64_intdigest", lambda value: len(value) % 2)
    fill(tmp_path, space_of(), normal(40, 8))
    with Store(tmp_path).writer(NAME, spaces=[space_of()]) as writer:
        assert writer.delete(["d000007", "d000011", "absent"]) == 2
        writer.commit()
        marks = writer.fingerprints(["d000007", "d000008", "elsewhere"])
    assert marks == [None, record("d000008").fingerprint, None]
    snapshot = Store(tmp_path).open(NAME)
    for one in names(40):
        chunk = snapshot.get(f"{one}#chunk_1")
        assert (chunk is None) is (one in {"d000007", "d000011"})
        assert chunk is None or chunk.document_id == one
    assert snapshot.get("d000008#chunk_2") is None


def test_ranks_follow_the_order_of_ids() -> None:
    opened = IdIndex(build_ids(column(STRANGE), column([])))
    by_rank = [STRANGE[row] for row in np.argsort(opened.ranks).tolist()]
    assert by_rank == sorted(STRANGE)


def test_rows_without_a_key_are_left_out() -> None:
    keys = [b"k" * 16, NO_KEY, b"l" * 16]
    lookup = open_keys(build_keys(pa.chunked_array([pa.array(keys, pa.binary(16))])), count=3)
    assert lookup.find_all(keys, lambda number, row: number == row).tolist() == [0, -1, 2]


def test_nothing_is_found_among_nothing() -> None:
    opened = IdIndex(build_ids(column([]), column([])))
    assert opened.chunks.find(b"a", lambda row: True) is None
    assert opened.chunks.find_all([b"a"], lambda number, row: True).tolist() == [-1]
    assert opened.chunks.find_all([], lambda number, row: True).tolist() == []


def test_ids_of_any_characters_come_back(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[space_of()]) as writer:
        put(writer, STRANGE, normal(len(STRANGE), 8))
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    for one in STRANGE:
        chunk = snapshot.get(f"{one}#chunk_1")
        assert chunk is not None
        assert chunk.document_id == one


def test_rows_that_do_not_exist_are_refused() -> None:
    keys = build_keys(pa.chunked_array([pa.array([b"k" * 16, b"l" * 16], pa.binary(16))]))
    with pytest.raises(ValueError, match="rows that do not exist"):
        open_keys(keys, count=1)
    ids = build_ids(column(STRANGE), column([]))
    shorter = build_ids(column(STRANGE[1:]), column([]))
    mixed = pa.record_batch([ids.column(0), ids.column(1), shorter.column(2), *ids.columns[3:]], schema=ids.schema)
    with pytest.raises(ValueError, match="different lengths"):
        IdIndex(mixed)
