"""Scans of the kernel: the same candidates on each instruction set, none left out that seems closer than one found."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.native import (
    METRICS,
    Codebook,
    Hits,
    chosen,
    codes_for,
    hits_of,
    kernel,
    one,
    pack_codes,
    packed,
    probe_of,
    random_codebook,
    runnable,
    scores_of,
    search_one,
    whole_list,
)

BLOCKS = (32, 64, 128)


class Rows:
    """Rows with their codes, as one column and one list."""

    def __init__(
        self,
        rows: int,
        dimensions: int,
        sub_quantizers: int,
        *,
        metric: kernel.Metric = "dot",
        block_rows: int = 64,
        is_rotated: bool = False,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.metric, self.dimensions, self.block_rows = metric, dimensions, block_rows
        self.vectors = rng.standard_normal((rows, dimensions)).astype(np.float32)
        self.codebook = random_codebook(seed, dimensions, sub_quantizers, is_rotated=is_rotated)
        self.codes = self.codebook.encode(self.vectors)
        self.query = rng.standard_normal(dimensions).astype(np.float32)

    def plan(self, mask: NDArray[np.bool_] | None = None) -> kernel.Plan:
        columns = kernel.Columns(self.metric, self.dimensions, 4, [(self.vectors, (), 1)])
        codes = codes_for(
            columns, self.codebook, self.dimensions, self.block_rows, [whole_list(0, self.codes, self.block_rows)]
        )
        total = len(self.vectors) if mask is None else int(mask.sum())
        return kernel.Plan(columns, (None if mask is None else packed(mask),), ((codes, one(0), total),), (), ())

    def candidates(self, count: int, mask: NDArray[np.bool_] | None = None) -> Hits:
        """All that was compared for `count` candidates."""
        found = search_one(self.plan(mask), self.query, len(self.vectors), count)
        assert found is not None
        return hits_of(found[0])


def in_quarters(numbers: NDArray[Any] | None) -> NDArray[np.float32]:
    return np.asarray(np.round(np.asarray(numbers) * 4) / 4, dtype=np.float32)


def check_candidates(rows: Rows, found: Hits, count: int, allowed: NDArray[np.bool_]) -> None:
    """`count` rows and not many more, once each, and no other allowed row seems closer by more than is rounded."""
    chosen_rows = np.array([row for _, row, _ in found], np.int64)
    assert len(set(chosen_rows.tolist())) == len(chosen_rows)
    assert allowed[chosen_rows].all()
    assert min(count, int(allowed.sum())) <= len(chosen_rows) <= max(4 * count, 0)
    estimates = rows.codebook.estimates(rows.metric, rows.query, rows.codes)
    left_out = allowed.copy()
    left_out[chosen_rows] = False
    if len(chosen_rows) and left_out.any():
        rounding = rows.codebook.rounding(rows.metric, rows.query)
        assert estimates[chosen_rows].min() >= estimates[left_out].max() - rounding


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("sub_quantizers", [1, 2, 3, 7, 8, 9, 17, 64])
def test_candidates_are_the_rows_that_seem_closest(name: str, metric: kernel.Metric, sub_quantizers: int) -> None:
    for block_rows, count in zip(BLOCKS, (300, 1, 10), strict=True):
        rows = Rows(777, 2 * sub_quantizers, sub_quantizers, metric=metric, block_rows=block_rows, seed=count)
        with chosen(name):
            found = rows.candidates(count)
        check_candidates(rows, found, count, np.ones(777, np.bool_))
        exact = scores_of(metric, rows.query, rows.vectors)
        assert np.allclose([score for _, _, score in found], [exact[row] for _, row, _ in found], atol=1e-4)


@pytest.mark.parametrize("is_rotated", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_all_instruction_sets_find_the_same_candidates(metric: kernel.Metric, is_rotated: bool) -> None:
    for sub_quantizers in (1, 2, 5, 8, 31, 96):
        rows = Rows(2_000, 2 * sub_quantizers - 1, sub_quantizers, metric=metric, is_rotated=is_rotated)
        if is_rotated:  # sums in another order differ in the last bits, and may round a table value elsewhere
            rows.codebook = Codebook(rows.codebook.codewords, in_quarters(rows.codebook.rotation).astype(np.float16))
            rows.query = in_quarters(rows.query)
        vectors, codes = rows.vectors, rows.codes
        for size, block_rows in itertools.product((1, 31, 33, 64, 127, 129, 2_000), BLOCKS):
            rows.vectors, rows.codes, rows.block_rows = vectors[:size], codes[:size], block_rows
            found = []
            for name in runnable():
                with chosen(name):
                    found.append({row for _, row, _ in rows.candidates(min(size, 40))})
            assert all(each == found[0] for each in found), (size, sub_quantizers, block_rows)


@pytest.mark.parametrize("name", runnable())
def test_a_deep_scan_compares_every_row(name: str) -> None:
    rows = Rows(3_000, 24, 12, seed=3)
    with chosen(name):
        for count in (2_999, 3_000, 10_000):
            assert len(rows.candidates(count)) >= min(count, 3_000)


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("block_rows", BLOCKS)
def test_a_bitmap_allows_the_rows_of_a_list_wherever_it_begins(name: str, block_rows: int) -> None:
    rng = np.random.default_rng(block_rows)
    rows = Rows(700, 8, 4, block_rows=block_rows)
    mask = rng.random(700) < 0.4
    with chosen(name):
        columns = kernel.Columns("dot", 8, 4, [(rows.vectors, (), 1)])
        for first in (*range(18), 63, 64, 65, 127, 400, 699):
            for size in (1, 7, 63, 64, 65, 300):
                if first + size > 700:
                    continue
                listed = pack_codes(rows.codes[first : first + size], block_rows)
                codes = codes_for(
                    columns, rows.codebook, 8, block_rows, [(0, listed, None, one(0), one(first), one(size))]
                )
                plan = kernel.Plan(columns, (packed(mask),), ((codes, one(0), size),), (), ())
                found = search_one(plan, rows.query, size, size)
                assert found is not None
                allowed = {row for row in range(first, first + size) if mask[row]}
                assert {row for _, row, _ in hits_of(found[0])} == allowed, (first, size)


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.9, 1.0])
def test_candidates_of_a_filter_are_those_that_seem_closest_of_the_allowed(name: str, share: float) -> None:
    for seed, count in itertools.product(range(3), (1, 25)):
        rows = Rows(2_000, 16, 8, seed=seed)
        mask = np.random.default_rng(seed).random(2_000) < share
        with chosen(name):
            check_candidates(rows, rows.candidates(count, mask), count, mask)


# -- many rows with one estimate ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("copies", [1, 30, 900, 1_100, 4_000])
@pytest.mark.parametrize("count", [1, 10, 300])
def test_rows_with_one_estimate_fill_the_reservoir_and_the_best_are_kept(name: str, copies: int, count: int) -> None:
    """More copies than candidates have room for: some must be found, and that others may be missing is told."""
    rows = Rows(1_500, 8, 4, seed=copies)
    order = np.random.default_rng(0).permutation(1_500 + copies)
    rows.vectors = np.concatenate([rows.vectors, np.tile(rows.query, (copies, 1))])[order]
    rows.codes = rows.codebook.encode(rows.vectors)
    with chosen(name):
        found = search_one(rows.plan(), rows.query, 10, count)
    assert found is not None
    hits = hits_of(found[0])
    true = scores_of("dot", rows.query, rows.vectors)
    assert min(10, count) <= len(hits) <= 10
    if copies >= 900:
        estimates = rows.codebook.estimates("dot", rows.query, rows.codes)
        least = np.sort(estimates)[::-1][count - 1] - rows.codebook.rounding("dot", rows.query)
        assert all(estimates[row] >= least for _, row, _ in hits)
    for _, row, score in hits:
        assert abs(true[row] - score) < 1e-4


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("block_rows", BLOCKS)
def test_rows_that_are_all_alike_are_found_and_told_to_be_more(name: str, block_rows: int) -> None:
    rows = Rows(1, 8, 4, block_rows=block_rows)
    rows.vectors = np.tile(rows.vectors, (5_000, 1))
    rows.codes = np.tile(rows.codes, (5_000, 1))
    with chosen(name):
        for count in (1, 10, 600):
            found = search_one(rows.plan(), rows.query, 10, count)
            assert found is not None
            assert len(hits_of(found[0])) == 10 or count < 10
            assert found[1]


@pytest.mark.parametrize("name", runnable())
def test_equal_estimates_at_the_edge_stay_until_better_ones_come(name: str) -> None:
    """First many rows alike, then a few that are better: the best of both."""
    rows = Rows(100, 8, 8)
    estimates = rows.codebook.estimates("dot", rows.query, rows.codes)
    vectors, codes = rows.vectors, rows.codes
    for more in (0, 1, 9, 10, 11, 600):
        chosen_rows = np.array([int(estimates.argmin())] * 3_000 + [int(estimates.argmax())] * more)
        rows.vectors, rows.codes = vectors[chosen_rows], codes[chosen_rows]
        with chosen(name):
            found = [row for _, row, _ in rows.candidates(10)]
        assert len(found) >= 10
        assert sum(row >= 3_000 for row in found) >= min(more, 10)


@pytest.mark.parametrize("name", runnable())
def test_codewords_that_are_all_alike_estimate_nothing_and_lose_nothing(name: str) -> None:
    rows = Rows(2_000, 8, 4)
    rows.codebook = Codebook(np.ones_like(rows.codebook.codewords))
    with chosen(name):
        assert len(rows.candidates(2_000)) == 2_000
        assert len(rows.candidates(10)) >= 10


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("value", [6e4, -6e4])
def test_a_rotation_by_large_numbers_loses_no_rows(name: str, value: float) -> None:
    rows = Rows(1_500, 8, 4, is_rotated=True)
    for places in ([0], [9, 20], list(range(64))):
        rotation = np.array(rows.codebook.rotation)
        rotation.reshape(-1)[places] = value
        rows.codebook = Codebook(rows.codebook.codewords, rotation)
        with chosen(name):
            assert len(rows.candidates(1_500)) == 1_500
            assert len(rows.candidates(20)) >= 20


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("value", [1e-38, 1e19, 3e38])
def test_a_codebook_of_extreme_numbers_loses_no_rows(name: str, metric: kernel.Metric, value: float) -> None:
    """Closeness overflows to infinity, or infinity minus infinity."""
    rows = Rows(1_500, 6, 3, metric=metric)
    words = rows.codebook.codewords.copy()
    words[0, 3:9] *= np.float32(value) / np.abs(words).max()
    words[1, 5:] = np.float32(value)
    words[1, 5:, 1] *= -1
    for weight in (0.0, 1.0):
        rows.codebook = Codebook(words, norm_weight=weight)
        rows.query = np.full(6, 1e17, np.float32)
        with chosen(name):
            assert len(rows.candidates(1_500)) == 1_500
            assert len(rows.candidates(20)) >= 20


# -- lists with copies -------------------------------------------------------------------------------------------------


class Listed:
    """Rows in two of several lists each, as inverted lists hold them."""

    def __init__(self, rows: Rows, lists: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.rows = rows
        count = len(rows.vectors)
        first = rng.integers(0, lists, count)
        both = np.stack([first, (first + rng.integers(1, lists, count)) % lists])
        self.members = [np.flatnonzero((both == number).any(axis=0)) for number in range(lists)]
        packs = [pack_codes(rows.codes[members], rows.block_rows) for members in self.members]
        starts = np.cumsum([0, *map(len, packs)])[:-1].astype(np.int64)
        sizes = np.array([len(members) for members in self.members], np.int64)
        entries = (np.cumsum(sizes) - sizes).astype(np.int64)
        self.given: tuple[Any, ...] = (
            0,
            np.concatenate(packs),
            np.concatenate(self.members).astype(np.int32),
            starts,
            entries,
            sizes,
        )

    def plan(self, numbers: list[int], mask: NDArray[np.bool_] | None = None, times: int = 4) -> kernel.Plan:
        """A plan whose probes of len(numbers) centroids scan the lists of these numbers; a scan of all lists scans each
        one `times` times."""
        rows = self.rows
        columns = kernel.Columns(rows.metric, rows.dimensions, 4, [(rows.vectors, (), 1)])
        codes = codes_for(columns, rows.codebook, rows.dimensions, rows.block_rows, [self.given])
        total = len(rows.vectors) if mask is None else int(mask.sum())
        every = np.tile(np.arange(len(self.members)), times)
        scan = codes, every, total, probe_of(rows.codebook, numbers, len(self.members))
        return kernel.Plan(columns, (None if mask is None else packed(mask),), (scan,), (), ())

    def probe(self, numbers: list[int], count: int, mask: NDArray[np.bool_] | None = None) -> Hits | None:
        [found] = self.plan(numbers, mask).probe(self.rows.query, len(self.rows.vectors), count, len(numbers), 0.0)
        return None if found is None else hits_of(found[0])


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("block_rows", BLOCKS)
def test_a_probe_finds_each_row_once_although_it_stands_twice(name: str, block_rows: int) -> None:
    listed = Listed(Rows(3_000, 16, 8, block_rows=block_rows), 12)
    rng = np.random.default_rng(1)
    with chosen(name):
        for mask in (None, rng.random(3_000) < 0.5):
            for numbers in ([0], [3, 4, 5], list(range(12))):
                held = np.zeros(3_000, np.bool_)
                held[np.concatenate([listed.members[number] for number in numbers])] = True
                held &= True if mask is None else mask
                for count in (1, 40, int(held.sum())):
                    found = listed.probe(numbers, count, mask)
                    assert found is not None
                    check_candidates(listed.rows, found, count, held)
                    assert count <= len(found) <= 2 * count, "rows with the estimate of the last are kept with it"


@pytest.mark.parametrize("name", runnable())
def test_a_probe_that_holds_too_few_rows_says_so(name: str) -> None:
    listed = Listed(Rows(1_000, 16, 8), 12)
    held = len(listed.members[2])
    with chosen(name):
        assert listed.probe([2], held) is not None
        assert listed.probe([2], held + 1) is None
        assert listed.probe(list(range(12)), 100_000) is not None, "all that are allowed are enough"
        mask = np.zeros(1_000, np.bool_)
        mask[listed.members[2][:5]] = True
        assert listed.probe([2], 6, mask) is not None, "five are allowed, and five are found"
        assert listed.probe([3], 6, mask) is None


@pytest.mark.parametrize("name", runnable())
def test_a_probe_of_copies_that_are_all_alike_finds_as_many_as_it_should(name: str) -> None:
    rows = Rows(1, 8, 4)
    rows.vectors, rows.codes = np.tile(rows.vectors, (4_000, 1)), np.tile(rows.codes, (4_000, 1))
    listed = Listed(rows, 5)
    with chosen(name):
        for count in (1, 10, 500):
            found = listed.probe([0, 1, 2, 3, 4], count)
            assert found is not None
            assert count <= len(found) == len({row for _, row, _ in found}) <= 2 * count


@pytest.mark.parametrize("name", runnable())
def test_a_probe_of_most_entries_gives_way_to_a_scan_of_all(name: str) -> None:
    listed = Listed(Rows(1_000, 16, 8), 12)
    with chosen(name):
        for count in range(1, 13):
            held = sum(len(members) for members in listed.members[:count])
            [found] = listed.plan(list(range(count)), times=1).probe(listed.rows.query, 10, 20, count, 0.0)
            assert (found is None) == (held >= int(0.7 * 2_000))


@pytest.mark.parametrize("name", runnable())
def test_a_probe_keeps_rows_that_are_alike_together(name: str) -> None:
    rows = Rows(2_000, 16, 8)
    rows.vectors, rows.codes = rows.vectors.repeat(2, axis=0), rows.codes.repeat(2, axis=0)
    listed = Listed(rows, 6)
    with chosen(name):
        [found] = listed.plan([0, 1, 2, 3, 4, 5]).probe(rows.query, 4_000, 41, 6, 0.0)
        assert found is not None
        hits = np.array([row for _, row, _ in hits_of(found[0])])
        assert sorted(hits // 2) == sorted(np.unique(hits // 2).repeat(2))
        [few] = listed.plan([0, 1, 2, 3, 4, 5]).probe(rows.query, 10, 41, 6, 0.0)
        assert few is not None
        assert not few[1], "no equals are missing"


@pytest.mark.parametrize("name", runnable())
def test_lists_without_entries_and_no_lists_find_nothing(name: str) -> None:
    rows = Rows(100, 8, 4)
    none = np.empty(0, np.int64)
    with chosen(name):
        columns = kernel.Columns("dot", 8, 4, [(rows.vectors, (), 1)])
        empty = (0, np.empty(0, np.uint8), None, one(0), one(0), one(0))
        codes = codes_for(columns, rows.codebook, 8, 64, [empty, (0, np.empty(0, np.uint8), None, none, none, none)])
        for lists in (one(0), none):
            found = search_one(kernel.Plan(columns, (None,), ((codes, lists, 0),), (), ()), rows.query, 10, 10)
            assert found is not None
            assert (hits_of(found[0]), found[1]) == ([], False)
        no_rows = kernel.Columns("dot", 8, 4, [(rows.vectors[:0], (), 1)])
        assert hits_of(no_rows.search(0, rows.query, 10, None)) == []


# -- several queries at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("block_rows", BLOCKS)
def test_several_queries_find_what_each_finds_alone(name: str, block_rows: int) -> None:
    rng = np.random.default_rng(4)
    rows = Rows(1_700, 14, 7, block_rows=block_rows)
    mask = rng.random(1_700) < 0.6
    with chosen(name):
        plans = [rows.plan(), rows.plan(mask)]
        listed = Listed(rows, 9)
        probing = listed.plan([1, 4, 5, 7])
    for count in (0, 1, 2, 7, 8, 9, 16, 17, 64):
        queries = rng.standard_normal((count, 14)).astype(np.float32)
        for plan in plans:
            alone = tuple(plan.search(query, 10, 40, None, True) for query in queries)
            assert plan.search(queries, 10, 40, None, True) == tuple(found[0] for found in alone)
        probed = tuple(probing.probe(query, 10, 40, 4, 0.0) for query in queries)
        assert probing.probe(queries, 10, 40, 4, 0.0) == tuple(found[0] for found in probed)
        for plan, nprobe, results in ((plans[1], 0, alone), (probing, 4, probed)):
            expected = [None if one is None or one[1] else hits_of(one[0]) for [one] in results]
            together = plan.find(list(queries.astype(np.float64)), False, 10, 40, nprobe, 0.0)
            assert together is not None
            assert [None if one is None else list(zip(*one, strict=True)) for one in together] == expected


@pytest.mark.parametrize("name", runnable())
def test_queries_that_differ_much_do_not_disturb_each_other(name: str) -> None:
    """One query likes all rows alike, one overflows, one is zero: the others find what they find alone."""
    rows = Rows(2_500, 8, 4, seed=9)
    queries = np.stack([rows.query, np.zeros(8), np.full(8, 1e18), -rows.query, np.full(8, 1e-30), rows.vectors[3]])
    with chosen(name):
        plan = rows.plan()
    wide = queries.astype(np.float32)
    together = plan.search(wide, 20, 100, None, True)
    assert together is not None
    assert together == tuple(search_one(plan, query, 20, 100) for query in wide)
