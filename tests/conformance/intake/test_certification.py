"""What a registry does before it certifies a provider (REQUIREMENTS 7.4), against a server in a process of its own."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from aidre.api.cli.main import run
from aidre.api.protocols.intake import bind_key
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.intake_agent import WELL_KNOWN, Agent
from tests.support.intake_schemas import ANSWER, BOUND, MANIFEST, check
from tests.support.intakes import CONFIGURATION, PERSON, fill_all
from tests.support.processes import Running, running

pytestmark = pytest.mark.process

CERTIFIED = CONFIGURATION[: CONFIGURATION.rindex("[[intakes]]")]  # without the one whose collection is missing
CERTIFIED = CERTIFIED.replace("[server]", '[server]\ncors_origins = ["*"]')  # as of a server with a public base_url


def provided(folder: Path) -> Path:
    """A folder with a store, and with the configuration of its provider."""
    fill_all(folder / "store")
    (folder / "aidre.toml").write_text(CERTIFIED, encoding="utf-8")
    return folder


def providing(folder: Path, workers: int) -> AbstractContextManager[Running]:
    return running(folder / "store", workers, settings=folder / "aidre.toml")


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A provider of two workers, which goes on to the end."""
    with providing(provided(tmp_path_factory.mktemp("provider")), workers=2) as one:
        yield one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a provider that a test kills."""
    return provided(tmp_path)


ANSWERED = 12
"""Binds before the provider is killed, by four agents at a time."""


def synthetic(schema: dict[str, Any]) -> dict[str, Any]:
    """Data that a schema admits, made from its required properties alone."""
    made = dict.fromkeys(schema.get("required", []), "leaking hidden quiet pipe")
    Draft202012Validator(schema).validate(made)
    return made


def test_the_certification_procedure_passes(provider: Running) -> None:
    with httpx.Client(timeout=WAIT_SECONDS, headers={"origin": "https://registry.example"}) as http:
        found = http.get(provider.url + WELL_KNOWN)
        assert found.status_code == 200
        assert found.headers["content-type"] == "application/json"
        assert found.headers["access-control-allow-origin"] == "*"
        manifest = found.json()
        check(MANIFEST, manifest)
        reached = []
        for intake in manifest["intakes"]:
            data = synthetic(intake["input_schema"])
            session = str(uuid.uuid4())
            agent = {"id": "registry", "consent_scope": ["intake", "offer"]}
            body = {"aip_version": "0.1.0", "agent": agent, "intake_data": data, "session_id": session}
            answer = http.post(
                intake["endpoint"], content=json.dumps(body), headers={"content-type": "application/json"}
            )
            check(ANSWER, answer.json())
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["access-control-allow-origin"] == "*"
            assert answer.json()["session_id"] == session
            if intake["requires_auth"]:
                assert answer.status_code == 401
                continue
            assert answer.status_code == 200, answer.text
            if intake["binding_available"]:
                endpoint = answer.json()["offer"]["bind_endpoint"]
                assert http.options(endpoint).status_code == 204
                assert http.head(endpoint).status_code == 405
                assert http.post(endpoint, json={}).json()["error"]["code"] == "INVALID_INPUT"
                reached.append(intake["id"])
        assert reached == ["find-a-plumber"]


def send(method: str, address: str, **options: Any) -> httpx.Response:
    """By a connection of its own, so by any worker."""
    return httpx.request(method, address, timeout=WAIT_SECONDS, **options)


def test_an_agent_is_served_by_either_worker(provider: Running) -> None:
    agent = Agent(send, provider.url)
    intake = agent.discover()["intakes"][0]
    for _ in range(5):
        answer = agent.submit(intake, {"need": "leaking pipe"})
        first = agent.bind(answer, PERSON, user_agrees=True)
        check(BOUND, first.json())
        assert {agent.bind_again(answer, PERSON).content for _ in range(4)} == {first.content}


def test_a_full_run_leaves_no_word_of_it_in_the_clear(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cheap_bind_keys: int
) -> None:
    """Not while it runs, not when it was killed, not in what it said."""
    monkeypatch.setattr(bind_key, "SCRYPT_COST", cheap_bind_keys)  # as the server, a process, derives its key
    with providing(folder, workers=1) as provider:
        agent = Agent(send, provider.url)
        intake = agent.discover()["intakes"][0]
        for number in range(5):
            answer = agent.submit(intake, {"need": f"leaking canaryneed {number}", "place": {"city": "canarycity"}})
            assert "canaryneed" in answer["offer"]["summary"]
            person = {"email": f"canarymail{number}@example.com", "full_name": "canaryname"}
            agent.bind(answer, person, user_agrees=True)
        assert "canary" not in httpx.get(provider.url + "/metrics", timeout=WAIT_SECONDS).text
        assert "canary" not in httpx.get(provider.url + "/openapi.json", timeout=WAIT_SECONDS).text
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert folder / "store" / ".log" / "intake.sqlite" in files
        assert [path for path in files if b"canary" in path.read_bytes().lower()] == []
        provider.process.kill()
        assert provider.process.stderr is not None
        assert "canary" not in provider.process.stderr.read()
    command = ["binds", "--json", "--store", str(folder / "store"), "--config", str(folder / "aidre.toml")]
    assert run(command) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["bind_data"]["email"] for one in listed] == [f"canarymail{n}@example.com" for n in range(5)]


def test_what_was_answered_before_a_kill_is_answered_the_same_after_it(folder: Path) -> None:
    begun: list[tuple[dict[str, Any], dict[str, str]]] = []
    ended: dict[str, bytes] = {}

    def go_on(url: str, name: str) -> None:
        agent = Agent(send, url, id=name)
        intake = agent.discover()["intakes"][0]
        while True:
            answer = agent.submit(intake, {"need": "leaking pipe"})
            person = {"email": f"{name}@example.com", "full_name": name}
            begun.append((answer, person))
            ended[answer["offer"]["id"]] = agent.bind(answer, person, user_agrees=True).content

    def until_killed(url: str, name: str) -> None:
        with suppress(httpx.TransportError):
            go_on(url, name)

    with providing(folder, workers=1) as first:
        agents = [threading.Thread(target=until_killed, args=(first.url, f"agent{n}")) for n in range(4)]
        for agent in agents:
            agent.start()
        until(lambda: len(ended) >= ANSWERED or not any(agent.is_alive() for agent in agents))
        first.process.kill()
        for agent in agents:
            agent.join()
    assert len(ended) >= ANSWERED
    with providing(folder, workers=1) as second:
        again = Agent(send, second.url)
        for answer, person in begun:
            answer["offer"]["bind_endpoint"] = f"{second.url}/intakes/bind"
            answered = again.bind_again(answer, person).content
            assert answered == ended.get(answer["offer"]["id"], answered)
