"""AIDRE 5: the extension member `mode`, and what is searched without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import FUSED_RANKS, EmbeddingSpace, Fusion
from tests.support.clients import COSINE, DOT, TEXT, Client, a_document, fill, fill_source, serving
from tests.support.discovery import ids, refused
from tests.support.fused import Ranking, fused, with_feedback

_SECOND = EmbeddingSpace("aidre:hashing:32:cosine:v1", 32, "cosine", True, "aidre", "hashing", "hashing;v1")
_FUSION = Fusion()
_NEAR = 1e-3
"""The vectors of half precision that feedback adds up are not quite of unit length."""
_TEXTS = {"a": "red apple pie", "b": "green apple tree", "c": "the tree of liberty", "d": "sailing boats at sea"}


def _fill(store: Path, *spaces: EmbeddingSpace) -> None:
    fill(store, "docs", [a_document(name, text) for name, text in _TEXTS.items()], spaces)


def _snapshot(path: Path, *spaces: EmbeddingSpace) -> Snapshot:
    """The same documents in local segments, whatever engine is tested."""
    store = Store(path / "in segments")
    fill_source(store, "docs", [a_document(name, text) for name, text in _TEXTS.items()], spaces)
    return store.open("docs")


def _scores(client: Client, **body: object) -> dict[str, float]:
    response = client.search({"query": "apple tree", "top_k": 10, **body})
    assert response.status_code == 200, response.text
    return {hit["id"][0]: hit["score"] for hit in response.json()["results"]}


def _fused(snapshot: Snapshot, space: EmbeddingSpace, fusion: Fusion = _FUSION) -> Ranking:
    (vector,) = HashingEmbedder(space).embed_queries(["apple tree"])
    return fused(snapshot, fusion, vector, "apple tree", space.id)


def _named(ranked: Ranking) -> dict[str, float]:
    return {chunk[0]: score for chunk, score in ranked}


@pytest.mark.needs("hybrid")
def test_5_hybrid_is_the_default_and_fuses_both_scores(tmp_path: Path) -> None:
    _fill(tmp_path, TEXT)
    with serving(tmp_path) as client:
        assert set(_scores(client, mode="dense")) == set("abcd")
        assert set(_scores(client, mode="lexical")) == set("abc")
        snapshot = _snapshot(tmp_path, TEXT)
        expected = with_feedback(snapshot, Fusion(), _fused(snapshot, TEXT), TEXT.id)
        assert _scores(client) == _scores(client, mode="hybrid") == pytest.approx(_named(expected), abs=_NEAR)
        meta = client.search({"query": "apple"}).json()["meta"]
        assert (meta["mode"], meta["embedding_space"]) == ("hybrid", TEXT.id)
        assert meta["reranked"] == "feedback"
        for mode in ("dense", "lexical"):
            assert "reranked" not in client.search({"query": "apple", "mode": mode}).json()["meta"]


@pytest.mark.needs("hybrid")
def test_5_the_weights_are_those_of_the_configuration(tmp_path: Path) -> None:
    _fill(tmp_path, TEXT)
    with serving(tmp_path, "[collections.docs]\nfusion = { a = 1.0, c = 3.0 }") as client:
        snapshot = _snapshot(tmp_path, TEXT)
        fusion = Fusion(1.0, 3.0)
        expected = with_feedback(snapshot, fusion, _fused(snapshot, TEXT, fusion), TEXT.id)
        assert _scores(client) == pytest.approx(_named(expected), abs=_NEAR)
    with serving(tmp_path, "[collections.docs]\nfusion = { a = 0, c = 3.0 }") as client:
        expected = _fused(snapshot, TEXT, Fusion(0.0, 3.0))
        assert _scores(client) == pytest.approx(_named(expected), abs=_NEAR)
        assert "reranked" not in client.search({"query": "apple"}).json()["meta"]


@pytest.mark.needs("rescore")
def test_5_a_second_space_scores_the_best_again(tmp_path: Path) -> None:
    _fill(tmp_path, TEXT, _SECOND)
    with serving(tmp_path, f'[collections.docs]\nfusion = {{ rescore = "{_SECOND.id}" }}') as client:
        second = _scores(client, mode="dense", embedding_space=_SECOND.id)
        expected = _fused(Store(tmp_path).open("docs"), _SECOND)
        assert _scores(client) == pytest.approx(_named(expected), abs=_NEAR)
        assert client.search({"query": "apple"}).json()["meta"]["reranked"] == "rescore"
        assert _scores(client, mode="dense") != second


@pytest.mark.needs("rescore")
def test_5_ranks_are_fused_where_the_operator_says_so_and_no_second_space_scores_then(tmp_path: Path) -> None:
    _fill(tmp_path, TEXT, _SECOND)
    with serving(tmp_path, f'[collections.docs]\nfusion = {{ method = "rrf", rescore = "{_SECOND.id}" }}') as client:
        meta = client.search({"query": "apple"}).json()["meta"]
        assert meta["fusion"] == {"method": "rrf", "ranks": FUSED_RANKS}
        assert "reranked" not in meta
        assert _scores(client) == _scores(client, fusion="rrf") != _scores(client, fusion="score")
        assert "fusion" not in client.search({"query": "apple", "mode": "dense"}).json()["meta"]


def test_5_a_second_model_that_cannot_load_leaves_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(tmp_path, TEXT, _SECOND)
    with serving(tmp_path) as plain:
        first = _scores(plain)
    with serving(tmp_path, f'[collections.docs]\nfusion = {{ rescore = "{_SECOND.id}" }}') as client:
        queries = client.app.state.retrieval.embedders
        load = queries._load

        def without_the_second(space: EmbeddingSpace) -> object:
            if space.id == _SECOND.id:
                raise ModelUnavailable("its weights are gone")
            return load(space)

        monkeypatch.setattr(queries, "_load", without_the_second)
        assert _scores(client) == first


def test_5_a_second_space_that_is_not_there_yet_changes_nothing(tmp_path: Path) -> None:
    _fill(tmp_path, TEXT)
    with serving(tmp_path) as plain, serving(tmp_path, '[collections.docs]\nfusion = { rescore = "x" }') as client:
        assert _scores(client) == _scores(plain)


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_5_a_vector_has_no_words(tmp_path: Path, mode: str) -> None:
    _fill(tmp_path, COSINE)
    with serving(tmp_path) as client:
        body = {"query_vector": [1, 0, 0, 0], "embedding_space": COSINE.id, "mode": mode}
        assert refused(client.search(body), 400, "invalid_request") == {"member": "mode"}


def test_5_vectors_of_any_length_are_not_fused(tmp_path: Path) -> None:
    space = EmbeddingSpace("aidre:hashing:64:dot:v1", 64, "dot", False, "aidre", "hashing", "hashing;v1")
    _fill(tmp_path, space)
    with serving(tmp_path) as client:
        assert client.search({"query": "apple"}).json()["meta"]["mode"] == "dense"
        refused(client.search({"query": "apple", "mode": "hybrid"}), 422, "invalid_request")


@pytest.mark.needs("lexical")
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_18_pages_of_every_mode_hold_every_match_once(tmp_path: Path, mode: str) -> None:
    documents = [a_document(f"d{number:02d}", f"apple {'tree ' * (number % 5)}{number}") for number in range(30)]
    fill(tmp_path, "docs", [*documents, a_document("other", "sea")], (TEXT, DOT))
    with serving(tmp_path) as client:
        body = {"query": "apple tree", "mode": mode}
        whole = ids(client.search({**body, "top_k": 100}))
        assert len(whole) == (30 if mode == "lexical" else 31)
        found, cursor = [], None
        while True:
            page = client.search({**body, "top_k": 7, **({"cursor": cursor} if cursor else {})})
            found += ids(page)
            cursor = page.json()["meta"].get("next_cursor")
            if cursor is None:
                break
        assert found == whole


@pytest.mark.needs("lexical")
def test_18_a_cursor_is_of_one_mode(tmp_path: Path) -> None:
    _fill(tmp_path, TEXT)
    with serving(tmp_path) as client:
        cursor = client.search({"query": "apple tree", "top_k": 1}).json()["meta"]["next_cursor"]
        refused(client.search({"query": "apple tree", "mode": "dense", "cursor": cursor}), 400, "invalid_request")


def test_a_field_that_no_document_has_matches_nothing_and_is_named(tmp_path: Path) -> None:
    _fill(tmp_path, TEXT)
    with serving(tmp_path) as client:
        body = client.search({"query": "apple", "filter": {"or": [{"colour": "red"}, {"document_id": "a"}]}}).json()
        assert [hit["id"] for hit in body["results"]] == ["a#chunk_1"]
        assert body["meta"]["ignored"] == ["colour"]
        absent = client.search({"query": "apple", "filter": {"colour": {"exists": False}}}).json()
        assert len(absent["results"]) == 4
        assert "ignored" not in client.search({"query": "apple", "filter": {"document_id": "a"}}).json()["meta"]


def test_a_filter_knows_the_members_of_a_row_and_refuses_what_is_searched(tmp_path: Path) -> None:
    _fill(tmp_path, TEXT)
    with serving(tmp_path) as client:
        found = client.search({"query": "apple", "filter": {"id": {"nin": ["b", "c", "d"]}}}).json()["results"]
        assert [hit["id"] for hit in found] == ["a#chunk_1"]
        assert not client.search({"query": "apple", "filter": {"title": "none"}}).json()["results"]
        for name in ("text", "section"):
            answer = client.search({"query": "apple", "filter": {"not": {name: "a"}}})
            details = refused(answer, 400, "invalid_request")
            assert details == {"member": "filter", "code": "invalid_filter"}
            assert f"filter.{name} " in answer.json()["message"]
