"""The whole application over an engine without capabilities: what it lacks is refused by name, the rest is served."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.api.app import create_app
from aidre.api.cli.console import status_lines
from aidre.api.cli.maintenance import collection_statuses
from aidre.api.config.settings import Settings, parse_settings
from tests.support.clients import AGENTS, TEXT, Client, metrics_of, serving
from tests.support.dict_engine import DictReader, DictSource
from tests.support.intakes import a_submission, answered, submit
from tests.support.publishers import log_of, platform_of
from tests.support.stores import record

RECORDS = [
    record("tea", ["green tea from Assam. ", "black tea from Ceylon"], title="Tea", url="https://example.com/tea"),
    record("coffee", ["coffee from Ethiopia"], title="Coffee", url="https://example.com/coffee", metadata={"cups": 2}),
    record("juice", ["juice of apples"], schema_object={"@type": "Recipe", "name": "Juice", "articleBody": "all"}),
]
WITHOUT_TEXT = "\n[collections.docs]\nreturn_text = false\n"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path, AGENTS, source=DictSource(tmp_path, [DictReader("docs", RECORDS, TEXT)])) as client:
        yield client
        client.app.state.intent.receipts.close()


def results(client: Client, **members: Any) -> list[str]:
    response = client.search({"collection": "docs", **members})
    assert response.status_code == 200, response.text
    return [result["id"] for result in response.json()["results"]]


def refused(client: Client, status: int, **members: Any) -> str:
    response = client.search({"collection": "docs", **members})
    assert response.status_code == status, response.text
    message: str = response.json()["message"]
    return message


def test_aidre_searches_by_text_and_vector(client: Client) -> None:
    assert results(client, query="tea from Assam", top_k=2) == ["tea#chunk_1", "tea#chunk_2"]
    vector = np.eye(TEXT.dimensions)[0].tolist()
    assert len(results(client, query_vector=vector, embedding_space=TEXT.id)) == 4
    assert results(client, query="tea", filter={"cups": 2}) == ["coffee#chunk_1"]
    returned = {"text": True, "semantic_payload": True}
    [found] = client.search({"query": "juice of apples", "top_k": 1, "return": returned}).json()["results"]
    assert (found["text"], found["semantic_payload"]["name"]) == ("juice of apples", "Juice")
    assert found["metadata"]["updated_at"]


def test_a_chunk_is_looked_up(client: Client) -> None:
    chunk = client.get("/chunks/tea%23chunk_2")
    assert chunk.json()["source"] == {"url": "https://example.com/tea", "title": "Tea"}
    assert client.get("/chunks/tea%23chunk_2", {"if-none-match": chunk.headers["etag"]}).status_code == 304


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_search_by_words_is_refused(client: Client, mode: str) -> None:
    assert "lacks the capability lexical): use mode dense" in refused(client, 422, query="tea", mode=mode)
    assert client.search({"query": "tea"}).json()["meta"]["mode"] == "dense"
    assert client.get("/collections/docs").json()["modes"] == ["dense"]


def test_without_generations_a_cursor_ends_with_the_next_commit(client: Client) -> None:
    first = client.search({"query": "tea", "top_k": 1}).json()
    asked = {"query": "tea", "top_k": 1, "cursor": first["meta"]["next_cursor"]}
    second = client.search(asked).json()
    assert first["results"][0]["id"] != second["results"][0]["id"]
    source = client.app.state.retrieval.snapshots.source
    source.readers["docs"] = DictReader("docs", RECORDS, TEXT)
    source.readers["docs"].generation = 2
    client.refresh()
    assert client.search(asked).status_code == 409


def test_without_a_change_feed_there_is_none(client: Client) -> None:
    response = client.get("/collections/docs/changes")
    assert (response.status_code, response.json()["error"]) == (404, "not_found")
    assert "lacks the capability changes" in response.json()["message"]


def test_discovery_says_what_is_left_out(client: Client) -> None:
    document = client.get("/.well-known/ai-discovery").json()
    assert (document["modes"], document["defaults"]["mode"]) == (["dense"], "dense")
    capabilities = document["capabilities"]
    assert not capabilities["delta_sync"] and capabilities["pagination"]
    assert capabilities["query_text"] and capabilities["query_vector"] and capabilities["filter"]


def ask(client: Client, **query: Any) -> dict[str, Any]:
    response = client.request("POST", "/ask", json={"query": query})
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


def test_nlweb_answers_and_ignores_words_that_it_cannot_place(client: Client) -> None:
    answer = ask(client, text="tea from Assam", cups=2)
    assert answer["results"][0]["name"] == "Tea"
    assert answer["results"][0]["grounding"]["chunk_ids"][:2] == ["tea#chunk_1", "tea#chunk_2"]
    assert answer["_meta"]["ignored_filters"] == ["cups"], answer["_meta"]


def test_filters_on_whole_texts_are_refused_where_the_engine_cannot_tell_them_from_metadata(tmp_path: Path) -> None:
    source = DictSource(tmp_path, [DictReader("docs", RECORDS, TEXT)])
    with serving(tmp_path, WITHOUT_TEXT, source=source) as client:
        assert "articleBody" in refused(client, 400, query="tea", filter={"articleBody": "all"})


def test_intent_serves_passages_and_writes_receipts(client: Client) -> None:
    platform = platform_of(client)
    answer = platform.retrieve(platform.request("tea from Assam", domain="of.docs"))
    assert answer["status"] == "ok", answer
    assert answer["content"]["chunks"][0]["id"] == "tea#chunk_1"
    assert len(log_of(client)) == 1


def test_an_intake_offers_what_it_finds(client: Client) -> None:
    offer = answered(submit(client, a_submission({"query": "coffee from Ethiopia"}), "find"))["offer"]
    assert offer["details"]["items"][0]["id"] == "coffee#chunk_1"


def test_operators_see_the_collection_without_recall(client: Client) -> None:
    assert client.get("/readyz").json() == {"status": "ready", "damaged": 0}
    found = metrics_of(client)
    assert found["aidre_collection_chunks{collection=docs}"] == 4
    assert found[f"aidre_space_search{{collection=docs,kind=hnsw,space={TEXT.id}}}"] == 1
    assert not any(name.startswith("aidre_space_recall") for name in found)
    [status] = collection_statuses(client.app.state.retrieval.snapshots.source, None, Settings(), print)
    assert list(status_lines(status))


def test_every_protocol_names_the_capability_that_is_missing(client: Client) -> None:
    """Without a model, a text can be searched by words alone."""
    reader = client.app.state.retrieval.snapshots.source.readers["docs"]
    reader.collection = replace(reader.collection, spaces=(replace(TEXT, model=None),))
    lacking = "its engine lacks the capability lexical"
    assert lacking in refused(client, 422, query="tea")
    failure = client.request("POST", "/ask", json={"query": {"text": "tea"}}).json()["error"]
    assert lacking in failure["message"], failure
    platform = platform_of(client)
    answer = platform.retrieve(platform.request("tea", domain="of.docs"))
    assert lacking in answer["error"]["message"], answer
    declined = submit(client, a_submission({"query": "coffee"}), "find")
    assert lacking in declined.json()["error"]["message"], declined.json()


def test_a_scrub_finds_nothing_to_read(client: Client) -> None:
    scrub = threading.Thread(target=client.app.state.scrubber._run)  # which takes all priority from its thread
    scrub.start()
    scrub.join()
    assert client.app.state.scrubber.findings.problems == ()


def test_a_new_state_is_followed(client: Client, tmp_path: Path) -> None:
    source = client.app.state.retrieval.snapshots.source
    source.readers["docs"] = DictReader("docs", RECORDS[:1], TEXT)
    source.readers["docs"].lineage = "another"
    client.refresh()
    assert sorted(results(client, query="coffee")) == ["tea#chunk_1", "tea#chunk_2"]


def test_the_state_of_the_application_may_be_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    source = DictSource(tmp_path / "store", [DictReader("docs", RECORDS, TEXT)])
    app = create_app(source, parse_settings(AGENTS), state=tmp_path / "state")
    app.state.retrieval.close()
    assert (tmp_path / "state" / "cursor.key").exists()
    assert list((tmp_path / "store").iterdir()) == []
