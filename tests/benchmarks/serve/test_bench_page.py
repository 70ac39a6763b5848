"""The benchmark of the search page: its store can be searched, and its questions are not passages."""

from __future__ import annotations

from pathlib import Path

from aidre.engine.collection.store import Store
from aidre.engine.model import Query
from benchmarks.serve.bench_page import COLLECTION, fill, texts


def test_a_store_is_made_once_and_can_be_searched(tmp_path: Path) -> None:
    passages, questions = texts(30)
    assert len(passages) == 30 and len(questions) >= 100
    assert not set(passages) & set(questions)
    assert texts(30) == (passages, questions)
    for _ in range(2):
        fill(tmp_path / "store", passages)
    snapshot = Store(tmp_path / "store").open(COLLECTION)
    assert snapshot.documents == 30 and snapshot.generation == 1
    best = snapshot.search(Query(None, None, 1, text=passages[7], mode="lexical"))[0]
    assert best.text == passages[7]
    assert {one for one in snapshot.fields() if one} >= {"kind", "version"}
