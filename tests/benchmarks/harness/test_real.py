"""Real vectors, and the mixes of them that follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding.embedder import load_embedder
from benchmarks.harness import real
from benchmarks.harness.passages import Material
from tests.benchmarks.judged_sets import judged
from tests.support.clients import TEXT


def test_mixes_follow_the_real_rows_and_do_not_depend_on_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "BLOCK", 4)
    base = np.eye(6, 8, dtype=np.float32)
    few, many = (np.concatenate(list(real.blocks(rows, base))) for rows in (10, 17))
    assert len(many) == 17 and np.array_equal(many[:6], base)
    assert np.allclose(np.linalg.norm(many, axis=1), 1) and np.array_equal(few[6:10], many[6:10])


def test_a_set_is_used_again_where_it_suffices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [[f"{word} {number}" for number in range(count)] for word, count in (("row", 20), ("new", 4), ("why", 4))]
    found = Material(*texts)
    monkeypatch.setattr(real, "material", lambda rows, queries, sets: found)
    embedder = load_embedder(TEXT)
    real.make(tmp_path, 20, 4, embedder)
    assert np.array_equal(real.load(tmp_path / real.VECTORS, 20), embedder.embed_documents(found.passages))
    opened = real.opened(tmp_path, 20, 4)
    assert np.array_equal(opened.queries("ind"), embedder.embed_documents(found.unseen))
    assert np.array_equal(opened.queries("ood"), embedder.embed_queries(found.questions))
    assert real.sufficient(tmp_path, 20, 4)
    assert not real.sufficient(tmp_path, 21, 4)
    assert not real.sufficient(tmp_path, 20, 5)


def test_other_test_collections_have_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "bench_cache", lambda: tmp_path / "cache")
    one = judged(tmp_path / "one", ['{"id": "1", "text": "a"}'], ['{"id": "1", "text": "b"}'], ["1\t1\t1"])
    two = judged(tmp_path / "two", ['{"id": "1", "text": "a, longer"}'], ['{"id": "1", "text": "b"}'], ["1\t1\t1"])
    monkeypatch.setenv(real.SETS, f"{one}:{two}")
    assert real.sets_given() == [one, two]
    assert len({real.folder_of(sets) for sets in ([], [one], [two], [one, two])}) == 4
    monkeypatch.setenv(real.SETS, str(tmp_path / "none"))
    with pytest.raises(ValueError, match="holds no set"):
        real.sets_given()
