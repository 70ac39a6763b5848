"""What every protocol says where all places are taken, or where an answer does not begin in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidre.api.access.limits.concurrency import ConcurrencyLimit
from aidre.api.config.settings import parse_settings
from aidre.engine.errors import ConfigurationError
from tests.integration.requests import ASKED, PROTOCOLS, SESSION, asked
from tests.support.clients import Client, a_document, fill, serving


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    fill(tmp_path, "docs", [a_document(f"doc_{number}", f"alpha {number}") for number in range(3)])
    with serving(tmp_path, PROTOCOLS) as client:
        yield client


@pytest.mark.parametrize("name", ASKED)
def test_where_all_places_are_taken_every_protocol_says_503(name: str, client: Client) -> None:
    running: ConcurrencyLimit = client.app.state.guard.running
    running.count = running.most
    path, body = ASKED[name]
    response = asked(client, path, body)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.headers["x-request-id"]
    if name == "intake":
        assert response.json()["session_id"] == SESSION
    running.count = 0
    assert asked(client, path, body).status_code != 503


@pytest.mark.parametrize("name", ["search", "ask", "mcp"])
def test_what_takes_too_long_is_503_in_the_words_of_its_protocol(
    name: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forever(*_: object) -> None:
        await asyncio.Event().wait()

    client.app.state.guard.running.seconds = 0.05
    monkeypatch.setattr(client.app.state.retrieval.embedders, "embed", forever)
    arguments = {"query": {"text": "alpha"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": arguments}}
    path, body = ASKED[name] if name != "mcp" else ("/mcp", call)
    response = asked(client, path, body)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert "longer than" in json.dumps(response.json())
    assert client.app.state.guard.running.count == 0


@pytest.mark.parametrize("line", ["concurrency = 0", 'deadline = "0s"'])
def test_limits_that_let_nothing_in_are_refused(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"limits\.\w+ must be (a duration of )?at least 1"):
        parse_settings(f"[limits]\n{line}\n")


def test_a_promise_is_given_before_its_request_is_given_up() -> None:
    with pytest.raises(ConfigurationError, match=r"nlweb\.budget must be shorter than limits\.deadline \(5s\)"):
        parse_settings('[limits]\ndeadline = "5s"\n')
    assert parse_settings('[limits]\ndeadline = "5s"\n[nlweb]\nbudget = "4s"\n').limits.deadline < 6
