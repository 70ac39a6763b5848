"""The best hits of several segments: by score, then by the bytes of their ids, however often they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.segment.view import SegmentView, TopK, merge_top_k
from tests.support.segments import write_segment
from tests.support.stores import record, shuffled

IDS = [["b", "é", "Z", "a b"], ["a", "z", "aa"], ["c"]]
Hits = list[tuple[int, int, float]]


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[SegmentView]:
    folder = tmp_path_factory.mktemp("segments")
    return [SegmentView(write_segment(folder, [record(one) for one in ids]), None) for ids in IDS]


def merge(segments: Sequence[SegmentView], lists: Sequence[Hits], k: int) -> Hits:
    def column(place: int, kind: type) -> list[NDArray[np.int64]]:
        return [np.array([hit[place] for hit in hits], kind) for hits in lists]

    found = merge_top_k(segments, column(0, np.int64), column(1, np.int64), column(2, np.float64), k)  # type: ignore[arg-type]
    return hits_of(found)


def hits_of(found: TopK) -> Hits:
    return list(zip(found.segment_ords.tolist(), found.rows.tolist(), found.scores.tolist(), strict=True))


def by_score_and_id(hits: Hits, k: int) -> Hits:
    return sorted(hits, key=lambda hit: (-hit[2], f"{IDS[hit[0]][hit[1]]}#chunk_1".encode()))[:k]


@pytest.mark.parametrize("scores", [1, 2, 3, 1_000])
@pytest.mark.parametrize("seed", range(5))
def test_hits_are_ordered_by_score_and_then_by_id(segments: list[SegmentView], scores: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hits = [(ord_, row, float(rng.integers(scores))) for ord_, ids in enumerate(IDS) for row in range(len(ids))]
    cuts = sorted(rng.integers(0, len(hits), 2).tolist())
    mixed = [hits[place] for place in rng.permutation(len(hits)).tolist()]
    lists = [mixed[: cuts[0]], mixed[cuts[0] : cuts[1]], mixed[cuts[1] :]]
    for k in (1, 3, len(hits), len(hits) + 5):
        assert merge(segments, lists, k) == by_score_and_id(hits, k)
        halves = [merge(segments, lists[:1], k), merge(segments, lists[1:], k)]
        assert merge(segments, halves, k) == by_score_and_id(hits, k)


def test_hits_in_order_without_ties_are_cut(segments: list[SegmentView]) -> None:
    hits = [(0, 0, 0.9), (1, 2, 0.5), (0, 1, -0.1)]
    assert merge(segments, [hits], 2) == hits[:2]


def test_of_no_lists_and_of_empty_ones_nothing_is_best(segments: list[SegmentView]) -> None:
    assert merge(segments, [], 3) == []
    assert merge(segments, [[], []], 3) == []


def test_a_tie_of_a_whole_segment_reads_the_ids_of_k_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = shuffled([f"d{number:03d}" for number in range(300)])
    segment = write_segment(tmp_path, [record(one) for one in ids])
    stored, read = segment.chunks.bytes("id"), []

    class Counting:
        def __getitem__(self, row: int) -> bytes:
            read.append(row)
            return stored[row]

    monkeypatch.setattr(segment.chunks, "bytes", lambda name: Counting())
    found = merge([SegmentView(segment, None)], [[(0, row, 1.0) for row in range(300)]], 5)
    assert [ids[row] for _, row, _ in found] == [f"d{number:03d}" for number in range(5)]
    assert len(read) == 5
