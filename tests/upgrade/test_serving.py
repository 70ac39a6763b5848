"""A store of release 0.1.0 behind the server of this one, with its own configuration, over all four protocols."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre_client import connect
from tests.support.clocks import WAIT_SECONDS
from tests.support.intake_agent import Agent
from tests.support.processes import running
from tests.support.stores import copied
from tests.upgrade import questions
from tests.upgrade.corpus import PERSON

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def client(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = copied(unpacked, tmp_path_factory.mktemp("served") / "old")
    server = running(folder / "store", settings=folder / "aidre.toml")
    with server as started, httpx.Client(base_url=started.url, timeout=WAIT_SECONDS) as one:
        yield one


@pytest.mark.parametrize("asked", questions.searches(), ids=lambda asked: asked.name)
def test_a_search_is_answered_as_the_old_release_did(
    client: httpx.Client, answers: dict[str, Any], asked: questions.Asked
) -> None:
    questions.check(questions.results(client, asked), answers["searches"][asked.name], asked.name)


def test_chunks_changes_and_public_keys_are_the_same(client: httpx.Client, answers: dict[str, Any]) -> None:
    found = questions.pages(client)
    for path, wanted in answers["pages"].items():
        for answer in (found[path], wanted):
            answer.get("metadata", {}).pop("provenance", None)  # a signature, which has a time
            answer.pop("request_id", None)
        assert found[path] == wanted, path


def test_a_caller_keeps_its_key_and_a_private_collection_stays_closed(client: httpx.Client) -> None:
    body = {"query": "ferry", "collection": "minutes", "mode": "lexical"}
    assert client.post("/search", json=body).status_code == 404
    assert client.post("/search", json=body, headers=questions.BEARER).status_code == 200


def test_answers_are_signed_by_the_old_key(client: httpx.Client) -> None:
    with connect(str(client.base_url), verify="required") as session:
        assert session.collection("docs").search("a lamp on the coast", k=3)[0].text


def test_nlweb_and_mcp_answer(client: httpx.Client) -> None:
    asked = client.post("/ask", json={"query": {"text": "a soup of lentils"}}).json()
    assert asked["results"][0]["name"] == "Lentil soup"
    call = {"name": "search", "arguments": {"query": "lentils"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"accept": "application/json, text/event-stream"}
    assert "Lentil soup" in client.post("/mcp", json=message, headers=headers).text


def test_a_partner_keeps_its_key(client: httpx.Client, answers: dict[str, Any]) -> None:
    platform = questions.platform(client)
    answer = platform.retrieve(platform.request("soup", domain="town.food"))
    ids = [[chunk["id"] for chunk in one["content"]["chunks"]] for one in (answer, answers["retrieved"][0])]
    assert set(ids[0]) < set(ids[1]), "the old release also returned what does not fit"
    assert ids[0]
    status, _ = platform.report(platform.citation(answer))
    assert status == 202


def test_an_open_offer_is_bound_and_a_bind_is_repeated(client: httpx.Client, answers: dict[str, Any]) -> None:
    agent = Agent(client.request, str(client.base_url))
    address = str(client.base_url).rstrip("/") + "/intakes/bind"
    for kept in (answers["offered"], answers["bound"]["offered"]):
        kept["offer"]["bind_endpoint"] = address
    bound = agent.bind(answers["offered"], PERSON, user_agrees=True).json()
    assert (bound["status"], bound["offer_id"]) == ("bound", answers["offered"]["offer"]["id"])
    again = agent.bind_again(answers["bound"]["offered"], PERSON).json()
    assert again == answers["bound"]["answer"]
