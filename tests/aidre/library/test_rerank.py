"""Weights of a hybrid search, and what orders its best hits anew: a function, a second space, a cross-encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aidre
from aidre_client.values import to_weight
from tests.aidre.library.conftest import letters


@pytest.fixture
def rows(docs: aidre.Collection) -> aidre.Collection:
    docs.add([{"id": f"{n:02}", "text": f"banana {'e' * n} number {n}"} for n in range(80)])
    return docs


def by_length(text: str, texts: list[str]) -> list[float]:
    return [len(one) for one in texts]


def ids(hits: aidre.Hits) -> list[str]:
    return [hit.document_id for hit in hits]


def test_weights_are_those_of_vectors_and_words(docs: aidre.Collection) -> None:
    docs.add([{"id": "words", "text": "zebra crossing"}, {"id": "near", "text": "aaaaaa aaa"}])
    for words, best in (({"lexical": 1}, "words"), ((0, 5), "words"), ({"dense": 1}, "near"), ([1, 0], "near")):
        assert docs.search("aaaaa aaaa zebra", weights=words, k=1)[0].document_id == best
    weighed = [docs.search("zebra", weights={"dense": one, "lexical": 1 - one})[0].score for one in (0.2, 0.8)]
    assert weighed[0] != weighed[1]
    equal = docs.search("zebra", weights={"dense": 2, "lexical": 2})
    assert [hit.score for hit in equal] == [hit.score for hit in docs.search("zebra")]


@pytest.mark.parametrize(
    "weights", [0.5, "dense", {"vector": 1}, (1,), (0, 0), {"dense": -1}, {"dense": float("nan")}, {}]
)
def test_weights_that_are_none_are_refused(docs: aidre.Collection, weights: Any) -> None:
    with pytest.raises(aidre.InvalidInput, match="weights="):
        docs.search("zebra", weights=weights)
    assert to_weight(None) is None


def test_weights_of_a_search_that_is_not_hybrid_are_refused(rows: aidre.Collection) -> None:
    for asked in ({"mode": "lexical"}, {"mode": "dense"}, {"vector": [1, 0, 0]}):
        text = None if "vector" in asked else "banana"
        with pytest.raises(aidre.InvalidInput, match="hybrid"):
            rows.search(text, weights=(1, 1), **asked)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_a_function_orders_the_best_hits_and_its_numbers_are_the_scores(rows: aidre.Collection, mode: Any) -> None:
    best = rows.search("banana", k=50, mode=mode)
    longest = sorted(best, key=lambda hit: (-len(hit.text), hit.id))
    found = rows.search("banana", k=5, mode=mode, rerank=by_length)
    assert ids(found) == [hit.document_id for hit in longest[:5]]
    assert [hit.score for hit in found] == [len(hit.text) for hit in found]
    relevance = {hit.id: one for hit, one in zip(best, best.relevance or [], strict=True)}
    assert found.relevance == [relevance[hit.id] for hit in found]


def test_pages_of_reranked_hits_have_each_hit_once(rows: aidre.Collection) -> None:
    for group in ("chunk", "document"):
        pages = [
            rows.search("banana", k=9, offset=offset, rerank=by_length, group=group, collapse=False)
            for offset in range(0, 90, 9)
        ]
        found = [one for page in pages for one in ids(page)]
        assert sorted(found) == [f"{n:02}" for n in range(80)]


def test_what_predicts_by_pairs_is_a_reranker(rows: aidre.Collection) -> None:
    class Model:
        def predict(self, pairs: list[tuple[str, str]]) -> Any:
            return np.array([[len(text) - len(query)] for query, text in pairs])

    assert ids(rows.search("banana", rerank=Model())) == ids(rows.search("banana", rerank=by_length))


def test_a_second_space_orders_the_best_hits(db: aidre.Database) -> None:
    second = aidre.EmbeddingSpace("second", 16, "cosine", model="hashing", provider=None)
    docs = db.collection("two", space=[aidre.EmbeddingSpace("mine", 2, "cosine"), second])
    docs.add(
        [{"id": "a", "text": "soup of lentils"}, {"id": "b", "text": "a bus"}], vectors={"mine": [[1, 0], [0.9, 0.1]]}
    )
    assert ids(docs.search("a bus", vector=[1, 0], space="mine", rerank="second")) == ["b", "a"]
    with pytest.raises(aidre.InvalidInput, match="without a model"):
        docs.search("a bus", rerank="mine")


@pytest.mark.parametrize(
    ("rerank", "words"),
    [
        (3, "a function"),
        ("nowhere", "not a space of the collection"),
        (lambda text, texts: texts, "finite number"),
        (lambda text, texts: [1.0], "finite number"),
        (lambda text, texts: [float("nan")] * len(texts), "finite number"),
    ],
)
def test_a_reranker_that_is_none_is_refused(rows: aidre.Collection, rerank: Any, words: str) -> None:
    with pytest.raises(aidre.InvalidInput, match=words):
        rows.search("banana", rerank=rerank)


def test_a_reranker_needs_a_text_and_its_errors_come_through(rows: aidre.Collection, tmp_path: Path) -> None:
    with pytest.raises(aidre.InvalidInput, match="needs a text"):
        rows.search(vector=letters(["x"])[0], rerank=by_length)
    with pytest.raises(ZeroDivisionError):
        rows.search("banana", rerank=lambda text, texts: 1 / 0)
    assert rows.search("banana", rerank=by_length, filter={"none": 1}) == []


@pytest.mark.slow
def test_a_folder_of_a_cross_encoder_orders_the_best_hits(rows: aidre.Collection, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    encoders = pytest.importorskip("sentence_transformers")
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "banana", "number", "e", "##e"]), "utf-8"
    )
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=1
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    best = rows.search("banana", k=50)
    scores = encoders.CrossEncoder(str(folder)).predict([("banana", hit.text) for hit in best])
    expected = sorted(zip(scores.tolist(), best, strict=True), key=lambda pair: (-pair[0], pair[1].id))
    found = rows.search("banana", k=5, rerank=folder)
    assert [hit.score for hit in found] == pytest.approx([score for score, _ in expected[:5]], abs=1e-6)
    with pytest.raises(aidre.ModelUnavailable, match="not a cross-encoder"):
        rows.search("banana", rerank=str(tmp_path))
