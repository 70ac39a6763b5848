"""Searches of a server: the same hits as of the local library, whatever happens on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import aidre_client
from tests.support.fault_proxy import (
    Asked,
    Failing,
    Fault,
    FaultyServer,
    Plan,
    answering,
    faulty,
    foreign,
)
from tests.support.remote import ALL, DOCUMENTS, FAULTS, SPACE, Conflicts, connected


def test_search_many_answers_each_query(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        docs = client.collection("docs")
        found = docs.search_many(["alpha word 3", "alpha word 9"], k=2)
        assert [list(hits) for hits in found] == [docs.search("alpha word 3", k=2), docs.search("alpha word 9", k=2)]
        with pytest.raises(aidre_client.InvalidInput):
            docs.search_many("alpha")


def test_pages_give_every_hit_once(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        pages = list(client.collection("docs").pages("alpha", size=40))
        ids = [hit.id for page in pages for hit in page]
        assert [len(page) for page in pages] == [40, 40, 40, 10]
        assert len(ids) == len(set(ids))
        assert set(ids) == ALL


def test_no_hit_is_lost_or_doubled_under_refusals_and_resets(proxy: FaultyServer) -> None:
    waits: list[float] = []
    with connected(proxy.url, waits) as client:
        expected = [hit.id for page in client.collection("docs").pages("alpha", size=40) for hit in page]
        proxy.plan = Failing(FAULTS, "/search")
        found = [hit.id for page in client.collection("docs").pages("alpha", size=40) for hit in page]
        assert found == expected
        assert [wait for wait in waits if wait in {7.0, 11.0}] == [7.0, 11.0] * 4
        assert len(waits) == len(FAULTS) * 4
        proxy.plan = Failing(FAULTS, "/search")
        assert [hit.id for hit in client.collection("docs").search("alpha", k=DOCUMENTS)] == expected


def test_an_ended_cursor_is_a_conflict_for_those_who_want_one_state(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        proxy.plan = Conflicts(1)
        with pytest.raises(aidre_client.Conflict) as caught:
            list(client.collection("docs").pages("alpha", size=50, restart=False))
        assert caught.value.details["status"] == 409
        proxy.plan = Conflicts(100)
        with pytest.raises(aidre_client.Conflict):
            list(client.collection("docs").pages("alpha", size=50))


def test_a_collection_that_withholds_texts_gives_hits_without(store: Path) -> None:
    with faulty(store, "[collections.docs]\nreturn_text = false\n") as (proxy, _), connected(proxy.url) as client:
        docs = client.collection("docs")
        hits = docs.search("alpha word 7", k=2)
        assert [hit.text for hit in hits] == ["", ""]
        assert isinstance(hits[0].chunk, aidre_client.RemoteChunk)
        assert not hits[0].chunk.has_text
        assert hits[0].chunk.content_hash.startswith("sha256:")
        asked = len(proxy.asked)
        docs.search("alpha word 8", k=2)
        assert len(proxy.asked) == asked + 1, "that is asked once"


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": None},
        {"text": " "},
        {"text": "a", "vector": [1.0]},
        {"text": "a", "k": 0},
        {"text": "a", "k": True},
        {"text": "a", "offset": -1},
        {"text": "a", "mode": "fuzzy"},
        {"vector": [[1.0]]},
        {"vector": ["a"]},
        {"vector": [1.0], "mode": "lexical"},
        {"text": "a", "filter": "n = 1"},
        {"text": "a", "k": 5_000},
    ],
)
def test_a_misuse_is_invalid_input(arguments: dict[str, object], proxy: FaultyServer) -> None:
    with connected(proxy.url) as client, pytest.raises(aidre_client.InvalidInput) as caught:
        client.collection("docs").search(**arguments)  # type: ignore[arg-type]
    assert caught.value.code == "invalid_input"
    assert not [asked for asked in proxy.asked if asked.target == "/search"]


def test_what_the_server_refuses_is_the_exception_of_the_library(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        with pytest.raises(aidre_client.CollectionMissing) as missing:
            client.collection("nope").search("alpha")
        assert missing.value.details["collection"] == "nope"
        assert missing.value.details["request_id"]
        assert (missing.value.details["status"], missing.value.details["error"]) == (404, "not_found")
        with pytest.raises(aidre_client.SpaceMissing):
            client.collection("docs").search("alpha", space="nope")
        with pytest.raises(aidre_client.InvalidFilter):
            client.collection("docs").search("alpha", filter={"n": {"like": 1}})
        with pytest.raises(aidre_client.CollectionMissing):
            _ = client.collection("nope").info
        assert client.collection("docs").info.document_count == DOCUMENTS


def test_a_chunk_is_found_by_its_id(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        docs = client.collection("docs")
        chunk = docs.chunk("a b/7#chunk_1")
        assert (chunk.text, chunk.title, chunk.metadata["n"]) == ("alpha word 7", "T7", 7)
        assert proxy.asked[-1].target == "/chunks/a%20b%2F7%23chunk_1?collection=docs"
        with pytest.raises(aidre_client.Missing):
            docs.chunk("none")
        found = docs.chunks(["a b/1#chunk_1", "none", "a b/0#chunk_1"])
        assert [one and one.document_id for one in found] == ["a b/1", None, "a b/0"]
        with pytest.raises(aidre_client.CollectionMissing):
            client.collection("nope").chunks(["a b/1#chunk_1"])


def test_a_text_is_sent_where_the_server_takes_no_vectors(store: Path) -> None:
    configuration = '[collections.docs]\nvector_queries = "scope"\n'
    with faulty(store, configuration) as (proxy, _), connected(proxy.url) as client:
        proxy.plan = _claiming
        assert len(client.collection("docs").search("alpha word 7", k=2, mode="dense")) == 2


def _claiming(asked: Asked) -> Fault | None:
    """A server that says that it takes vectors, of callers that it then refuses."""
    if asked.target != "/.well-known/ai-discovery":
        return None
    return Fault(change=lambda answer: answer.replace(b'"query_vector":false', b'"query_vector":true '))


# -- servers of others -------------------------------------------------------------------------------------------------


def a_foreign_server(results: object, **more: object) -> Plan:
    """The least that the draft demands: a version, an address, and an array of results."""

    def plan(asked: Asked) -> Fault:
        if asked.target == "/.well-known/ai-discovery":
            return answering(200, json.dumps({"version": "1", "endpoints": {"search": "/find"}, **more}).encode())
        assert asked.target == "/find"
        body = results(json.loads(asked.body)) if callable(results) else {"results": results}
        return answering(200, json.dumps(body).encode())

    return plan


def test_a_server_with_the_least_that_the_draft_demands_is_searched() -> None:
    plan = a_foreign_server([{"id": "doc_1#7", "score": 0.9, "news": 1}, {}])
    with foreign(plan) as proxy, connected(proxy.url) as client:
        hits = client.collection().search("sso setup", k=5)
        assert [(hit.id, hit.document_id, hit.text, hit.url) for hit in hits] == [
            ("doc_1#7", "doc_1#7", "", None),
            ("", "", "", None),
        ]
        assert json.loads(proxy.asked[-1].body) == {
            "query": "sso setup",
            "top_k": 5,
            "return": {"ids": True, "metadata": True, "text": True},
        }
        for misuse in ({"filter": {"n": 1}}, {"mode": "lexical"}):
            with pytest.raises(aidre_client.Unsupported) as caught:
                client.collection().search("sso", **misuse)
            assert caught.value.details["capability"]
        for call in (client.collections, lambda: client.collection("docs").chunk("x")):
            with pytest.raises(aidre_client.Unsupported):
                call()


def test_a_server_that_gives_less_than_is_asked_for_and_no_pages_is_unsupported() -> None:
    def clamped(body: dict[str, object]) -> dict[str, object]:
        return {"results": [{"id": str(n)} for n in range(2)], "meta": {"top_k": 2}}

    with foreign(a_foreign_server(clamped)) as proxy, connected(proxy.url) as client:
        assert len(client.collection().search("x", k=2)) == 2
        with pytest.raises(aidre_client.Unsupported):
            client.collection().search("x", k=3)


def test_a_server_that_ignores_cursors_ends_in_an_error() -> None:
    numbers = iter(range(1_000))

    def repeating(body: dict[str, object]) -> dict[str, object]:
        return {"results": [{"id": "one"}], "meta": {"next_cursor": f"c{next(numbers)}"}}

    with foreign(a_foreign_server(repeating)) as proxy, connected(proxy.url) as client:
        with pytest.raises(aidre_client.RequestFailed) as caught:
            list(client.collection().pages("x"))
        assert caught.value.details["error"] == "invalid_answer"
        assert len(proxy.asked) == 3


@pytest.mark.parametrize("body", [b"", b"[]", b'{"results":{}}', b'{"results":[1]}', b"\xff", b"[" * 100_000])
def test_an_answer_that_is_none_is_a_failed_request(body: bytes) -> None:
    def plan(asked: Asked) -> Fault:
        if asked.target == "/find":
            return answering(200, body)
        return answering(200, b'{"version":"1","endpoints":{"search":"/find"}}')

    with foreign(plan) as proxy, connected(proxy.url) as client:
        with pytest.raises(aidre_client.RequestFailed) as caught:
            client.collection().search("x")
        assert caught.value.details["error"] == "invalid_answer"


def test_a_space_with_a_model_of_this_machine_is_no_reason_to_load_it(tmp_path: Path) -> None:
    """A discovery document names a folder; only models that the installation brings are loaded."""
    space = {"id": "s", "dimensions": 4, "distance": "cosine", "model": str(tmp_path), "revision": "1"}
    plan = a_foreign_server([], embedding_spaces=[space], capabilities={"query_vector": True}, modes=["dense"])
    with foreign(plan) as proxy, connected(proxy.url) as client:
        assert client.collection().search("words", mode="dense") == []
        assert json.loads(proxy.asked[-1].body)["query"] == "words"


def test_the_vectors_of_texts_that_are_withheld_are_refused(store: Path) -> None:
    pytest.importorskip("numpy")
    with faulty(store, "[collections.docs]\nreturn_text = false\n") as (proxy, _):
        client = connected(proxy.url)
        with client, pytest.raises(aidre_client.InvalidInput):
            client.collection("docs").search("alpha", vectors=True)


def test_the_vectors_of_chunks_are_arrays_of_numpy(store: Path) -> None:
    np = pytest.importorskip("numpy")
    with faulty(store, "[collections.docs]\nreturn_vectors = true\n") as (proxy, _), connected(proxy.url) as client:
        docs = client.collection("docs")
        [hit] = docs.search("alpha word 7", k=1, vectors=True)
        vector = hit.chunk.vectors()[SPACE]
        assert (vector.dtype, vector.shape) == (np.float32, (64,))
        for given in (vector, vector.tolist()):
            assert docs.search(vector=given, space=SPACE, k=1)[0].id == hit.id
        assert docs.search("alpha word 7", k=1)[0].chunk.vectors() == {}
