"""AIDRE, draft-batum-aidre-00: pages and cursors, new generations, damage (18.2, and what the draft leaves open)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from aidre.api.retrieval.cursor import LIFETIME_SECONDS
from tests.support.clients import COSINE, TEXT, Client, a_document, delete, fill, serving
from tests.support.discovery import ids, refused

ALL = {"query": "alpha"}


def next_cursor(response: Any) -> str:
    assert response.status_code == 200, response.text
    cursor: str = response.json()["meta"]["next_cursor"]
    return cursor


def crawl(client: Client, body: dict[str, Any]) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    while True:
        response = client.search(body)
        found += ids(response)
        cursor = response.json()["meta"].get("next_cursor")
        if cursor is None:
            return found
        body = {**body, "cursor": cursor}


@pytest.mark.parametrize("size", [1, 3, 7, 20])
@pytest.mark.parametrize(
    "body",
    [
        {"query": "alpha beta"},
        {"query": "alpha beta", "filter": {"even": True}},
        {"query_vector": [1, 2, -1, 0.5], "embedding_space": COSINE.id, "filter": {"n": {"lt": 21}}},
    ],
)
def test_18_2_pages_have_no_overlap_and_no_gap(client: Client, body: dict[str, Any], size: int) -> None:
    everything = crawl(client, {**body, "top_k": 20})
    assert len(set(everything)) == len(everything) > 20 - 1
    assert crawl(client, {**body, "top_k": size}) == everything


def test_18_2_the_last_page_has_no_cursor(client: Client) -> None:
    body = {**ALL, "filter": {"n": {"lt": 14}}, "top_k": 7}
    second = client.search({**body, "cursor": next_cursor(client.search(body))})
    assert len(ids(second)) == 7
    assert "next_cursor" not in second.json()["meta"]


def test_18_2_top_k_and_return_may_change_between_pages(client: Client) -> None:
    cursor = next_cursor(client.search({**ALL, "top_k": 3}))
    second = client.search({**ALL, "cursor": cursor, "top_k": 5, "return": {"text": True}})
    assert ids(second) == ids(client.search({**ALL, "top_k": 8}))[3:]


@pytest.mark.parametrize(
    "other",
    [
        {"query": "beta"},
        {"query": "alpha", "filter": {"even": True}},
        {"query": "alpha", "collection": "textless"},
        {"query_vector": [1, 0, 0, 0], "embedding_space": COSINE.id},
    ],
)
def test_18_2_a_cursor_of_another_search_is_400(client: Client, other: dict[str, Any]) -> None:
    cursor = next_cursor(client.search({**ALL, "top_k": 3}))
    assert client.search({**ALL, "cursor": cursor}).status_code == 200
    refused(client.search({**other, "cursor": cursor}), 400, "invalid_request")


def test_18_2_a_tampered_cursor_is_400(client: Client) -> None:
    cursor = next_cursor(client.search({**ALL, "top_k": 3}))
    for changed in (cursor[:-1], "B" + cursor[1:], cursor + "A", "", "eyJvZmZzZXQiOjEwMH0"):
        refused(client.search({**ALL, "cursor": changed}), 400, "invalid_request")


def test_18_2_an_equal_filter_may_be_written_in_another_order(client: Client) -> None:
    body = {"query": "alpha", "top_k": 3}
    cursor = next_cursor(client.search({**body, "filter": {"n": {"gte": 1, "lt": 20}}}))
    assert ids(client.search({**body, "filter": {"n": {"lt": 20, "gte": 1}}, "cursor": cursor}))


def test_18_2_pages_end_at_a_thousand_results(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document(f"d{n}", f"alpha word{n}") for n in range(1_050)])
    with serving(tmp_path) as client:
        assert len(set(crawl(client, {**ALL, "top_k": 99}))) == 1_000


@pytest.mark.needs("generations")
def test_18_2_a_cursor_keeps_reading_its_generation(store: Path) -> None:
    with serving(store) as client:
        before = crawl(client, {**ALL, "top_k": 5})
        cursor = next_cursor(client.search({**ALL, "top_k": 5}))
        fill(store, "docs", [a_document(f"new_{n}", "alpha") for n in range(20)])
        client.refresh()
        assert ids(client.search({**ALL, "top_k": 5}))[0].startswith("new_")
        assert crawl(client, {**ALL, "top_k": 5, "cursor": cursor}) == before[5:]


@pytest.mark.needs("generations")
def test_18_2_deletions_of_today_apply_to_old_cursors(store: Path) -> None:
    with serving(store) as client:
        before = crawl(client, {**ALL, "top_k": 5})
        cursor = next_cursor(client.search({**ALL, "top_k": 5}))
        gone = [before[6].removesuffix("#chunk_1"), before[9].removesuffix("#chunk_1")]
        delete(store, "docs", gone)
        client.refresh()
        after = [id for id in before[5:] if id.removesuffix("#chunk_1") not in gone]
        second = client.search({**ALL, "top_k": 4, "cursor": cursor})
        assert ids(second) == after[:4]
        assert crawl(client, {**ALL, "top_k": 4, "cursor": cursor}) == after


def test_18_2_access_of_today_applies_to_old_cursors(store: Path) -> None:
    with serving(store) as client:
        cursor = next_cursor(client.search({**ALL, "top_k": 5}))
        fill(store, "docs", [a_document("new", "alpha")], visibility="private")
        client.refresh()
        body = {**ALL, "collection": "docs", "cursor": cursor}
        assert refused(client.search(body), 404, "not_found") == {"collection": "docs"}


@pytest.mark.needs("generations")
def test_18_2_a_cursor_of_a_newer_generation_is_understood_by_every_worker(store: Path) -> None:
    with serving(store) as one, serving(store) as other:
        fill(store, "docs", [a_document(f"new_{n}", "alpha") for n in range(20)])
        one.refresh()
        assert not any(id.startswith("new_") for id in ids(other.search(ALL)))
        cursor = next_cursor(one.search({**ALL, "top_k": 5}))
        second = other.search({**ALL, "top_k": 5, "cursor": cursor})
        assert ids(second) == ids(one.search({**ALL, "top_k": 5, "cursor": cursor}))
        assert ids(second)[0].startswith("new_")


def test_18_2_an_expired_cursor_is_a_conflict(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(store) as client:
        cursor = next_cursor(client.search({**ALL, "top_k": 5}))
        later = time.time() + LIFETIME_SECONDS + 2
        monkeypatch.setattr("aidre.api.retrieval.cursor.time.time", lambda: later)
        refused(client.search({**ALL, "cursor": cursor}), 409, "conflict")


@pytest.mark.needs("segments")
def test_18_2_a_cursor_of_a_collection_that_was_made_anew_is_a_conflict(store: Path, tmp_path: Path) -> None:
    with serving(store) as client:
        cursor = next_cursor(client.search({**ALL, "top_k": 5}))
    (store / "docs").rename(store / ".former")
    fill(store, "docs", [a_document(f"new_{n}", "alpha") for n in range(20)])
    with serving(store) as client:
        refused(client.search({**ALL, "cursor": cursor}), 409, "conflict")


def test_9_a_new_generation_changes_the_etag_and_the_text(store: Path) -> None:
    with serving(store) as client:
        first = client.get("/chunks/doc_1%23chunk_1")
        listed = client.get("/collections")
        changed = a_document("doc_1", "changed words", updated_at="2026-05-01T00:00:00Z")
        fill(store, "docs", [changed, a_document("doc_99", "added")])
        client.refresh()
        known = {"if-none-match": first.headers["etag"]}
        second = client.get("/chunks/doc_1%23chunk_1", known)
        assert (second.status_code, second.json()["text"]) == (200, "changed words")
        assert second.headers["etag"] != first.headers["etag"]
        assert second.headers["last-modified"] == "Fri, 01 May 2026 00:00:00 GMT"
        same = client.get("/chunks/doc_2%23chunk_1")
        assert client.get("/chunks/doc_2%23chunk_1", {"if-none-match": same.headers["etag"]}).status_code == 304
        assert client.get("/collections").headers["etag"] != listed.headers["etag"]


def test_8_an_id_in_several_collections_is_a_conflict(store: Path) -> None:
    fill(store, "more", [a_document("doc_1", "alpha elsewhere")])
    with serving(store) as client:
        details = refused(client.get("/chunks/doc_1%23chunk_1"), 409, "conflict")
        assert details == {"collections": ["docs", "more"]}
        assert client.get("/chunks/doc_1%23chunk_1?collection=more").json()["text"] == "alpha elsewhere"
        assert client.get("/chunks/doc_2%23chunk_1").json()["collection"] == "docs"


def test_6_without_a_collection_the_only_one_is_searched(store: Path) -> None:
    with serving(store) as client:
        assert client.search(ALL).json()["collection"] == "docs"
        fill(store, "more", [a_document("x", "alpha")])
        client.refresh()
        assert refused(client.search(ALL), 400, "invalid_request") == {"missing": ["collection"]}
    with serving(store, '[server]\ndefault_collection = "more"') as client:
        assert client.search(ALL).json()["collection"] == "more"
    with serving(store, '[collections.more]\nvisibility = "private"') as client:
        assert client.search(ALL).json()["collection"] == "docs"


@pytest.mark.needs("segments")
def test_15_4_a_damaged_collection_is_503_and_never_stops_the_others(store: Path) -> None:
    fill(store, "broken", [a_document("x", "alpha")])
    for manifest in (store / "broken" / "manifests").iterdir():
        manifest.unlink()
    with serving(store) as client:
        response = client.search({**ALL, "collection": "broken"})
        assert refused(response, 503, "service_unavailable") == {"collection": "broken"}
        assert int(response.headers["retry-after"]) > 0
        assert ids(client.search({**ALL, "collection": "docs"}))
        assert client.get("/chunks/doc_1%23chunk_1").status_code == 200
        refused(client.get("/chunks/nothing"), 503, "service_unavailable")
        assert [item["name"] for item in client.get("/collections").json()["collections"]] == ["docs"]
        assert client.get("/readyz").json() == {"status": "degraded", "damaged": 1}
        assert client.get("/healthz").status_code == 200


@pytest.mark.needs("segments")
def test_15_4_a_server_with_nothing_to_serve_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert client.get("/readyz").status_code == 200
    with serving(tmp_path / "missing") as client:
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200


@pytest.mark.needs("segments")
def test_15_4_a_generation_that_cannot_be_opened_leaves_the_former_one_serving(store: Path) -> None:
    with serving(store) as client:
        before = ids(client.search(ALL))
        current = (store / "docs" / "CURRENT").read_text()
        (store / "docs" / "next").write_text(f"{int(current) + 1:0{len(current)}d}")
        (store / "docs" / "next").replace(store / "docs" / "CURRENT")
        client.refresh()
        assert ids(client.search(ALL)) == before
        assert client.get("/readyz").json() == {"status": "degraded", "damaged": 1}


@pytest.mark.needs("lexical")
def test_5_2_a_model_that_cannot_load_leaves_words_and_vectors(tmp_path: Path, monkeypatch: Any) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha")], (TEXT, COSINE))
    with serving(tmp_path) as client:
        queries = client.app.state.retrieval.embedders
        monkeypatch.setattr(queries, "_load", _no_model)
        by_words = client.search(ALL).json()
        assert by_words["meta"]["mode"] == "lexical"
        assert ids(client.search({"query_vector": [1, 0, 0, 0], "embedding_space": COSINE.id}))
        for mode in ("dense", "hybrid"):
            response = client.search({**ALL, "mode": mode})
            refused(response, 503, "service_unavailable")
            assert "query_vector" in response.json()["message"]


def _no_model(space: Any) -> Any:
    from aidre.engine.errors import ModelUnavailable

    raise ModelUnavailable("the model lies in /secret/place and is broken")
