"""Rows that are looked up in a posting list."""

from __future__ import annotations

import numpy as np

from aidre.engine.search.bm25 import _lookup


def test_rows_are_looked_up_where_they_occur() -> None:
    rows = np.array([2, 3, 5, 9], np.uint32)
    positions, present = _lookup(rows, np.array([0, 2, 4, 5, 9, 10], np.uint32))
    assert positions.tolist() == [0, 2, 3] and present.tolist() == [1, 3, 4]
    assert [len(found) for found in _lookup(rows, np.empty(0, np.uint32))] == [0, 0]
