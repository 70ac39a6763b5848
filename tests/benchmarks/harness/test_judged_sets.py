"""The metrics of retrieval quality, and the reading of judged sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness.judged_sets import Topic, ndcg, read_set, recall, sets_in
from tests.benchmarks.judged_sets import judged


def test_ndcg_discounts_by_place_and_normalises_by_the_best_order() -> None:
    grades = {"a": 3.0, "b": 1.0}
    assert ndcg(["a", "b", "x"], grades) == 1.0
    assert ndcg(["b", "a"], grades) == pytest.approx((1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)))
    assert ndcg(["x", "a"], {"a": 1.0}) == pytest.approx(1 / np.log2(3))
    assert ndcg([*map(str, range(10)), "a"], {"a": 1.0}) == 0.0
    assert ndcg([], grades) == 0.0


def test_a_document_that_is_ranked_twice_counts_once() -> None:
    assert ndcg(["a", "a", "b"], {"a": 1.0, "b": 1.0}) == 1.0
    assert recall(["a", "a", "b"], {"a": 1.0, "b": 1.0, "c": 1.0}, 2) == pytest.approx(2 / 3)


def test_recall_looks_no_deeper_than_asked() -> None:
    assert recall(["x", "a"], {"a": 1.0}, 1) == 0.0
    assert recall(["x", "a"], {"a": 1.0}, 2) == 1.0


CORPUS = ['{"id": "d1", "title": "", "text": "one"}', '{"id": "d2", "title": "Two", "text": "two"}']
QUERIES = ['{"id": "q1", "text": "one?"}', '{"id": "q2", "text": "nothing?"}', '{"id": "q3", "text": "gone?"}']


def test_queries_without_a_relevant_document_are_left_out(tmp_path: Path) -> None:
    path = judged(tmp_path / "s", CORPUS, QUERIES, ["q1\td1\t2", "q1\td2\t0", "q2\td2\t0", "q3\td9\t1"])
    data = read_set(path)
    assert data.topics == (Topic("q1", "one?", {"d1": 2.0}),)
    assert (data.name, data.documents) == ("s", 2)


@pytest.mark.parametrize(
    ("corpus", "queries", "judgements", "named"),
    [
        (["{}"], QUERIES, ["q1\td1\t1"], "corpus.jsonl:1: not an object with id and text"),
        ([CORPUS[0], "{"], QUERIES, ["q1\td1\t1"], "corpus.jsonl:2: malformed JSON"),
        (CORPUS, ["[]"], ["q1\td1\t1"], "queries.jsonl:1: not an object"),
        (CORPUS, QUERIES, ["q1 d1 1"], "qrels.tsv:2: not query-id, corpus-id and score"),
        (CORPUS, QUERIES, ["q1\td1\tmuch"], "qrels.tsv:2: not query-id, corpus-id and score"),
        (CORPUS, QUERIES, ["q1\td9\t1"], "has no query with a relevant document"),
    ],
)
def test_a_bad_set_is_named(
    tmp_path: Path, corpus: list[str], queries: list[str], judgements: list[str], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        read_set(judged(tmp_path / "s", corpus, queries, judgements))


def test_a_path_is_a_set_or_a_folder_of_sets(tmp_path: Path) -> None:
    judgements = ["q1\td1\t1"]
    second = judged(tmp_path / "b", CORPUS, QUERIES, judgements)
    first = judged(tmp_path / "a", CORPUS, QUERIES, judgements)
    (tmp_path / "other").mkdir()
    assert sets_in(tmp_path) == [first, second]
    assert sets_in(first) == [first]
    with pytest.raises(ValueError, match="holds no set"):
        sets_in(tmp_path / "other")
    with pytest.raises(ValueError, match="holds no set"):
        sets_in(tmp_path / "missing")
