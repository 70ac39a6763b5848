"""Real vectors, and the mixes of them that follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding.embedder import load_embedder
from benchmarks import real
from benchmarks.passages import Material
from tests.support.clients import TEXT


def test_mixes_follow_the_real_rows_and_do_not_depend_on_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "BLOCK", 4)
    base = np.eye(6, 8, dtype=np.float32)
    few, many = (np.concatenate(list(real.blocks(rows, base))) for rows in (10, 17))
    assert len(many) == 17 and np.array_equal(many[:6], base)
    assert np.allclose(np.linalg.norm(many, axis=1), 1) and np.array_equal(few[6:10], many[6:10])


def test_a_set_is_used_again_where_it_suffices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Material([f"passage {number}" for number in range(20)], [f"question {number}" for number in range(4)])
    monkeypatch.setattr(real, "material", lambda rows, questions: found)
    embedder = load_embedder(TEXT)
    real.make(tmp_path, 20, 4, embedder)
    assert np.array_equal(real.load(tmp_path / real.VECTORS, 20), embedder.embed_documents(found.passages))
    assert real.sufficient(tmp_path, 20, 4)
    assert not real.sufficient(tmp_path, 21, 4)
    assert not real.sufficient(tmp_path, 20, 5)
