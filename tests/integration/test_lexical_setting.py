"""`collections.NAME.lexical = false`: no protocol lets words find a chunk, or compares them with its text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.api.config.settings import parse_settings
from aidre.engine.errors import ModelUnavailable
from tests.support.clients import COSINE, TEXT, Client, a_document, fill, serving
from tests.support.discovery import DISCOVERY, refused
from tests.support.intakes import a_submission
from tests.support.publishers import configured, failed, fill_chunks, platform_of, publishing

DOT_TEXT = replace(TEXT, id="text:dot", distance="dot", normalized=False)
INTAKES = "".join(
    f"""
[[intakes]]
id = "{name}"
name = "{name}"
description = "Finds"
category = "service/matching"
offer_type = "matches"
collection = "{name}"
query = "{{need}}"
"""
    for name in ("quiet", "bare")
)
CONFIGURATION = f"""
[nlweb]
min_score = 0
[collections.quiet]
return_text = false
lexical = false
[collections.bare]
return_text = false
lexical = false
{INTAKES}
"""
SETTING = "collections.bare.lexical is false"
SECRET_WORDS = ["quixotry", "zugzwang", "widdershins"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """`quiet` has a model, `bare` has none; `open` is searched by words, too."""
    store = tmp_path_factory.mktemp("store")
    documents = [a_document(f"d{n}", f"alpha {word}", url=f"https://example.com/{n}", title=f"Title {n}")
                 for n, word in enumerate(SECRET_WORDS)]  # fmt: skip
    for name, spaces in (("open", (TEXT,)), ("quiet", (TEXT,)), ("bare", (COSINE,))):
        fill(store, name, documents, spaces)
    with serving(store, CONFIGURATION) as client:
        yield client


def search(client: Client, collection: str, **members: Any) -> httpx.Response:
    return client.search({"query": "alpha quixotry", "collection": collection, **members})


def test_aidre_searches_by_vectors_alone_and_refuses_words_by_name_of_the_setting(client: Client) -> None:
    dense = search(client, "open", mode="dense").json()["results"]
    for mode in (None, "hybrid", "dense"):
        body = search(client, "quiet", **({} if mode is None else {"mode": mode})).json()
        assert body["meta"]["mode"] == "dense"
        assert [result["score"] for result in body["results"]] == [result["score"] for result in dense]
    response = search(client, "quiet", mode="lexical")
    assert refused(response, 422, "invalid_request") == {"member": "mode"}
    assert "collections.quiet.lexical is false" in response.json()["message"]
    assert search(client, "open", mode="lexical").json()["meta"]["mode"] == "lexical"


@pytest.mark.parametrize("members", [{}, {"mode": "lexical"}, {"mode": "hybrid"}, {"mode": "dense"}])
def test_aidre_takes_no_text_where_there_is_no_model_either(client: Client, members: dict[str, str]) -> None:
    message = search(client, "bare", **members).json()["message"]
    assert search(client, "bare", **members).status_code == 422
    assert SETTING in message or "no embedding model" in message
    assert (SETTING in message) is (members.get("mode") in {None, "lexical"})


def test_without_its_model_such_a_collection_is_unavailable(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> Any:
        raise ModelUnavailable("the model cannot be loaded")

    monkeypatch.setattr(client.app.state.retrieval.embedders, "embed", broken)
    assert search(client, "open").json()["meta"]["mode"] == "lexical"
    assert search(client, "quiet").status_code == 503


def test_discovery_names_the_modes_that_collections_have(client: Client, tmp_path: Path) -> None:
    items = client.get("/collections").json()["collections"]
    assert {item["name"]: item["modes"] for item in items} == {
        "open": ["hybrid", "dense", "lexical"],
        "quiet": ["dense"],
        "bare": [],
    }
    assert client.get(DISCOVERY).json()["modes"] == ["hybrid", "dense", "lexical"]
    fill(tmp_path, "quiet", [a_document("a", "alpha")])
    fill(tmp_path, "plain", [a_document("a", "alpha")], (COSINE,))
    fill(tmp_path, "dots", [a_document("a", "alpha")], (DOT_TEXT,))
    with serving(tmp_path, "[collections.quiet]\nlexical = false\n") as other:
        items = other.get("/collections").json()["collections"]
        assert {item["name"]: item["modes"] for item in items} == {
            "quiet": ["dense"],
            "plain": ["lexical"],
            "dots": ["dense", "lexical"],
        }
    everywhere = "".join(f"[collections.{name}]\nlexical = false\n" for name in ("quiet", "plain", "dots"))
    with serving(tmp_path, everywhere) as other:
        document = other.get(DISCOVERY).json()
        assert (document["modes"], document["defaults"]["mode"]) == (["dense"], "dense")


def ask(client: Client, site: str | None, memory: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"query": {"text": "alpha", **({} if site is None else {"site": site})}}
    if memory is not None:
        body["context"] = {"memory": memory}
    response = client.request("POST", "/ask", json=body, headers={"content-type": "application/json"})
    return {"status": response.status_code, **response.json()}


def scores(answer: dict[str, Any]) -> list[float]:
    return [item["score"] for item in answer["results"]]


def test_nlweb_compares_no_word_with_a_text(client: Client) -> None:
    """What the user prefers raises the score of texts that have the word, but not of these."""
    plain = scores(ask(client, "quiet"))
    assert len(plain) == 3
    for word in SECRET_WORDS:
        memory = f"I prefer {word}"
        assert scores(ask(client, "quiet", memory)) == plain
        assert scores(ask(client, "open", memory)) != scores(ask(client, "open"))


def test_nlweb_names_the_setting_where_a_site_takes_no_text_and_passes_it_over_elsewhere(client: Client) -> None:
    answer = ask(client, "bare")
    assert (answer["status"], answer["error"]["code"]) == (422, "INVALID_QUERY")
    assert SETTING in answer["error"]["message"]
    assert len(ask(client, None)["results"]) == 6, "those of open and quiet"


def submit(client: Client, intake: str) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return client.request("POST", f"/intakes/{intake}", json=a_submission({"need": "alpha quixotry"}), headers=headers)


def test_an_intake_offers_by_vectors_and_names_the_setting_where_it_cannot(client: Client) -> None:
    dense = search(client, "quiet", mode="dense").json()["results"]
    offer = submit(client, "quiet").json()["offer"]
    assert [item["score"] for item in offer["details"]["items"]] == [result["relevance"] for result in dense]
    response = submit(client, "bare")
    assert (response.status_code, response.json()["error"]["code"]) == (422, "INVALID_INPUT")
    assert SETTING in response.json()["error"]["message"]


def test_the_operator_is_told_of_an_intake_that_can_offer_nothing(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(client.app.state.intake.open())
    [line] = [record.getMessage() for record in caplog.records]
    assert "intake bare can offer nothing" in line


def test_agentic_intent_searches_by_vectors_and_names_the_setting_where_it_cannot(tmp_path: Path) -> None:
    members = {"url": "https://example.com/a", "metadata": {"topic": "markets"}}
    fill_chunks(tmp_path, "news", {"a": ([f"alpha {word}" for word in SECRET_WORDS], members)})
    fill(tmp_path, "vault", [a_document("a", "alpha")], (COSINE,), visibility="private")
    quiet = configured().replace("[collections.news]", "[collections.news]\nlexical = false")
    with publishing(tmp_path, quiet.replace("[collections.vault]", "[collections.vault]\nlexical = false")) as both:
        client, platform = both
        modes: list[str] = []
        page = client.app.state.retrieval._driver._page

        def watched(step: Any, ticket: Any) -> Any:
            modes.append(step.query.mode)
            return page(step, ticket)

        client.app.state.retrieval._driver._page = watched
        assert platform.retrieve()["status"] == "ok"
        assert set(modes) == {"dense"}
        other = platform_of(client)
        sent = other.post("/aip/retrieve", other.request(domain="archive"))
        failed(sent, 422, "invalid_request")
        assert "collections.vault.lexical is false" in json.loads(sent[2])["error"]["message"]
        assert any(
            "vault: it has no embedding model and lexical" in line for line in client.app.state.intent._warnings()
        )


def test_lexical_is_on_by_default_and_needs_a_boolean() -> None:
    assert parse_settings("").collection("docs").lexical
    with pytest.raises(Exception, match=r"collections\.docs\.lexical"):
        parse_settings('[collections.docs]\nlexical = "no"\n')
