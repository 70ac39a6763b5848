"""The best hits of several lists: the order of scores and ids, ties across and inside of segments, and what is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.segment.view import TopK, merge_top_k


class Segment:
    """Chunks with these ids, which notes which of them are read."""

    def __init__(self, ids: list[str]) -> None:
        self.names = ids
        self.read: list[int] = []
        self.segment = SimpleNamespace(ids=self, chunks=SimpleNamespace(bytes=lambda _: self))
        self._ranks = np.argsort(np.argsort(np.array([name.encode() for name in ids]))).astype(np.uint32)
        self.is_ranked = False

    @property
    def ranks(self) -> NDArray[np.uint32]:
        self.is_ranked = True
        return self._ranks

    def __getitem__(self, row: int) -> bytes:
        self.read.append(row)
        return self.names[row].encode()


def merge(segments: list[Segment], lists: list[list[tuple[int, int, float]]], k: int) -> TopK:
    ords, rows, scores = ([np.array([hit[n] for hit in one]) for one in lists] for n in range(3))
    views: Any = segments
    return merge_top_k(
        views,
        [one.astype(np.int64) for one in ords],
        [one.astype(np.int64) for one in rows],
        [one.astype(np.float64) for one in scores],
        k,
    )


def hits(segments: list[Segment], found: TopK) -> list[tuple[float, str]]:
    triples = zip(found.scores.tolist(), found.segment_ords.tolist(), found.rows.tolist(), strict=True)
    return [(score, segments[segment_ord].names[row]) for score, segment_ord, row in triples]


def expected(segments: list[Segment], lists: list[list[tuple[int, int, float]]], k: int) -> list[tuple[float, str]]:
    every = [(score, segments[segment_ord].names[row]) for one in lists for segment_ord, row, score in one]
    return sorted(every, key=lambda hit: (-hit[0], hit[1].encode()))[:k]


@pytest.mark.parametrize("seed", range(8))
def test_hits_are_in_order_of_score_and_then_of_id(seed: int) -> None:
    chance = np.random.default_rng(seed)
    names = [f"é{number}" if number % 5 == 0 else f"d{number}" for number in chance.permutation(60).tolist()]
    segments = [Segment(names[:25]), Segment(names[25:45]), Segment(names[45:])]
    lists: list[list[tuple[int, int, float]]] = []
    for number, segment in enumerate(segments):
        rows = chance.permutation(len(segment.names)).tolist()
        scores = chance.integers(-3, 4, len(rows)) / 2 if seed % 2 else np.sort(chance.integers(0, 60, len(rows)))[::-1]
        lists.append([(number, row, float(score)) for row, score in zip(rows, scores.tolist(), strict=True)])
    for k in (1, 2, 3, 7, 25, 59, 60, 61):
        assert hits(segments, merge(segments, lists, k)) == expected(segments, lists, k)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_ties_at_the_last_place_go_to_the_smaller_id(k: int) -> None:
    segments = [Segment(["d", "b"]), Segment(["c", "a"])]
    lists = [[(0, 0, 1.0), (0, 1, 1.0)], [(1, 0, 1.0), (1, 1, 1.0)]]
    assert [name for _, name in hits(segments, merge(segments, lists, k))] == ["a", "b", "c", "d"][:k]


def test_a_hit_before_a_tie_stays_before_it() -> None:
    segments = [Segment(["z", "b", "a"])]
    lists = [[(0, 0, 2.0), (0, 1, 1.0), (0, 2, 1.0)]]
    assert hits(segments, merge(segments, lists, 2)) == [(2.0, "z"), (1.0, "a")]


@pytest.mark.parametrize("scores", [[3.0, 2.0, 1.0], [1.0, 3.0, 2.0], [-1.0, -3.0, -2.0]])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_without_a_tie_no_id_is_read(k: int, scores: list[float]) -> None:
    segments = [Segment(["c", "b", "a"])]
    lists = [[(0, row, score) for row, score in enumerate(scores)]]
    assert hits(segments, merge(segments, lists, k)) == expected(segments, lists, k)
    assert not segments[0].is_ranked and not segments[0].read


def test_a_tie_behind_the_last_place_reads_no_id() -> None:
    segments = [Segment(["d", "c", "b", "a"])]
    lists = [[(0, 3, 1.0), (0, 0, 3.0), (0, 1, 2.0), (0, 2, 1.0)]]
    assert hits(segments, merge(segments, lists, 2)) == [(3.0, "d"), (2.0, "c")]
    assert not segments[0].is_ranked and not segments[0].read


def test_of_a_long_tie_no_more_ids_are_read_than_hits_are_wanted() -> None:
    segments = [Segment([f"d{number:03d}" for number in range(200)]) for _ in range(2)]
    lists = [[(number, row, 1.0) for row in range(200)] for number in range(2)]
    assert len(merge(segments, lists, 3).rows) == 3
    assert [segment.read for segment in segments] == [[0, 1, 2], [0, 1, 2]]


def test_two_runs_of_ties_are_cut_apart() -> None:
    segments = [Segment([f"d{number}" for number in range(8)])]
    lists = [[(0, row, 2.0 if row < 3 else 1.0) for row in reversed(range(8))]]
    assert [name for _, name in hits(segments, merge(segments, lists, 5))] == ["d0", "d1", "d2", "d3", "d4"]
    assert segments[0].read == list(range(8)), "three of one run and five of the next"


def test_merged_hits_can_be_merged_again() -> None:
    segments = [Segment(["b", "d"]), Segment(["a", "c"])]
    lists = [[(0, 0, 1.0), (0, 1, 1.0)], [(1, 0, 1.0), (1, 1, 0.5)]]
    first = merge(segments, lists[:1], 3)
    views: Any = segments
    again = merge_top_k(
        views,
        [first.segment_ords, np.array([1, 1])],
        [first.rows, np.array([0, 1])],
        [first.scores, np.array([1.0, 0.5])],
        3,
    )
    assert hits(segments, again) == hits(segments, merge(segments, lists, 3)) == [(1.0, "a"), (1.0, "b"), (1.0, "d")]


def test_no_list_and_empty_lists_give_no_hits() -> None:
    for count in range(3):
        found = merge([], [[]] * count, 5)
        assert [len(found.segment_ords), len(found.rows), len(found.scores)] == [0, 0, 0]
