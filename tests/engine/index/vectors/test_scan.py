"""Scans of quantised vectors: allowed rows once each, best first, from all lists or from those near the query."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from aidre.engine.index.vectors import (
    distance as kernel,
    inverted_lists as lists,
    quantizer as codebook,
    scan as passes,
)
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.index.vectors.quantizer import (
    quantize_rows,
    row_blocks,
    without_centroids,
)
from aidre.engine.index.vectors.scan import PreparedScan, ScanGroup, SearchDepth, search_depth
from aidre.engine.index.vectors.vector_index import (
    NORM_WEIGHT,
    VectorIndex,
)
from aidre.engine.model import Distance
from aidre.engine.storage.format import MAX_SEGMENT_ROWS
from aidre.engine.storage.manifest import Calibration, Depth, TargetDepths
from tests.engine.index.vectors.vector_indexes import (
    DIMENSIONS,
    LISTS,
    ROWS,
    bits_of,
    codes_of,
    column_of,
    evaluate,
    index_of,
    listed_index,
    probing,
    query_of,
    rotated_index,
)
from tests.support.stores import DISTANCES, space_of, structured


def test_candidates_grow_with_the_rows_that_were_written_since_the_calibration() -> None:
    calibration = Calibration("scan", 0.99, 9_000, depths=(Depth(10, 100, 1.0, 1.0, 7, 0.5),))
    depths = [search_depth(replace(calibration, written=written), 10) for written in (0, 9_000, 27_000)]
    assert [None if depth is None else depth.candidates for depth in depths] == [100, 142, 200]
    assert [None if depth is None else (depth.nprobe(), depth.max_gap()) for depth in depths] == 3 * [(7, 0.5)]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("code_size", [12, 24, 48])
def test_a_scan_yields_allowed_rows_once_each_best_first(distance: Distance, code_size: int) -> None:
    rows = structured(2000, DIMENSIONS)
    column = column_of(distance, rows)
    scan = index_of(distance, column, code_size)
    assert scan.code_size == code_size
    sweep = ScanGroup([scan])
    query = encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, 1)[0])
    everything, seeming = PreparedScan(sweep).search(query, 2000)
    assert sorted(everything.tolist()) == list(range(2000))
    assert (seeming[:-1] >= seeming[1:]).all()
    mask = np.arange(2000) % 3 == 0
    found, _ = PreparedScan(sweep, bitmap=bits_of(mask)).search(query, 50)
    assert len(set(found.tolist())) == 50
    assert mask[found].all()
    fewer, _ = PreparedScan(sweep, bitmap=bits_of(np.arange(2000) < 5)).search(query, 50)
    assert sorted(fewer.tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("distance", DISTANCES)
def test_what_a_scan_says_comes_near_the_exact_scores(distance: Distance) -> None:
    column = column_of(distance, structured(2000, DIMENSIONS))
    sweep = ScanGroup([index_of(distance, column, DIMENSIONS)])
    query = encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, 1)[0])
    rows, seeming = PreparedScan(sweep).search(query, 2000)
    assert np.corrcoef(seeming, evaluate(column, rows, query))[0, 1] > 0.95


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_sweep_over_segments_finds_what_one_of_all_their_rows_does(distance: Distance) -> None:
    rows = structured(3000, DIMENSIONS)
    column = column_of(distance, rows)
    whole = index_of(distance, column, 24)
    ends = [0, 1, 500, 700, 3000]
    scans = []
    for slot, (start, end) in enumerate(itertools.pairwise(ends)):
        scan = VectorIndex(whole.space, quantize_rows(whole.codebook(), row_blocks(column.codes[start:end])))
        scan.assign_slot(slot)
        scans.append(scan)
    query = encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, 1)[0])
    seeming = np.empty(3000)
    numbers, values = PreparedScan(ScanGroup([whole])).search(query, 3000)
    seeming[numbers] = values
    numbers, values = PreparedScan(ScanGroup(scans)).search(query, 100)
    found = np.array(ends)[numbers // MAX_SEGMENT_ROWS] + numbers % MAX_SEGMENT_ROWS
    assert len(set(found.tolist())) == 100
    assert values.tolist() == seeming[found].tolist() == np.sort(seeming)[::-1][:100].tolist()
    numbers, _ = PreparedScan(ScanGroup(scans), [0, 2]).search(query, 201)
    assert set(numbers.tolist()) == {0, *range(2 * MAX_SEGMENT_ROWS, 2 * MAX_SEGMENT_ROWS + 200)}


def test_scans_with_one_codebook_are_known_by_it() -> None:
    column = column_of("dot", structured(2000, DIMENSIONS))
    scan, other = index_of("dot", column, 12), index_of("dot", column_of("dot", structured(2000, DIMENSIONS, 5)), 12)
    alike = VectorIndex(scan.space, quantize_rows(scan.codebook(), row_blocks(column.codes[:100])))
    assert scan.codebook_key == alike.codebook_key
    assert scan.codebook_key != other.codebook_key


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_nearest_lists_hold_most_of_the_nearest_rows_as_close_as_they_are(distance: Distance) -> None:
    one = PreparedScan(ScanGroup([listed_index(distance, structured(ROWS, DIMENSIONS))]))
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
    one = PreparedScan(ScanGroup([listed_index("cosine", structured(ROWS, DIMENSIONS))]))
    rows, _ = one.search(query_of("cosine"), 2_000, probing(1))
    assert len(set(rows.tolist())) == 2_000


def test_a_bitmap_lets_through_the_same_rows_from_lists() -> None:
    scan = listed_index("cosine", structured(ROWS, DIMENSIONS))
    mask = np.random.default_rng(0).random(ROWS) < 0.3
    counts = scan.count_by_list(mask)
    assert counts is not None
    assert counts.sum() == mask.sum()
    one = PreparedScan(ScanGroup([scan]), None, bits_of(mask), [counts])
    for reach, count in ((None, int(mask.sum())), (probing(4), 50), (probing(0), 50)):
        rows, _ = one.search(query_of("cosine"), count, reach)
        assert len(set(rows.tolist())) == count
        assert mask[rows].all()


def test_rows_far_from_the_query_are_found_where_only_they_are_allowed() -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan, query = listed_index("cosine", rows), query_of("cosine")
    places = scan.coarse_quantizer.probe(query, LISTS)
    mask = np.isin(scan.assignments[0], places[LISTS // 2 :])
    one = PreparedScan(ScanGroup([scan]), None, bits_of(mask), [scan.count_by_list(mask)])
    found, _ = one.search(query, 20, probing(8))
    whole, _ = one.search(query, 20)
    assert found.tolist() == whole.tolist()
    assert mask[found].all()


def test_several_queries_each_have_their_own_lists() -> None:
    one = PreparedScan(ScanGroup([listed_index("cosine", structured(ROWS, DIMENSIONS))]))
    queries = np.concatenate([query_of("cosine", seed) for seed in range(5)])
    found = one.search_all(queries, 50, probing(4))
    for place, (rows, near) in enumerate(found):
        alone = one.search(queries[place : place + 1], 50, probing(4))
        assert rows.tolist() == alone[0].tolist()
        assert near.tolist() == alone[1].tolist()


@pytest.mark.parametrize("reach", [None, probing(8)])
def test_two_threads_find_what_one_does(reach: SearchDepth | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "FULL_LIST_ROWS", 1_024)
    scan = listed_index("cosine", structured(ROWS, DIMENSIONS))
    assert scan.list_sizes[scan.covering_lists(None)].tolist() == [1_024, 1_024, ROWS - 2_048]
    alone = PreparedScan(ScanGroup([scan])).search(query_of("cosine"), 100, reach)
    monkeypatch.setattr(passes, "MIN_SHARED_ROWS", 500)
    monkeypatch.setattr(kernel, "_core_is_idle", lambda: True)
    shared = PreparedScan(ScanGroup([scan])).search(query_of("cosine"), 100, reach)
    assert shared[1].tolist() == alone[1].tolist()
    assert len(set(shared[0].tolist())) == 100


def test_a_small_segment_is_one_list_and_is_gone_over_with_the_others() -> None:
    rows = structured(ROWS, DIMENSIONS)
    large = listed_index("cosine", rows[200:])
    small = VectorIndex(
        large.space,
        codebook.quantize_rows(without_centroids(large.codebook()), row_blocks(codes_of("cosine", rows[:200]))),
    )
    other = listed_index("cosine", structured(ROWS, DIMENSIONS, 9))
    assert sorted(map(len, passes.group_by_codebook([small, other, large]))) == [1, 2]
    large.assign_slot(1)
    small.assign_slot(0)
    found, _ = PreparedScan(ScanGroup([large, small])).search(query_of("cosine"), 400, probing(1))
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


def test_a_recall_is_answered_by_the_next_higher_one_that_was_calibrated() -> None:
    deep, low = (Depth(10, 100, 1.0, 1.0), Depth(100, 500, 1.0, 1.0)), (Depth(10, 30, 0.95, 0.9),)
    calibration = Calibration("scan", 0.99, 9_000, depths=deep, others=(TargetDepths(0.9, low),))
    asked = {0.5: 30, 0.9: 30, 0.900001: 30, 0.91: 100, 0.99: 100, float(np.float32(0.99)): 100, 0.995: None, 1.0: None}
    for recall, candidates in asked.items():
        depth = search_depth(calibration, 10, recall)
        assert (None if depth is None else depth.candidates) == candidates, recall
    assert search_depth(calibration, 10) == search_depth(calibration, 10, 0.99)
    assert search_depth(calibration, 100, 0.9) is None, "what no depth reaches is exact"
    older = replace(calibration, others=())
    assert search_depth(older, 10, 0.9) == search_depth(older, 10)
    assert search_depth(replace(calibration, kind="exact"), 10, 0.9) is None


@pytest.mark.parametrize("distance", DISTANCES)
def test_only_lists_that_are_little_behind_the_nearest_are_gone_over(distance: Distance) -> None:
    scan, query = listed_index(distance, structured(ROWS, DIMENSIONS)), query_of(distance)
    numbers, gaps = scan.coarse_quantizer.rank(query, LISTS)
    assert sorted(numbers.tolist()) == list(range(LISTS))
    assert gaps[:4].mean() == pytest.approx(0, abs=1e-6)
    assert (gaps[1:] >= gaps[:-1]).all()
    gap = float(gaps[4] + gaps[5]) / 2
    assert scan.coarse_quantizer.probe(query, LISTS, gap).tolist() == numbers[:5].tolist()
    assert scan.coarse_quantizer.probe(query, 3, gap).tolist() == numbers[:3].tolist()
    one = PreparedScan(ScanGroup([scan]))
    found, _ = one.search(query, 300, SearchDepth(300, 10, (Depth(10, 300, 1.0, 1.0, LISTS, gap),)))
    assert found.tolist() == one.search(query, 300, probing(5))[0].tolist()
    assert found.tolist() != one.search(query, 300, probing(6))[0].tolist()


def test_more_lists_are_gone_over_where_the_nearest_hold_too_few_rows() -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan, query = listed_index("cosine", rows), query_of("cosine")
    mask = np.arange(ROWS) % 2 == 0
    masked = PreparedScan(ScanGroup([scan]), None, bits_of(mask), [scan.count_by_list(mask)])
    for one, count in ((PreparedScan(ScanGroup([scan])), 200), (masked, 100)):
        wide = SearchDepth(count, 10, (Depth(10, count, 1.0, 1.0, 8), Depth(1000, 5_000, 1.0, 1.0, 8)))
        tight = SearchDepth(count, 10, tuple(replace(depth, gap=1e-9) for depth in wide.depths))
        probed, all_probed = (one._probed_lists(query, 2 * count, depth) for depth in (tight, wide))
        assert probed is not None
        assert all_probed is not None
        assert probed.tolist() == all_probed[: len(probed)].tolist()
        assert 1 < len(probed) < len(all_probed)
        assert len(one.search(query, count, tight)[0]) == count
        assert one.search(query, count, tight)[0].tolist() != one.search(query, count)[0].tolist()


def test_a_longer_query_goes_over_the_same_lists() -> None:
    scan, query = listed_index("dot", structured(ROWS, DIMENSIONS)), query_of("dot")
    gap = float(scan.coarse_quantizer.rank(query, LISTS)[1][7])
    assert gap > 0
    for length in (0.01, 1, 1_000):
        assert 7 <= len(scan.coarse_quantizer.probe(np.float32(length) * query, LISTS, gap)) <= 9


# -- estimates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("is_rotated", [False, True])
def test_estimates_are_those_of_the_decoded_rows(distance: Distance, is_rotated: bool) -> None:
    rows = structured(ROWS, DIMENSIONS)
    index = rotated_index(distance, rows) if is_rotated else index_of(distance, column_of(distance, rows), 12)
    assert (index.transform is not None) == is_rotated
    assert index.norm_weight == (NORM_WEIGHT if distance == "cosine" else 0)
    codes = codes_of(distance, rows).astype(np.float32)
    faiss_index, query = index.codebook().index, query_of(distance)
    quantizer = faiss_index.pq
    prepared = (lambda given: given) if index.transform is None else index.transform.apply
    decoded = quantizer.decode(quantizer.compute_codes(prepared(codes)))
    if distance == "euclidean":
        expected = -((prepared(query) - decoded) ** 2).sum(axis=1)
    else:
        expected = decoded @ prepared(query)[0] - index.norm_weight * (decoded**2).sum(axis=1)
    row_ids, estimates = PreparedScan(ScanGroup([index])).search(query, ROWS)
    assert np.abs(estimates - expected[row_ids]).max() < 0.015 * np.ptp(expected)  # look-up tables have 8 bits


@pytest.mark.parametrize("distance", DISTANCES)
def test_segments_with_and_without_a_rotation_are_merged_as_if_they_had_one_codebook(distance: Distance) -> None:
    rows = structured(ROWS, DIMENSIONS) + np.float32(0.3)  # the mean must not make one group seem closer
    column = column_of(distance, rows)
    half = ROWS // 2
    plain = index_of(distance, column_of(distance, rows[:half]), 24)
    rotated = rotated_index(distance, rows[half:], 8)
    rotated.assign_slot(1)
    groups = passes.group_by_codebook([plain, rotated])
    assert len(groups) == 2
    recalls = []
    for seed in range(1, 20):
        query = query_of(distance, seed)
        true = column.search(query, 10, None)[0]
        by_group = [PreparedScan(ScanGroup(group)).search(query, 300) for group in groups]
        row_ids, estimates = (np.concatenate(arrays) for arrays in zip(*by_group, strict=True))
        best = row_ids[np.argsort(-estimates)[:300]]
        found = best // MAX_SEGMENT_ROWS * half + best % MAX_SEGMENT_ROWS
        recalls.append(np.isin(true, found).mean())
    assert np.mean(recalls) > 0.97


def test_rotated_codes_find_as_much_among_fewer_candidates() -> None:
    rows = structured(ROWS, DIMENSIONS)
    column = column_of("cosine", rows)

    def recall_among(index: VectorIndex, candidates: int) -> float:
        scan = PreparedScan(ScanGroup([index]))
        queries = [query_of("cosine", seed) for seed in range(1, 40)]
        found = [np.isin(column.search(one, 10, None)[0], scan.search(one, candidates)[0]).mean() for one in queries]
        return float(np.mean(found))

    rotated, plain = rotated_index("cosine", rows, 8), index_of("cosine", column, 8)
    assert recall_among(rotated, 40) > recall_among(plain, 55)
