"""Scans with centroids: what the nearest lists hold, what they leave out, and when there are any."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.index.vectors import (
    distance as kernel,
    inverted_lists as lists,
    quantizer as codebook,
    scan as passes,
)
from aidre.engine.index.vectors.codes import (
    VectorIndex,
    build_index_batch,
    index_to_batch,
    open_index,
    row_ids_by_list,
    serialize_codebook,
)
from aidre.engine.index.vectors.distance import Bitmap
from aidre.engine.index.vectors.encoding import encode, encode_query
from aidre.engine.index.vectors.inverted_lists import InvertedLists
from aidre.engine.index.vectors.quantizer import (
    assign_lists,
    centroids_of,
    row_blocks,
    train_centroids,
    train_codebook,
    with_centroids,
    without_centroids,
)
from aidre.engine.index.vectors.scan import Scan, ScanGroup, SearchDepth
from aidre.engine.model import Distance
from aidre.engine.storage.arrow import FileProblem, open_file, write_file
from aidre.engine.storage.format import MAX_SEGMENT_ROWS
from aidre.engine.storage.manifest import Depth
from tests.support.stores import (
    DISTANCES,
    Vectors,
    space_of,
    structured,
)

DIMENSIONS, LISTS, ROWS = 48, 32, 3_000


def codes_of(distance: Distance, rows: Vectors) -> NDArray[Any]:
    return encode(space_of(distance, rows.shape[1]), rows).codes


def scan_of(distance: Distance, rows: Vectors, code_size: int = 12) -> VectorIndex:
    space, codes = space_of(distance, rows.shape[1]), codes_of(distance, rows)
    listed = with_centroids(space, train_codebook(space, codes, code_size), train_centroids(space, codes, LISTS))
    return VectorIndex(space, codebook.quantize_rows(listed, row_blocks(codes)))


def query_of(distance: Distance, seed: int = 1) -> Vectors:
    return encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, seed)[0])


def bits_of(mask: NDArray[np.bool_]) -> Bitmap:
    return Bitmap(np.packbits(mask, bitorder="little"))


def probing(probes: int) -> SearchDepth:
    return SearchDepth(100, 10, (Depth(10, 100, 1.0, 1.0, probes), Depth(1000, 5_000, 1.0, 1.0, 2 * probes)))


@pytest.mark.parametrize("distance", DISTANCES)
def test_every_row_stands_in_two_lists_and_is_found_once(distance: Distance) -> None:
    scan = scan_of(distance, structured(ROWS, DIMENSIONS))
    assert (scan.nlist, len(scan), scan.list_sizes[:LISTS].sum()) == (LISTS, ROWS, 2 * ROWS)
    assert (scan.assignments[0] != scan.assignments[1]).all()
    one = Scan(ScanGroup([scan]))
    for reach in (None, probing(LISTS)):
        rows, near = one.search(query_of(distance), ROWS, reach)
        assert sorted(rows.tolist()) == list(range(ROWS))
        assert (near[:-1] >= near[1:]).all()


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_nearest_lists_hold_most_of_the_nearest_rows_as_close_as_they_are(distance: Distance) -> None:
    one = Scan(ScanGroup([scan_of(distance, structured(ROWS, DIMENSIONS))]))
    shares = []
    for seed in range(1, 20):
        rows, near = one.search(query_of(distance, seed), ROWS)
        seeming = np.empty(ROWS, np.float32)
        seeming[rows] = near
        some, closeness = one.search(query_of(distance, seed), 100, probing(8))
        assert len(set(some.tolist())) == len(some) == 100
        assert (closeness == seeming[some]).all()
        shares.append(len(set(some[:10].tolist()) & set(rows[:10].tolist())) / 10)
    assert np.mean(shares) > 0.9


def test_lists_that_hold_too_few_rows_are_not_all_that_is_searched() -> None:
    one = Scan(ScanGroup([scan_of("cosine", structured(ROWS, DIMENSIONS))]))
    rows, _ = one.search(query_of("cosine"), 2_000, probing(1))
    assert len(set(rows.tolist())) == 2_000


def test_a_bitmap_lets_through_the_same_rows_from_lists() -> None:
    scan = scan_of("cosine", structured(ROWS, DIMENSIONS))
    mask = np.random.default_rng(0).random(ROWS) < 0.3
    counts = scan.count_by_list(mask)
    assert counts is not None
    assert counts.sum() == mask.sum()
    one = Scan(ScanGroup([scan]), None, bits_of(mask), [counts])
    for reach, count in ((None, int(mask.sum())), (probing(4), 50), (probing(0), 50)):
        rows, _ = one.search(query_of("cosine"), count, reach)
        assert len(set(rows.tolist())) == count
        assert mask[rows].all()


def test_rows_far_from_the_query_are_found_where_only_they_are_allowed() -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan, query = scan_of("cosine", rows), query_of("cosine")
    places = scan.coarse_quantizer.probe(query, LISTS)
    mask = np.isin(scan.assignments[0], places[LISTS // 2 :])
    one = Scan(ScanGroup([scan]), None, bits_of(mask), [scan.count_by_list(mask)])
    found, _ = one.search(query, 20, probing(8))
    whole, _ = one.search(query, 20)
    assert found.tolist() == whole.tolist()
    assert mask[found].all()


def test_all_rows_are_gone_over_as_one_list_and_those_of_few_lists_by_these() -> None:
    scan = scan_of("cosine", structured(ROWS, DIMENSIONS))
    whole = scan.covering_lists(None)
    assert scan.list_sizes[whole].tolist() == [ROWS]
    for few, expected in ((3, np.arange(LISTS, LISTS + 3)), (LISTS - 1, whole)):
        mask = scan.assignments[0] < few
        counts = scan.count_by_list(mask)
        assert scan.covering_lists(counts).tolist() == expected.tolist()
        found, near = Scan(ScanGroup([scan]), None, bits_of(mask), [counts]).search(query_of("cosine"), int(mask.sum()))
        assert sorted(found.tolist()) == np.flatnonzero(mask).tolist()
        by_all = Scan(ScanGroup([scan]), None, bits_of(mask)).search(query_of("cosine"), int(mask.sum()))
        assert near.tolist() == by_all[1].tolist()


def test_several_queries_each_have_their_own_lists() -> None:
    one = Scan(ScanGroup([scan_of("cosine", structured(ROWS, DIMENSIONS))]))
    queries = np.concatenate([query_of("cosine", seed) for seed in range(5)])
    found = one.search_all(queries, 50, probing(4))
    for place, (rows, near) in enumerate(found):
        alone = one.search(queries[place : place + 1], 50, probing(4))
        assert rows.tolist() == alone[0].tolist()
        assert near.tolist() == alone[1].tolist()


@pytest.mark.parametrize("reach", [None, probing(8)])
def test_two_threads_find_what_one_does(reach: SearchDepth | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "FULL_LIST_ROWS", 1_024)
    scan = scan_of("cosine", structured(ROWS, DIMENSIONS))
    assert scan.list_sizes[scan.covering_lists(None)].tolist() == [1_024, 1_024, ROWS - 2_048]
    alone = Scan(ScanGroup([scan])).search(query_of("cosine"), 100, reach)
    monkeypatch.setattr(passes, "MIN_SHARED_ROWS", 500)
    monkeypatch.setattr(kernel, "_core_is_idle", lambda: True)
    shared = Scan(ScanGroup([scan])).search(query_of("cosine"), 100, reach)
    assert shared[1].tolist() == alone[1].tolist()
    assert len(set(shared[0].tolist())) == 100


@pytest.mark.parametrize("unit", [True, False])
def test_the_second_list_of_a_row_is_the_one_that_errs_in_another_direction(unit: bool) -> None:
    rows, centroids = structured(500, DIMENSIONS), structured(60, DIMENSIONS, 5)
    if not unit:
        rows, centroids = rows * 3, centroids * 2
    first, second = assign_lists(centroids, rows)
    apart = rows[:, None] - centroids
    distances = (apart**2).sum(axis=2)
    assert first.tolist() == distances.argmin(axis=1).tolist()
    left = apart[np.arange(500), first]
    loss = distances + np.einsum("nd,ncd->nc", left, apart) ** 2 / (left**2).sum(axis=1)[:, None]
    loss[np.arange(500), first] = np.inf
    assert np.allclose(loss[np.arange(500), second], loss.min(axis=1), rtol=1e-4)


def test_a_small_segment_is_one_list_and_is_gone_over_with_the_others() -> None:
    rows = structured(ROWS, DIMENSIONS)
    large = scan_of("cosine", rows[200:])
    small = VectorIndex(
        large.space,
        codebook.quantize_rows(without_centroids(large.codebook()), row_blocks(codes_of("cosine", rows[:200]))),
    )
    other = scan_of("cosine", structured(ROWS, DIMENSIONS, 9))
    assert sorted(map(len, passes.group_by_codebook([small, other, large]))) == [1, 2]
    large.assign_slot(1)
    small.assign_slot(0)
    found, _ = Scan(ScanGroup([large, small])).search(query_of("cosine"), 400, probing(1))
    near = {number for number in found.tolist() if number < MAX_SEGMENT_ROWS}
    assert near
    assert len(set(found.tolist())) == 400


def test_more_lists_are_gone_over_where_fewer_rows_are_allowed() -> None:
    reach = probing(10)
    assert [reach.nprobe(share) for share in (1.0, 0.1, 0.01, 0.001, 0.0)] == [10, 15, 20, 0, 0]
    assert SearchDepth(100).nprobe() == 0


def test_lists_farther_behind_are_gone_over_where_fewer_rows_are_allowed() -> None:
    reach = SearchDepth(100, 10, (Depth(10, 100, 1.0, 1.0, 10, 0.1), Depth(1000, 5_000, 1.0, 1.0, 20, 0.4)))
    assert [reach.max_gap(share) for share in (1.0, 0.01, 0.001, 0.0)] == [0.1, 0.4, 0.0, 0.0]
    assert reach.max_gap(0.1) == pytest.approx(0.2)
    assert SearchDepth(100).max_gap() == 0
    assert SearchDepth(100, 10, (Depth(10, 100, 1.0, 1.0, 10),)).max_gap() == 0


@pytest.mark.parametrize("distance", DISTANCES)
def test_only_lists_that_are_little_behind_the_nearest_are_gone_over(distance: Distance) -> None:
    scan, query = scan_of(distance, structured(ROWS, DIMENSIONS)), query_of(distance)
    numbers, gaps = scan.coarse_quantizer.rank(query, LISTS)
    assert sorted(numbers.tolist()) == list(range(LISTS))
    assert gaps[0] == 0
    assert (gaps[1:] >= gaps[:-1]).all()
    gap = float(gaps[4] + gaps[5]) / 2
    assert scan.coarse_quantizer.probe(query, LISTS, gap).tolist() == numbers[:5].tolist()
    assert scan.coarse_quantizer.probe(query, 3, gap).tolist() == numbers[:3].tolist()
    one = Scan(ScanGroup([scan]))
    found, _ = one.search(query, 300, SearchDepth(300, 10, (Depth(10, 300, 1.0, 1.0, LISTS, gap),)))
    assert found.tolist() == one.search(query, 300, probing(5))[0].tolist()
    assert found.tolist() != one.search(query, 300, probing(6))[0].tolist()


def test_more_lists_are_gone_over_where_the_nearest_hold_too_few_rows() -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan, query = scan_of("cosine", rows), query_of("cosine")
    mask = np.arange(ROWS) % 2 == 0
    masked = Scan(ScanGroup([scan]), None, bits_of(mask), [scan.count_by_list(mask)])
    for one, count in ((Scan(ScanGroup([scan])), 200), (masked, 100)):
        wide = SearchDepth(count, 10, (Depth(10, count, 1.0, 1.0, 8), Depth(1000, 5_000, 1.0, 1.0, 8)))
        tight = SearchDepth(count, 10, tuple(replace(depth, gap=1e-9) for depth in wide.depths))
        found = one.search(query, count, tight)[0].tolist()
        assert found == one.search(query, count, wide)[0].tolist()
        assert found != one.search(query, count)[0].tolist()


def test_a_longer_query_goes_over_the_same_lists() -> None:
    scan, query = scan_of("dot", structured(ROWS, DIMENSIONS)), query_of("dot")
    gap = float(scan.coarse_quantizer.rank(query, LISTS)[1][7])
    assert gap > 0
    for length in (0.01, 1, 1_000):
        assert 7 <= len(scan.coarse_quantizer.probe(np.float32(length) * query, LISTS, gap)) <= 9


# -- on disk -----------------------------------------------------------------------------------------------


def test_lists_come_back_from_disk_as_they_were() -> None:
    scan = scan_of("euclidean", structured(ROWS, DIMENSIONS))
    opened = open_index(scan.space, index_to_batch(scan.quantized, "abc", 1500), ROWS, "abc")
    assert opened.codebook_key == scan.codebook_key
    assert (opened.assignments == scan.assignments).all()
    found = [
        Scan(ScanGroup([one])).search(query_of("euclidean"), 100, probing(4))[0].tolist() for one in (opened, scan)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_codebook_with_centroids_travels_as_text(distance: Distance) -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan = scan_of(distance, rows)
    batch = build_index_batch(codes_of(distance, rows), serialize_codebook(scan), "abc", 1500)
    sent = open_index(scan.space, batch, ROWS, "abc")
    assert sent.codebook_key == scan.codebook_key
    assert (sent.assignments == scan.assignments).all()
    few = build_index_batch(codes_of(distance, rows[:300]), serialize_codebook(sent), "abc", 1500)
    assert (small := open_index(scan.space, few, 300, "abc")).nlist == 0
    assert small.codes_key == scan.codes_key


def older(scan: VectorIndex, codes: NDArray[Any]) -> Any:
    """An index that holds its rows, as earlier releases wrote it."""
    codebook = scan.codebook()
    rows = np.zeros((len(codes), codebook.d), np.float32)
    rows[:, : codes.shape[1]] = codes
    made = codebook.pq.compute_codes(rows)
    plain = faiss.IndexIVFPQ(codebook.quantizer, codebook.d, 2 * LISTS, codebook.pq.M, 4, codebook.metric_type)
    plain.by_residual, plain.pq, plain.is_trained, plain.ntotal = False, codebook.pq, True, 2 * len(scan)
    for number, chosen in enumerate(own for copy in scan.assignments for own in (copy == np.arange(LISTS)[:, None])):
        rows = np.flatnonzero(chosen)
        if len(rows):
            own = made[rows]
            plain.invlists.add_entries(number, len(rows), faiss.swig_ptr(rows), faiss.swig_ptr(own))
    packed = faiss.IndexIVFPQFastScan(plain, 64)
    coarse = faiss.clone_index(faiss.downcast_index(codebook.quantizer))
    packed.quantizer, packed.own_fields = coarse, True
    coarse.this.disown()
    return packed


def test_lists_of_an_earlier_release_are_read_as_they_were() -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan = scan_of("cosine", rows)
    opened = open_index(scan.space, index_to_batch([older(scan, codes_of("cosine", rows))], "abc", 1500), ROWS, "abc")
    anew = VectorIndex(scan.space, codebook.quantize_rows(opened.codebook(), row_blocks(codes_of("cosine", rows))))
    assert anew.codebook_key == opened.codebook_key
    for name in ("list_sizes", "rows", "codes", "all_codes"):
        assert (getattr(opened.quantized[0], name) == getattr(anew.quantized[0], name)).all()
    for reach in (None, probing(4)):
        found = [Scan(ScanGroup([one])).search(query_of("cosine"), 100, reach)[1].tolist() for one in (opened, scan)]
        assert found[0] == found[1]


@pytest.mark.parametrize("name", ["x", "xx", "a-longer-name"])
def test_codes_stay_in_the_file_and_outlive_what_opened_it(name: str, tmp_path: Path) -> None:
    scan = scan_of("cosine", structured(ROWS, DIMENSIONS))
    batch = index_to_batch(scan.quantized, name, 1500)
    entry = write_file(tmp_path / "index.arrow", [batch], batch.schema)
    opened = open_file(tmp_path / "index.arrow", entry, whole=True).batches[0]
    mapped = opened.column(0).buffers()[2]
    again = open_index(scan.space, opened, ROWS, name)
    codes = again.quantized[0].codes
    assert mapped.address <= codes.ctypes.data < mapped.address + mapped.size
    sweep = ScanGroup([again])
    del opened, mapped, codes, again
    gc.collect()
    for reach in (None, probing(4)):
        found = [Scan(one).search(query_of("cosine"), 100, reach)[0].tolist() for one in (sweep, ScanGroup([scan]))]
        assert found[0] == found[1]


def with_quantiser(lists: InvertedLists, how: str) -> InvertedLists:
    index = lists.codebook
    centroids = centroids_of(index)
    if how == "no numbers":
        centroids[3, 5] = np.nan
    coarse = faiss.IndexFlat(index.d, index.metric_type)
    if how == "of another kind":
        coarse = faiss.IndexHNSWFlat(index.d, 4)
    coarse.add(centroids[:-1] if how == "too few" else centroids)
    index.quantizer = coarse
    coarse.this.disown()
    return lists


def damaged(lists: InvertedLists, how: str) -> InvertedLists:
    rows, sizes = lists.rows.copy(), lists.list_sizes.copy()
    if how in ("no numbers", "too few", "of another kind"):
        return with_quantiser(lists, how)
    if how in ("more codes", "fewer codes", "more in all", "fewer in all"):
        name = "all_codes" if "all" in how else "codes"
        codes = getattr(lists, name)
        return replace(lists, **{name: codes[:-1] if "fewer" in how else np.concatenate([codes, codes[:64]])})
    if how == "twice":
        rows[0] = rows[1]
    elif how == "beyond":
        rows[-1] = ROWS
    elif how == "below":
        rows[-1] = -1
    elif how == "fewer rows":
        rows = rows[:-2]
    elif how == "fewer lists":
        sizes = sizes[:, :-1].copy()
    elif how == "less than none":
        sizes[:, 0] += [-sizes[0, 0] - 1, sizes[0, 0] + 1]
    elif how == "more firsts":
        sizes[:, 0] += [1, -1]
    else:
        sizes[0, :2] += [64, -64]
    return replace(lists, rows=rows, list_sizes=sizes)


@pytest.mark.parametrize(
    "how",
    [
        *("no numbers", "too few", "of another kind", "twice", "beyond", "below", "more codes", "fewer codes"),
        *("more in all", "fewer in all", "fewer rows", "fewer lists", "less than none", "more firsts", "moved"),
    ],
)
def test_damaged_lists_are_refused(how: str) -> None:
    scan = scan_of("dot", structured(ROWS, DIMENSIONS))
    batch = index_to_batch([damaged(scan.quantized[0], how)], "abc", 1500)
    with pytest.raises(FileProblem):
        open_index(scan.space, batch, ROWS, "abc")


@pytest.mark.parametrize("how", ["no numbers", "too few", "of another kind", "twice", "beyond", "below"])
def test_damaged_lists_of_an_earlier_release_are_refused(how: str) -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan = scan_of("dot", rows)
    index = older(scan, codes_of("dot", rows))
    if how in ("no numbers", "too few", "of another kind"):
        with_quantiser(replace(scan.quantized[0], codebook=index), how)
    else:
        ids = next(one for one in row_ids_by_list(index) if len(one) > 1)
        ids[0] = {"twice": ids[1], "beyond": 1 << 32, "below": -1}[how]
    with pytest.raises(FileProblem):
        open_index(scan.space, index_to_batch([index], "abc", 1500), ROWS, "abc")


def test_a_file_of_lists_without_all_of_their_members_is_refused() -> None:
    scan = scan_of("dot", structured(ROWS, DIMENSIONS))
    batch = index_to_batch(scan.quantized, "abc", 1500)
    with pytest.raises(FileProblem, match="fit"):
        open_index(scan.space, batch.slice(0, 5), ROWS, "abc")
