"""Real vectors, and the mixes of them that follow."""

from __future__ import annotations

import pytest

from benchmarks import real


def test_mixes_follow_the_real_rows_and_do_not_depend_on_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    monkeypatch.setattr(real, "BLOCK", 4)
    base = np.eye(6, 8, dtype=np.float32)
    few, many = (np.concatenate(list(real.blocks(rows, base))) for rows in (10, 17))
    assert len(many) == 17 and np.array_equal(many[:6], base)
    assert np.allclose(np.linalg.norm(many, axis=1), 1) and np.array_equal(few[6:10], many[6:10])
