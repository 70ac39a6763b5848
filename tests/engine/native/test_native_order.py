"""The best rows by score and id: ties, several columns, ids in batches, filters, and any number of results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.native import Hits, chosen, hits_of, ids_in_batches, kernel, packed, runnable, search_one

COLUMNS = ((0, 1), (1, 5), (700, 64), (333, 1), (90, 1_000))
"""Rows of each column, and rows in a batch of its ids."""


class Segments:
    """Several columns whose few different vectors make many ties, with ids that are in no order."""

    def __init__(self, seed: int, dimensions: int = 3) -> None:
        rng = np.random.default_rng(seed)
        total = sum(rows for rows, _ in COLUMNS)
        names = [f"{'x' * int(rng.integers(0, 4))}{number}" for number in rng.permutation(total).tolist()]
        self.ids: list[list[str]] = []
        self.vectors, given = [], []
        for rows, batch_rows in COLUMNS:
            self.ids.append([names.pop() for _ in range(rows)])
            self.vectors.append(rng.integers(-2, 3, (rows, dimensions)).astype(np.float32))
            given.append((self.vectors[-1], ids_in_batches(self.ids[-1], batch_rows), batch_rows))
        self.query = rng.integers(-2, 3, dimensions).astype(np.float32)
        self.columns = kernel.Columns("dot", dimensions, 4, given)
        self.masks = [rng.random(rows) < 0.5 for rows, _ in COLUMNS]

    def expected(self, k: int, *, filtered: bool = False) -> Hits:
        every = [
            (-float(vector @ self.query), self.ids[column][row].encode(), column, row)
            for column, vectors in enumerate(self.vectors)
            for row, vector in enumerate(vectors)
            if not filtered or self.masks[column][row]
        ]
        return [(column, row, -negated) for negated, _, column, row in sorted(every)[:k]]


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("seed", range(5))
def test_hits_of_several_columns_are_ordered_by_score_and_id(name: str, seed: int) -> None:
    with chosen(name):
        segments = Segments(seed)
    bitmaps = tuple(packed(mask) for mask in segments.masks)
    rows = tuple((number, np.flatnonzero(mask)) for number, mask in enumerate(segments.masks))
    every = tuple(range(len(COLUMNS)))
    for k in (0, 1, 2, 10, 100, 1_123, 1_124, 1_125, 5_000):
        for filtered, plan in (
            (False, kernel.Plan(segments.columns, (None,) * len(COLUMNS), (), every, ())),
            (True, kernel.Plan(segments.columns, bitmaps, (), every, ())),
            (True, kernel.Plan(segments.columns, bitmaps, (), (), rows)),
            (True, kernel.Plan(segments.columns, bitmaps, (), every[:2], rows[2:])),
        ):
            found = search_one(plan, segments.query, k, 0)
            assert found is not None
            assert hits_of(found[0]) == segments.expected(k, filtered=filtered)
            assert not found[1]


@pytest.mark.parametrize("name", runnable())
def test_one_column_is_searched_alone(name: str) -> None:
    with chosen(name):
        segments = Segments(7)
    for column, (rows, _) in enumerate(COLUMNS):
        alone = [hit for hit in segments.expected(5_000) if hit[0] == column]
        for k in (-1, 0, 1, 9, rows, rows + 7, 1 << 40):
            found = hits_of(segments.columns.search(column, segments.query, k, None))
            assert found == alone[: max(0, k)]
        allowed = [hit for hit in alone if segments.masks[column][hit[1]]]
        bitmap = packed(segments.masks[column])
        assert hits_of(segments.columns.search(column, segments.query, rows + 1, bitmap)) == allowed


@pytest.mark.parametrize("name", runnable())
def test_the_best_of_random_scores_are_those_of_sorting(name: str) -> None:
    rng = np.random.default_rng(0)
    for rows in (1, 2, 3, 1_000, 20_000):
        vectors = rng.standard_normal((rows, 1)).astype(np.float32)
        with chosen(name):
            columns = kernel.Columns("dot", 1, 4, [(vectors, (), 1)])
        for k in {1, 2, 7, rows // 2, rows}:
            found = hits_of(columns.search(0, np.ones(1, np.float32), k, None))
            assert [row for _, row, _ in found] == np.argsort(-vectors[:, 0], kind="stable")[:k].tolist()


def test_without_ids_ties_are_ordered_by_column_and_row() -> None:
    vectors = np.ones((200, 2), np.float32)
    columns = kernel.Columns("dot", 2, 4, [(vectors, (), 1), (vectors, (), 1)])
    found = search_one(kernel.Plan(columns, (None, None), (), (1, 0), ()), np.ones(2, np.float32), 250, 0)
    assert found is not None
    assert [(column, row) for column, row, _ in hits_of(found[0])] == [
        *((0, row) for row in range(200)),
        *((1, row) for row in range(50)),
    ]


@pytest.mark.parametrize(
    "offsets", [[0, 1, 2], [0, -5, 10], [5, 0, 0, 0], [0, 1 << 62, 1 << 62, 1 << 62], [-(1 << 63)] * 4, [0]]
)
def test_ids_with_damaged_offsets_are_never_read_beyond_their_bytes(offsets: list[int]) -> None:
    vectors, ids = np.ones((3, 2), np.float32), [(np.array(offsets, np.int64), b"abc")]
    for batch_rows in (1, 2, 3, 1 << 40):
        columns = kernel.Columns("dot", 2, 4, [(vectors, ids, batch_rows)])
        found = hits_of(columns.search(0, np.ones(2, np.float32), 3, None))
        assert sorted(row for _, row, _ in found) == [0, 1, 2]


def test_chosen_rows_may_stand_more_than_once() -> None:
    columns = kernel.Columns("dot", 1, 4, [(np.arange(5, dtype=np.float32)[:, None], (), 1)])
    scores = np.empty(4)
    columns.score(0, np.full(1, 2, np.float32), np.array([4, 0, 4, 1]), scores)
    assert scores.tolist() == [8, 0, 8, 2]
