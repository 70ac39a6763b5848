"""Searches of a server: the same hits as of the local library, whatever happens on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import aidre
from tests.aidre.client.conftest import DOCUMENTS, connected
from tests.support.clients import AIDRE, PLAIN, a_document, delete, fill, vector_of
from tests.support.fault_proxy import (
    RESET_AFTER,
    RESET_BEFORE,
    Asked,
    Failing,
    Fault,
    FaultyServer,
    Plan,
    answering,
    faulty,
    foreign,
    refusal,
)

ALL = {f"a b/{n}#chunk_1" for n in range(DOCUMENTS)}
CONFLICT = answering(409, b'{"error":"conflict","message":"the cursor has ended"}', AIDRE)
FAULTS = (
    refusal(429, Retry_After="7"),
    RESET_BEFORE,
    refusal(503, Retry_After="11"),
    RESET_AFTER,
    Fault(cut=300),
)


def test_search_has_the_hits_of_the_local_library(proxy: FaultyServer, store: Path) -> None:
    with connected(proxy.url) as client, aidre.open(store) as database:
        theirs, ours = client.collection("docs"), database.collection("docs")
        for options in (
            {"k": 3},
            {"k": 12, "offset": 95},
            {"k": 5, "mode": "lexical"},
            {"k": 5, "mode": "dense"},
            {"k": 5, "filter": {"even": True, "n": {"gt": 100}}},
            {"k": 5, "min_score": 0.5},
        ):
            found, expected = theirs.search("alpha word 7", **options), ours.search("alpha word 7", **options)
            assert [hit.id for hit in found] == [hit.id for hit in expected], options
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])
            for remote, local in zip(found, expected, strict=True):
                for name in ("document_id", "text", "title", "url", "metadata"):
                    assert getattr(remote, name) == getattr(local, name)
                for name in ("content_hash", "updated_at", "section", "id"):
                    assert getattr(remote.chunk, name) == getattr(local.chunk, name)


def test_search_many_answers_each_query(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        docs = client.collection("docs")
        found = docs.search_many(["alpha word 3", "alpha word 9"], k=2)
        assert [list(hits) for hits in found] == [docs.search("alpha word 3", k=2), docs.search("alpha word 9", k=2)]
        with pytest.raises(aidre.InvalidInput):
            docs.search_many("alpha")


def test_a_vector_is_searched_in_its_space(tmp_path: Path) -> None:
    fill(tmp_path, "plain", [a_document(f"d{n}", f"text {n}") for n in range(9)], PLAIN)
    with faulty(tmp_path) as (proxy, _), connected(proxy.url) as client:
        plain, space = client.collection("plain"), PLAIN[1].id
        hits = plain.search(vector=vector_of("d4"), space=PLAIN[0].id, k=1, vectors=False)
        assert hits[0].document_id == "d4"
        assert "query_vector" in json.loads(proxy.asked[-1].body)
        with pytest.raises(aidre.InvalidInput, match="space="):
            plain.search(vector=vector_of("d4"))
        with pytest.raises(aidre.SpaceMissing):
            plain.search(vector=vector_of("d4"), space="none")
        with pytest.raises(aidre.DimensionMismatch) as caught:
            plain.search(vector=[1.0], space=space)
        assert caught.value.details["expected_dimensions"] == 4


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


def test_a_commit_between_pages_changes_no_page_that_follows(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document(f"d{n}", f"alpha {n}") for n in range(25)])
    with faulty(tmp_path) as (proxy, server), connected(proxy.url) as client:
        pages = client.collection("docs").pages("alpha", size=10)
        ids = [hit.id for hit in next(pages)]
        fill(tmp_path, "docs", [a_document(f"new{n}", "alpha alpha") for n in range(10)])
        server.app.state.retrieval.snapshots.refresh()
        ids += [hit.id for page in pages for hit in page]
        assert sorted(ids) == sorted(f"d{n}#chunk_1" for n in range(25))


class Conflicts:
    """A plan that ends the cursor of the first requests with one, after a commit of its own."""

    def __init__(self, times: int) -> None:
        self.left = times

    def commit(self) -> None: ...

    def __call__(self, asked: Asked) -> Fault | None:
        if not self.left or b'"cursor"' not in asked.body:
            return None
        self.left -= 1
        self.commit()
        return CONFLICT


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    fill(tmp_path, "docs", [a_document(f"d{n}", f"alpha {n}") for n in range(25)])
    return tmp_path


def test_pages_go_on_without_losing_or_doubling_where_a_cursor_has_ended(changing: Path) -> None:
    with faulty(changing) as (proxy, server), connected(proxy.url) as client:

        class Commits(Conflicts):
            def commit(self) -> None:
                fill(changing, "docs", [a_document(f"new{self.left}_{n}", "alpha alpha") for n in range(4)])
                delete(changing, "docs", ["d24"])
                server.app.state.retrieval.snapshots.refresh()

        proxy.plan = Commits(2)
        ids = [hit.id for page in client.collection("docs").pages("alpha", size=10) for hit in page]
        now = {hit.id for page in client.collection("docs").pages("alpha", size=10) for hit in page}
        assert len(ids) == len(set(ids))
        assert now <= set(ids) <= now | {"d24#chunk_1"}
        assert len(now) == 24 + 8


def test_a_search_is_of_one_state_where_a_cursor_has_ended(changing: Path) -> None:
    with faulty(changing, "[limits]\ntop_k_max = 10\n") as (proxy, server), connected(proxy.url) as client:

        class Commits(Conflicts):
            def commit(self) -> None:
                fill(changing, "docs", [a_document(f"new{n}", "alpha alpha") for n in range(4)])
                server.app.state.retrieval.snapshots.refresh()

        proxy.plan = Commits(1)
        found = client.collection("docs").search("alpha", k=29)
        assert [(hit.id, hit.score) for hit in found] == [
            (hit.id, hit.score) for hit in client.collection("docs").search("alpha", k=29)
        ]
        assert len({hit.id for hit in found}) == 29


def test_an_ended_cursor_is_a_conflict_for_those_who_want_one_state(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        proxy.plan = Conflicts(1)
        with pytest.raises(aidre.Conflict) as caught:
            list(client.collection("docs").pages("alpha", size=50, restart=False))
        assert caught.value.details["status"] == 409
        proxy.plan = Conflicts(100)
        with pytest.raises(aidre.Conflict):
            list(client.collection("docs").pages("alpha", size=50))


def test_a_collection_that_withholds_texts_gives_hits_without(store: Path) -> None:
    with faulty(store, "[collections.docs]\nreturn_text = false\n") as (proxy, _), connected(proxy.url) as client:
        docs = client.collection("docs")
        hits = docs.search("alpha word 7", k=2)
        assert [hit.text for hit in hits] == ["", ""]
        assert isinstance(hits[0].chunk, aidre.RemoteChunk)
        assert not hits[0].chunk.has_text
        assert hits[0].chunk.content_hash.startswith("sha256:")
        asked = len(proxy.asked)
        docs.search("alpha word 8", k=2)
        assert len(proxy.asked) == asked + 1, "that is asked once"
        with pytest.raises(aidre.InvalidInput):
            docs.search("alpha", vectors=True)


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
    with connected(proxy.url) as client, pytest.raises(aidre.InvalidInput) as caught:
        client.collection("docs").search(**arguments)  # type: ignore[arg-type]
    assert caught.value.code == "invalid_input"
    assert not [asked for asked in proxy.asked if asked.target == "/search"]


def test_what_the_server_refuses_is_the_exception_of_the_library(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        with pytest.raises(aidre.CollectionMissing) as missing:
            client.collection("nope").search("alpha")
        assert missing.value.details["collection"] == "nope"
        assert missing.value.details["request_id"]
        assert (missing.value.details["status"], missing.value.details["error"]) == (404, "not_found")
        with pytest.raises(aidre.SpaceMissing):
            client.collection("docs").search("alpha", space="nope")
        with pytest.raises(aidre.InvalidFilter):
            client.collection("docs").search("alpha", filter={"n": {"like": 1}})
        with pytest.raises(aidre.CollectionMissing):
            _ = client.collection("nope").info
        assert client.collection("docs").info.document_count == DOCUMENTS


def test_a_chunk_is_found_by_its_id(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        docs = client.collection("docs")
        chunk = docs.chunk("a b/7#chunk_1")
        assert (chunk.text, chunk.title, chunk.metadata["n"]) == ("alpha word 7", "T7", 7)
        assert proxy.asked[-1].target == "/chunks/a%20b%2F7%23chunk_1?collection=docs"
        with pytest.raises(aidre.Missing):
            docs.chunk("none")
        found = docs.chunks(["a b/1#chunk_1", "none", "a b/0#chunk_1"])
        assert [one and one.document_id for one in found] == ["a b/1", None, "a b/0"]
        with pytest.raises(aidre.CollectionMissing):
            client.collection("nope").chunks(["a b/1#chunk_1"])


def test_a_dense_text_is_embedded_here_where_the_model_is(proxy: FaultyServer) -> None:
    with connected(proxy.url) as here, connected(proxy.url, embed="server") as there:
        local = here.collection("docs").search("alpha word 7", k=5, mode="dense")
        assert b"alpha" not in proxy.asked[-1].body
        sent = there.collection("docs").search("alpha word 7", k=5, mode="dense")
        assert b"alpha" in proxy.asked[-1].body
        assert [hit.id for hit in local] == [hit.id for hit in sent]
        assert [hit.score for hit in local] == pytest.approx([hit.score for hit in sent], abs=1e-6)
        here.collection("docs").search("alpha word 7")
        assert b"alpha" in proxy.asked[-1].body, "a hybrid search has to know the words"


def test_a_client_that_must_not_send_texts_sends_none(proxy: FaultyServer, tmp_path: Path) -> None:
    with connected(proxy.url, embed="local") as client:
        client.collection("docs").search("secret words", k=1)
        assert not [asked for asked in proxy.asked if b"secret" in asked.body]
    fill(tmp_path, "plain", [a_document("d", "text")], PLAIN)
    with faulty(tmp_path) as (other, _):
        with connected(other.url, embed="local") as client, pytest.raises(aidre.ModelUnavailable):
            client.collection("plain").search("secret words")
        assert not [asked for asked in other.asked if b"secret" in asked.body]
        with connected(other.url, embed="local", models={PLAIN[0].id: lambda texts: [vector_of("d")]}) as client:
            assert client.collection("plain").search("secret words", k=1)[0].score == pytest.approx(1.0)
        with (
            connected(other.url, embed="local", models={PLAIN[0].id: lambda texts: [[1.0]]}) as client,
            pytest.raises(aidre.InvalidInput, match="shape"),
        ):
            client.collection("plain").search("secret words")


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
            with pytest.raises(aidre.Unsupported) as caught:
                client.collection().search("sso", **misuse)
            assert caught.value.details["capability"]
        for call in (client.collections, lambda: client.collection("docs").chunk("x")):
            with pytest.raises(aidre.Unsupported):
                call()


def test_a_server_that_gives_less_than_is_asked_for_and_no_pages_is_unsupported() -> None:
    def clamped(body: dict[str, object]) -> dict[str, object]:
        return {"results": [{"id": str(n)} for n in range(2)], "meta": {"top_k": 2}}

    with foreign(a_foreign_server(clamped)) as proxy, connected(proxy.url) as client:
        assert len(client.collection().search("x", k=2)) == 2
        with pytest.raises(aidre.Unsupported):
            client.collection().search("x", k=3)


def test_a_server_that_ignores_cursors_ends_in_an_error() -> None:
    numbers = iter(range(1_000))

    def repeating(body: dict[str, object]) -> dict[str, object]:
        return {"results": [{"id": "one"}], "meta": {"next_cursor": f"c{next(numbers)}"}}

    with foreign(a_foreign_server(repeating)) as proxy, connected(proxy.url) as client:
        with pytest.raises(aidre.RequestFailed) as caught:
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
        with pytest.raises(aidre.RequestFailed) as caught:
            client.collection().search("x")
        assert caught.value.details["error"] == "invalid_answer"


def test_a_space_with_a_model_of_this_machine_is_no_reason_to_load_it(tmp_path: Path) -> None:
    """A discovery document names a folder; only models that the installation brings are loaded."""
    space = {"id": "s", "dimensions": 4, "distance": "cosine", "model": str(tmp_path), "revision": "1"}
    plan = a_foreign_server([], embedding_spaces=[space], capabilities={"query_vector": True}, modes=["dense"])
    with foreign(plan) as proxy, connected(proxy.url) as client:
        assert client.collection().search("words", mode="dense") == []
        assert json.loads(proxy.asked[-1].body)["query"] == "words"


def test_a_text_is_completed_by_the_words_of_the_collection(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "wombats and wallabies & wombats")])
    fill(tmp_path, "silent", [a_document("a", "wombats")])
    configuration = "[collections.silent]\nreturn_text = false"
    with (
        aidre.open(tmp_path) as database,
        faulty(tmp_path, configuration) as (proxy, _),
        connected(proxy.url) as client,
    ):
        docs, local = client.collection("docs"), database.collection("docs")
        assert docs.suggest("two w") == local.suggest("two w") == ["two wombats", "two wallabies"]
        assert docs.suggest("two w", limit=1) == local.suggest("two w", limit=1) == ["two wombats"]
        with pytest.raises(aidre.InvalidInput, match="limit"):
            docs.suggest("w", limit=0)
        with pytest.raises(aidre.AccessDenied):
            client.collection("silent").suggest("w")
        assert (local.corrected("wmobats"), local.corrected("wombats")) == ("wombats", None)


def test_a_search_is_corrected_where_the_program_asks_for_it(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "wombats")])
    with faulty(tmp_path) as (proxy, _), connected(proxy.url) as client:
        docs = client.collection("docs")
        assert docs.search("wmobats", mode="lexical") == []
        assert [hit.id for hit in docs.search("wmobats", mode="lexical", correct=True)] == ["a#chunk_1"]
