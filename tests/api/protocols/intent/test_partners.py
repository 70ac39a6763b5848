"""What an operator is told when Agentic Intent starts, `api/protocols/intent/partners.py`; a store without a model."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support import publishers
from tests.support.clients import COSINE, a_document, fill
from tests.support.intent_schemas import RETRIEVE_RESPONSE, valid
from tests.support.publishers import CONFIGURATION, configured, publishing

store = publishers.store


def test_at_start_the_operator_is_told_what_can_never_be_served(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = CONFIGURATION.replace('collection = "vault"', 'collection = "absent"').replace(
        "[server]", "[server]\n" + ORIGIN
    )
    text = text.replace('topic = "metals"', 'topik = "metals"')
    with publishing(store, text) as (client, _), caplog.at_level(logging.WARNING):
        client._runner.run(client.app.state.intent.open())
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "collection news: 1 of 10 documents have too few chunks" in said
    assert "collection news: 1 documents have no url" in said
    assert "collection absent: an editorial domain opens it, but it is not in the store" in said
    assert 'intent.editorial_domains."finance.markets.metals".filter: no document of news has topik' in said
    assert "has topic" not in said
    assert "intent.publisher.domain is 127.0.0.1, but aip.json is served at example.com" in said


def test_a_protocol_that_nobody_has_a_key_to_is_told_of(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    keyless = CONFIGURATION.partition("[intent.keys]")[0]
    with publishing(store, keyless) as (client, _), caplog.at_level(logging.WARNING):
        client._runner.run(client.app.state.intent.open())
    assert "intent.keys is empty" in caplog.text


ORIGIN = 'base_url = "https://ai.example.com"\norigin = "https://example.com"'


def test_a_collection_that_returns_no_text_is_told_of(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = CONFIGURATION.replace('protocols = ["intent"]', 'protocols = ["aidre"]')
    with publishing(store, text) as (client, platform), caplog.at_level(logging.WARNING):
        client._runner.run(client.app.state.intent.open())
        assert platform.retrieve()["denial"]["reason"] == "unsupported"
    assert 'it needs return_text, and "intent" among its protocols' in caplog.text


def test_a_collection_without_a_model_is_asked_by_words(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "news",
        [a_document("a", "alpha words here", url="https://example.com/a", metadata={"topic": "markets"})],
        (COSINE,),
    )
    with publishing(tmp_path, configured("full_article = true")) as (_, platform):
        answer = platform.retrieve(platform.request("words"))
        valid(RETRIEVE_RESPONSE, answer)
        assert [chunk["token_count"] for chunk in answer["content"]["chunks"]] == [4]
