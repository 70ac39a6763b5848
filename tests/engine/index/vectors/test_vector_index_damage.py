"""Index files whose content does not fit, although their checksums do: refused before a scan reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from aidre.engine.collection import indexing
from aidre.engine.collection.store import Store
from aidre.engine.index.vectors.distance import VectorColumn, native_columns
from aidre.engine.index.vectors.scan import PreparedScan, ScanGroup
from aidre.engine.index.vectors.vector_index import VectorIndex, index_to_batch, open_index
from aidre.engine.native import native
from aidre.engine.storage.arrow import FileProblem
from tests.engine.index.vectors.vector_indexes import DIMENSIONS, ROWS, column_of, index_of, listed_index, query_of
from tests.hostile.victim import peak_memory
from tests.support.calibrations import measured_quickly
from tests.support.stores import NAME, ask, best, fill, names, space_of, structured, true_scores

CODE_SIZE = 12
Damage = Callable[[Any], None]


@cache
def column() -> VectorColumn:
    return column_of("dot", structured(ROWS, DIMENSIONS))


def plain() -> pa.RecordBatch:
    return index_to_batch(index_of("dot", column(), CODE_SIZE).quantized, "abc", ROWS)


def listed() -> pa.RecordBatch:
    return index_to_batch(listed_index("dot", structured(ROWS, DIMENSIONS), CODE_SIZE).quantized, "abc", ROWS)


def values_of(batch: pa.RecordBatch) -> list[NDArray[np.uint8]]:
    return [np.frombuffer(value.as_py(), np.uint8).copy() for value in batch.column(0)]


def with_values(batch: pa.RecordBatch, values: list[NDArray[np.uint8]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([value.tobytes() for value in values], pa.large_binary())], schema=batch.schema
    )


def opened(batch: pa.RecordBatch) -> VectorIndex:
    return open_index(space_of("dot", DIMENSIONS), batch, ROWS, "abc")


def searched(index: VectorIndex) -> int:
    """Rows that a scan of all lists finds, by the kernel where it is used, and by FAISS."""
    group, query = ScanGroup([index]), query_of("dot")
    found = len(PreparedScan(group).search(query, 50)[0])
    if native is not None:
        columns = native_columns(index.space, [(column().codes, (), 1)])
        codes = group.native_codes(columns, [0])
        plan = native.Plan(columns, (None,), ((codes, PreparedScan(group).lists, ROWS),), (), ())
        [(arrays, _)] = plan.search(query, 50, 50, None, True)
        assert len(arrays[1]) == 8 * found
    return found


def test_sound_indexes_are_opened_and_searched() -> None:
    for batch in (plain(), listed()):
        assert searched(opened(with_values(batch, values_of(batch)))) == 50


# -- the codebook ------------------------------------------------------------------------------------------------------


def with_codeword(value: float) -> Damage:
    def damage(index: Any) -> None:
        codewords = faiss.vector_to_array(index.pq.centroids)
        codewords[77] = value
        faiss.copy_array_to_vector(codewords, index.pq.centroids)

    return damage


def with_codewords(count: int) -> Damage:
    return lambda index: index.pq.centroids.resize(count)


def with_value(name: str, value: int) -> Damage:
    def damage(index: Any) -> None:
        holder = index.pq if name in {"M", "nbits", "dsub"} else index
        setattr(holder, name, value)

    return damage


DAMAGES: dict[str, Damage] = {
    "a codeword is not a number": with_codeword(np.nan),
    "a codeword is infinite": with_codeword(np.inf),
    "codewords are missing": with_codewords(16 * DIMENSIONS - 1),
    "there are no codewords": with_codewords(0),
    "more codewords": with_codewords(16 * DIMENSIONS + 16),
    "another number of sub-quantizers": with_value("M", 24),
    "fewer sub-quantizers": with_value("M", 6),
    "codes of 8 bits": with_value("nbits", 8),
    "other blocks": with_value("bbs", 64),
    "no blocks": with_value("bbs", 0),
    "blocks that no kernel has": with_value("bbs", 96),
    "longer codes": with_value("M2", 14),
    "shorter codes": with_value("M2", 10),
    "other dimensions": with_value("d", DIMENSIONS * 2),
    "fewer dimensions": with_value("d", DIMENSIONS // 2),
    "more rows": with_value("ntotal", ROWS + 128),
    "fewer rows": with_value("ntotal", ROWS - 1),
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("make", [plain, listed])
def test_a_codebook_that_does_not_fit_is_refused(make: Callable[[], pa.RecordBatch], name: str) -> None:
    if make is listed and name in {"other blocks", "more rows", "fewer rows"}:
        pytest.skip("its lists are not part of the codebook")
    batch = make()
    values = values_of(batch)
    index = faiss.deserialize_index(values[0])
    DAMAGES[name](index)
    values[0] = faiss.serialize_index(index)
    with pytest.raises(FileProblem):
        opened(with_values(batch, values))


def test_codes_that_end_early_are_refused() -> None:
    """The lengths that FAISS stores say so; FAISS itself would read beyond them."""
    batch = plain()
    [stored] = values_of(batch)
    length = -(-ROWS // 128) * 128 * CODE_SIZE // 2
    place = stored.tobytes().find(length.to_bytes(8, "little"))
    assert place > 0
    for shorter in (0, 64, length - 768, length - 1):
        damaged = np.concatenate([stored[: place + 8 + shorter], stored[place + 8 + length :]])
        damaged[place : place + 8] = np.frombuffer(shorter.to_bytes(8, "little"), np.uint8)
        with pytest.raises(FileProblem):
            opened(with_values(batch, [damaged]))


# -- lists -------------------------------------------------------------------------------------------------------------


def numbers(value: NDArray[np.uint8]) -> NDArray[np.int32]:
    return value.view(np.int32)


def _size_moved(values: list[NDArray[np.uint8]]) -> None:
    """Another list has a row more: the codes still have as many bytes, or not, but rows change their lists."""
    sizes = numbers(values[5])
    sizes[0], sizes[1] = sizes[0] + 1, sizes[1] - 1


def _set(value: int, place: int, number: int) -> Callable[[list[NDArray[np.uint8]]], None]:
    def damage(values: list[NDArray[np.uint8]]) -> None:
        numbers(values[value])[place] = number

    return damage


def _cut(value: int, size: int) -> Callable[[list[NDArray[np.uint8]]], None]:
    def damage(values: list[NDArray[np.uint8]]) -> None:
        values[value] = values[value][:size]

    return damage


LIST_DAMAGES: dict[str, Callable[[list[NDArray[np.uint8]]], None]] = {
    "a list is larger": _set(5, 0, 1 << 20),
    "a list has a negative size": _set(5, 0, -1),
    "a list has the least size": _set(5, 0, -(1 << 31)),
    "a list has the largest size": _set(5, 3, (1 << 31) - 1),
    "a row moved to another list": _size_moved,
    "a row beyond the segment": _set(4, 5, ROWS),
    "a negative row": _set(4, 5, -1),
    "the largest row": _set(4, 5, (1 << 31) - 1),
    "a row twice": lambda values: _set(4, 5, int(numbers(values[4])[6]))(values),
    "codes end early": _cut(3, -64),
    "all codes end early": _cut(2, -64),
    "no codes": _cut(3, 0),
    "rows end early": _cut(4, -4),
    "a piece of a row": _cut(4, -1),
    "sizes end early": _cut(5, -4),
    "no sizes": _cut(5, 0),
    "a value is missing": lambda values: values.__delitem__(-1),
    "a value more": lambda values: values.append(values[0]),
}


@pytest.mark.parametrize("name", LIST_DAMAGES)
def test_lists_that_do_not_fit_are_refused(name: str) -> None:
    batch = listed()
    values = values_of(batch)
    LIST_DAMAGES[name](values)
    with pytest.raises(FileProblem):
        opened(with_values(batch, values))


@pytest.mark.parametrize("make", [plain, listed])
def test_any_byte_of_what_is_no_code_may_change(make: Callable[[], pa.RecordBatch]) -> None:
    """What opens can be searched; what cannot is refused, and nothing else is raised."""
    batch, rng = make(), np.random.default_rng(0)
    sound = values_of(batch)
    parts = [0] if make is plain else [4, 5]
    refused = 0
    for _ in range(150):
        values = [value.copy() for value in sound]
        part = int(rng.choice(parts))
        values[part][-1 - int(rng.integers(0, len(values[part])))] ^= np.uint8(1 << rng.integers(0, 8))
        try:
            assert searched(opened(with_values(batch, values))) == 50
        except FileProblem:
            refused += 1
    assert refused > 100 or make is plain


@pytest.mark.parametrize("make", [plain, listed])
def test_a_length_from_elsewhere_takes_no_memory(make: Callable[[], pa.RecordBatch]) -> None:
    """FAISS makes an array before it reads its numbers."""
    batch = make()
    sound, before, refused = values_of(batch), peak_memory(), 0
    for place in range(min(len(sound[0]) - 8, 400)):
        values = [value.copy() for value in sound]
        values[0][place : place + 8] = np.frombuffer(np.uint64(1 << 28).tobytes(), np.uint8)
        try:
            opened(with_values(batch, values))
        except FileProblem:
            refused += 1
    assert refused > 50
    assert peak_memory() - before < 200 << 10


# -- in a store --------------------------------------------------------------------------------------------------------


def test_a_damaged_codebook_in_a_store_is_bypassed_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every checksum is right: whoever wrote the file wrote nonsense."""

    def nonsense(quantized: Any, *facts: Any) -> pa.RecordBatch:
        batch = index_to_batch(quantized, *facts)
        values = values_of(batch)
        index = faiss.deserialize_index(values[0])
        with_codeword(np.nan)(index)
        values[0] = faiss.serialize_index(index)
        return with_values(batch, values)

    rows, space = structured(3_000, 384), space_of("dot", 384)
    with measured_quickly():
        sound = fill(tmp_path / "sound", space, rows, finish=True)
        assert not sound.warnings
        assert any(view.segment.scans for view in sound.segments)
        monkeypatch.setattr(indexing, "index_to_batch", nonsense)
        fill(tmp_path / "damaged", space, rows, finish=True)
    snapshot = Store(tmp_path / "damaged").open(NAME)
    [warning] = snapshot.warnings
    assert "has codewords that are not finite numbers; searched exactly instead" in warning
    for query in structured(5, 384, 1):
        assert ask(snapshot, query) == best(true_scores("dot", rows, query), names(len(rows)), 10)
