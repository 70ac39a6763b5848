"""The extension `group` of AIDRE's searches: results are documents, with more of their chunks as `passages`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.retrieve import MAX_PASSAGES
from tests.support.clients import TEXT, Client, delete, serving
from tests.support.discovery import DISCOVERY, refused
from tests.support.engines import CHOSEN, chosen_source
from tests.support.pieces import SHORT, fill_pieces, pieces
from tests.support.stores import record

HERON = {"query": "heron", "group": "document"}
MODES = ("hybrid", "dense", "lexical") if CHOSEN == "local" else ("dense",)


@pytest.fixture(scope="module")
def ponds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("ponds")
    fill_pieces(chosen_source(store), "ponds", pieces())
    with serving(store) as client:
        yield client


def answered(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    response = client.search(body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def document_of(chunk: dict[str, Any]) -> str:
    return str(chunk["id"]).partition("#chunk_")[0]


def crawl(client: Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of all pages."""
    found: list[dict[str, Any]] = []
    while True:
        answer = answered(client, body)
        found += answer["results"]
        if "next_cursor" not in answer["meta"]:
            return found
        body = {**body, "cursor": answer["meta"]["next_cursor"]}


def test_discovery_advertises_it(ponds: Client) -> None:
    group = ponds.get(DISCOVERY).json()["extensions"]["group"]
    assert group == {"values": ["chunk", "document"], "default": "chunk", "passages_max": MAX_PASSAGES} | {
        "collapse": True,
        "copies_max": 20,
    }


@pytest.mark.parametrize("more", [{}, {"group": None}, {"group": "chunk"}])
def test_without_it_results_are_chunks(ponds: Client, more: dict[str, Any]) -> None:
    results = answered(ponds, {"query": "heron", "mode": MODES[-1], "top_k": 10, **more})["results"]
    assert {document_of(one) for one in results} == {"long"}
    assert not any("passages" in one for one in results)


@pytest.mark.parametrize("mode", MODES)
def test_a_result_is_the_best_chunk_of_its_document_with_its_next_best_ones(ponds: Client, mode: str) -> None:
    chunks = answered(ponds, {"query": "heron", "mode": mode, "top_k": 100})["results"]
    results = answered(ponds, {**HERON, "mode": mode, "top_k": 10})["results"]
    order = list(dict.fromkeys(map(document_of, chunks)))
    assert [document_of(one) for one in results] == order[:10]
    for one in results:
        ranked = [chunk for chunk in chunks if document_of(chunk) == document_of(one)]
        shown = [one, *one["passages"]]
        assert [chunk["id"] for chunk in shown] == [chunk["id"] for chunk in ranked[: len(shown)]]
        assert [chunk["score"] for chunk in shown] == [chunk["score"] for chunk in ranked[: len(shown)]]
    assert len(results[0]["passages"]) == MAX_PASSAGES


@pytest.mark.parametrize("size", [1, 4, 7, 20])
@pytest.mark.parametrize("mode", MODES)
def test_pages_count_documents_and_repeat_none(ponds: Client, mode: str, size: int) -> None:
    found = [document_of(one) for one in crawl(ponds, {**HERON, "mode": mode, "top_k": size})]
    assert sorted(found) == sorted(one.document.id for one in pieces())


def test_filters_and_vectors_find_documents_too(ponds: Client) -> None:
    narrowed = crawl(ponds, {**HERON, "filter": {"even": True}, "top_k": 5})
    assert len(narrowed) == SHORT // 2
    vector = [1.0] * TEXT.dimensions
    asked = {"query_vector": vector, "embedding_space": TEXT.id, "group": "document", "top_k": 6}
    assert len({document_of(one) for one in crawl(ponds, asked)}) == SHORT + 1


@pytest.mark.needs("facets")
def test_facets_count_the_same_documents(ponds: Client) -> None:
    asked = {"query": "heron", "facets": ["even"]}
    assert answered(ponds, {**asked, "group": "document"})["facets"] == answered(ponds, asked)["facets"]


@pytest.mark.needs("highlight")
def test_passages_have_what_is_asked_of_results(ponds: Client) -> None:
    body = {**HERON, "top_k": 2, "highlight": True, "return": {"text": True, "ids": False}}
    for result in answered(ponds, body)["results"]:
        assert "id" not in result
        for passage in result["passages"]:
            assert set(passage) == {"score", "relevance", "span", "text", "highlight"}
            [[start, end], *_] = passage["highlight"]["text"]
            assert passage["text"][start:end] == "heron"
            assert passage["span"][1] - passage["span"][0] == len(passage["text"])


