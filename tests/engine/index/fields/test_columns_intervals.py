"""Columns and intervals: every kind and layout of column has the rows that plain comparisons of its values have."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from aidre.engine.index.fields.columns import Column, Kind, build_column
from aidre.engine.storage import INT_MAX, INT_MIN, build_dictionary
from aidre.engine.storage.dictionary import binary_array

Pairs = Sequence[tuple[int, float]]
LETTERS = [chr(97 + number) for number in range(20)]
INTERVALS: list[list[tuple[float, float]]] = [
    [],
    [(3, 3)],
    [(0, 0)],
    [(19, 19)],
    [(0, 5)],
    [(2, 7)],
    [(1, 18)],
    [(18, 19)],
    [(5, 19)],
    [(0, 19)],
    [(0, 2), (6, 6), (11, 19)],
    [(number, number) for number in range(0, 20, 2)],
]


def column_of(kind: Kind, pairs: Pairs, size: int) -> Column:
    rows, values = np.array([row for row, _ in pairs], np.int32), np.array([value for _, value in pairs])
    if kind == "string":
        dictionary, codes = build_dictionary(binary_array([LETTERS[int(value)] for _, value in pairs]))
        return build_column(kind, size, rows, codes, dictionary)
    return build_column(kind, size, rows, values)


def layouts() -> dict[str, tuple[Pairs, int]]:
    chance = np.random.default_rng(0)
    values = chance.permutation(np.repeat(np.arange(20), 3)).tolist()
    return {
        "dense": (list(enumerate(values)), 60),
        "with gaps": ([(row * 3 // 2, value) for row, value in enumerate(values)], 90),
        "sorted": ([(row * 5, value) for row, value in enumerate(values)], 300),
        "many-valued": ([(row // 2, value) for row, value in enumerate(values)], 30),
    }


@pytest.mark.parametrize("kind", ["string", "int", "date", "float"])
@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("intervals", INTERVALS, ids=str)
def test_rows_with_a_value_in_an_interval_are_found(
    kind: Kind, layout: str, intervals: list[tuple[float, float]]
) -> None:
    pairs, size = layouts()[layout]
    column = column_of(kind, pairs, size)
    assert (column.rows is None) == (layout in {"dense", "with gaps"})
    mask = column.mask_within(intervals)
    expected = {row for row, value in pairs if any(low <= value <= high for low, high in intervals)}
    assert mask.dtype == np.bool_ and len(mask) == size
    assert set(np.flatnonzero(mask).tolist()) == expected


@pytest.mark.parametrize("kind", ["int", "date", "float"])
def test_the_lowest_and_the_highest_values_are_values_and_a_missing_one_is_none(kind: Kind) -> None:
    bottom, top = (-math.inf, math.inf) if kind == "float" else (INT_MIN, INT_MAX)
    for size, missing in ((4, set[int]()), (5, {4})):
        rows = np.arange(4, dtype=np.int32)
        values = np.array([bottom, -1, 1, top], np.float64 if kind == "float" else np.int64)
        column = build_column(kind, size, rows, values)
        assert set(np.flatnonzero(~column.present()).tolist()) == missing
        for low, high, expected in (
            (bottom, top, {0, 1, 2, 3}),
            (bottom, 0, {0, 1}),
            (0, top, {2, 3}),
            (-1, 1, {1, 2}),
            (bottom, bottom, {0}),
            (top, top, {3}),
        ):
            assert set(np.flatnonzero(column.mask_within([(low, high)])).tolist()) == expected


@pytest.mark.parametrize("size", [4, 100])
def test_between_two_numbers_lie_others_in_a_column_of_floats(size: int) -> None:
    rows = np.arange(4, dtype=np.int32)
    column = build_column("float", size, rows, np.array([2.0, 2.5, 3.0, 3.5]))
    assert np.flatnonzero(column.mask_within([(2, 2), (3, 3)])).tolist() == [0, 2]
