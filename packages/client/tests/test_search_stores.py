"""Searches of servers of this project beside the engine: as the library, over stores that change, with its models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import aidre
import aidre_client
from tests.support.clients import PLAIN, a_document, delete, fill, vector_of
from tests.support.fault_proxy import (
    FaultyServer,
    faulty,
)
from tests.support.remote import Conflicts, connected


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


def test_a_vector_is_searched_in_its_space(tmp_path: Path) -> None:
    fill(tmp_path, "plain", [a_document(f"d{n}", f"text {n}") for n in range(9)], PLAIN)
    with faulty(tmp_path) as (proxy, _), connected(proxy.url) as client:
        plain, space = client.collection("plain"), PLAIN[1].id
        hits = plain.search(vector=vector_of("d4"), space=PLAIN[0].id, k=1, vectors=False)
        assert hits[0].document_id == "d4"
        assert "query_vector" in json.loads(proxy.asked[-1].body)
        with pytest.raises(aidre_client.InvalidInput, match="space="):
            plain.search(vector=vector_of("d4"))
        with pytest.raises(aidre_client.SpaceMissing):
            plain.search(vector=vector_of("d4"), space="none")
        with pytest.raises(aidre_client.DimensionMismatch) as caught:
            plain.search(vector=[1.0], space=space)
        assert caught.value.details["expected_dimensions"] == 4


def test_a_commit_between_pages_changes_no_page_that_follows(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document(f"d{n}", f"alpha {n}") for n in range(25)])
    with faulty(tmp_path) as (proxy, server), connected(proxy.url) as client:
        pages = client.collection("docs").pages("alpha", size=10)
        ids = [hit.id for hit in next(pages)]
        fill(tmp_path, "docs", [a_document(f"new{n}", "alpha alpha") for n in range(10)])
        server.app.state.retrieval.snapshots.refresh()
        ids += [hit.id for page in pages for hit in page]
        assert sorted(ids) == sorted(f"d{n}#chunk_1" for n in range(25))


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


def test_a_dense_text_is_embedded_here_where_the_model_is(proxy: FaultyServer) -> None:
    with connected(proxy.url) as here, connected(proxy.url, embed="server") as there:
        local = here.collection("docs").search("alpha word", k=5, mode="dense")
        assert b"alpha" not in proxy.asked[-1].body
        sent = there.collection("docs").search("alpha word", k=5, mode="dense")
        assert b"alpha" in proxy.asked[-1].body
        assert [hit.id for hit in local] == [hit.id for hit in sent]
        assert [hit.score for hit in local] == pytest.approx([hit.score for hit in sent], abs=1e-6)
        here.collection("docs").search("alpha word")
        assert b"alpha" in proxy.asked[-1].body, "a hybrid search has to know the words"


def test_a_client_that_must_not_send_texts_sends_none(proxy: FaultyServer, tmp_path: Path) -> None:
    with connected(proxy.url, embed="local") as client:
        client.collection("docs").search("secret words", k=1)
        assert not [asked for asked in proxy.asked if b"secret" in asked.body]
    fill(tmp_path, "plain", [a_document("d", "text")], PLAIN)
    with faulty(tmp_path) as (other, _):
        with connected(other.url, embed="local") as client, pytest.raises(aidre_client.ModelUnavailable):
            client.collection("plain").search("secret words")
        assert not [asked for asked in other.asked if b"secret" in asked.body]
        with connected(other.url, embed="local", models={PLAIN[0].id: lambda texts: [vector_of("d")]}) as client:
            assert client.collection("plain").search("secret words", k=1)[0].score == pytest.approx(1.0)
        with (
            connected(other.url, embed="local", models={PLAIN[0].id: lambda texts: [[1.0]]}) as client,
            pytest.raises(aidre_client.InvalidInput, match="shape"),
        ):
            client.collection("plain").search("secret words")


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
        with pytest.raises(aidre_client.InvalidInput, match="limit"):
            docs.suggest("w", limit=0)
        with pytest.raises(aidre_client.AccessDenied):
            client.collection("silent").suggest("w")
        assert (local.corrected("wmobats"), local.corrected("wombats")) == ("wombats", None)


def test_a_search_is_corrected_where_the_program_asks_for_it(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "wombats")])
    with faulty(tmp_path) as (proxy, _), connected(proxy.url) as client:
        docs = client.collection("docs")
        assert docs.search("wmobats", mode="lexical") == []
        assert [hit.id for hit in docs.search("wmobats", mode="lexical", correct=True)] == ["a#chunk_1"]