@pytest.mark.parametrize("value", ["section", "", 1, ["document"], True])
def test_another_value_is_400_and_names_the_permitted_ones(ponds: Client, value: Any) -> None:
    response = ponds.search({"query": "heron", "group": value})
    assert refused(response, 400, "invalid_request")["member"] == "group"
    if isinstance(value, str):
        assert response.json()["message"] == "group must be one of chunk, document"


def test_a_cursor_is_bound_to_what_is_counted(ponds: Client) -> None:
    by_document = answered(ponds, {**HERON, "top_k": 3})["meta"]["next_cursor"]
    refused(ponds.search({"query": "heron", "top_k": 3, "cursor": by_document}), 400, "invalid_request")
    by_chunk = answered(ponds, {"query": "heron", "top_k": 3})["meta"]["next_cursor"]
    refused(ponds.search({**HERON, "top_k": 3, "cursor": by_chunk}), 400, "invalid_request")


def test_every_passage_is_charged(tmp_path: Path) -> None:
    fill_pieces(chosen_source(tmp_path), "ponds", pieces())
    with serving(tmp_path, f"[limits]\nchunks_per_day = {1 + MAX_PASSAGES}") as client:
        [result] = answered(client, {**HERON, "top_k": 1})["results"]
        assert len(result["passages"]) == MAX_PASSAGES
        refused(client.search(HERON), 429, "rate_limited")


@pytest.mark.needs("generations")
def test_a_document_that_is_deleted_between_two_pages_is_skipped(tmp_path: Path) -> None:
    fill_pieces(chosen_source(tmp_path), "ponds", pieces())
    with serving(tmp_path) as client:
        everything = [document_of(one) for one in crawl(client, {**HERON, "top_k": 5})]
        first = answered(client, {**HERON, "top_k": 5})
        delete(tmp_path, "ponds", everything[6:8])
        client.refresh()
        rest = crawl(client, {**HERON, "top_k": 5, "cursor": first["meta"]["next_cursor"]})
        assert sorted(map(document_of, rest)) == sorted([everything[5], *everything[8:]])


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Twelve near-copies of a document, and twelve others."""
    store = tmp_path_factory.mktemp("copied")
    text = "heron " + " ".join(f"word{number}" for number in range(80))
    copies = [record(f"copy_{n:02}", [f"{text} edition {n} and more of it, said heron."]) for n in range(12)]
    others = [record(f"other_{n:02}", [f"another heron {n} of pond {n * n} sleeps in reed {n + 7}"]) for n in range(12)]
    fill_pieces(chosen_source(store), "copied", [*copies, *others])
    with serving(store) as client:
        yield client


@pytest.mark.parametrize("size", [1, 5, 13])
@pytest.mark.parametrize("mode", MODES)
def test_near_copies_are_counted_beside_the_best_of_them(copied: Client, mode: str, size: int) -> None:
    results = crawl(copied, {**HERON, "mode": mode, "top_k": size})
    assert len({document_of(one) for one in results}) == len(results) == 13
    [best] = [one for one in results if document_of(one).startswith("copy")]
    names = {one.partition("#")[0] for one in best["copies"]["ids"]} | {document_of(best)}
    if size == 13:  # a small page names what it has looked at
        assert (best["copies"]["count"], names) == (11, {f"copy_{n:02}" for n in range(12)})
    assert not any("copies" in one for one in results if one is not best)


@pytest.mark.parametrize("more", [{"group": "document", "collapse": False}, {"group": "chunk"}, {}])
def test_near_copies_are_results_where_that_is_asked_for(copied: Client, more: dict[str, Any]) -> None:
    results = crawl(copied, {"query": "heron", "top_k": 7, **more})
    assert len(results) == 24
    assert not any("copies" in one for one in results)


def test_a_cursor_is_bound_to_whether_copies_count(copied: Client) -> None:
    cursor = answered(copied, {**HERON, "top_k": 3})["meta"]["next_cursor"]
    refused(copied.search({**HERON, "top_k": 3, "collapse": False, "cursor": cursor}), 400, "invalid_request")
    refused(copied.search({**HERON, "collapse": "no"}), 400, "invalid_request")
