"""The official MCP client, with a handshake and without, against a server process and against `aidre mcp`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.clocks import WAIT_SECONDS, until
from tests.support.loaded import python
from tests.support.processes import running
from tests.support.recipes import query, without_time

if TYPE_CHECKING:  # the SDK takes a second to load, and only the tests of its client need it
    from mcp import Client

pytestmark = pytest.mark.process

MODES = ["legacy", "2026-07-28", "auto"]
LATER = {**query("pasta"), "prefer": {"respond-async": True}}


def program(store: Path) -> list[str]:
    return [*python(), "-m", "aidre.api.cli.main", "mcp", "--store", str(store)]


def stdio(store: Path) -> Any:
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    command, *words = program(store)
    return stdio_client(StdioServerParameters(command=command, args=words, env=dict(os.environ)))


async def kept(call: Callable[..., Awaitable[Any]], token: str) -> Any:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            called = await call("await", {"promise_token": token, "action": "checkin"})
            if called.structured_content["_meta"]["response_type"] != "promise":
                return called
            await asyncio.sleep(0.02)


async def talk(client: Client) -> dict[str, Any]:
    """A conversation through all tools; gives back the answer to a plain question."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import TextContent

    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == ["ask", "await", "search", "fetch"]
    answered = await client.call_tool("ask", {**query("pasta", limit=3), "prefer": {"mode": "list, summarize"}})
    assert not answered.is_error
    [part] = answered.content
    assert isinstance(part, TextContent)
    assert json.loads(part.text) == answered.structured_content
    assert (answered.meta or {})["response_type"] == "answer"
    promised = await client.call_tool("ask", LATER)
    assert promised.structured_content["_meta"]["response_type"] == "promise"
    later = await kept(client.call_tool, promised.structured_content["promise"]["token"])
    direct = await client.call_tool("ask", query("pasta"))
    assert without_time(later.structured_content) == without_time(direct.structured_content)
    found = (await client.call_tool("search", {"query": "homemade pasta dough"})).structured_content["results"]
    fetched = await client.call_tool("fetch", {"id": found[0]["id"]})
    assert fetched.structured_content["text"] == "homemade pasta dough egg flour tutorial"
    wrong = await client.call_tool("ask", {"query": {"text": ""}})
    assert wrong.is_error
    nothing = await client.call_tool("ask", query("pasta", site="nowhere.example"))
    assert not nothing.is_error
    assert nothing.structured_content["error"]["code"] == "NO_RESULTS"
    with pytest.raises(MCPError, match="no tool"):
        await client.call_tool("nope", {})
    whole: dict[str, Any] = without_time(answered.structured_content)
    return whole


@pytest.mark.slow
def test_both_modes_over_http_and_standard_input_get_the_same_answers(filled: Path) -> None:
    from mcp import Client

    async def over(server: Any, mode: str) -> dict[str, Any]:
        async with Client(server, mode=mode) as client:
            return await talk(client)

    asked = {**query("pasta", limit=3), "prefer": {"mode": "list, summarize"}}
    with running(filled) as server:
        answers = [asyncio.run(over(f"{server.url}/mcp", mode)) for mode in MODES]
        answers.append(without_time(httpx.post(f"{server.url}/ask", json=asked, timeout=WAIT_SECONDS).json()))
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
    answers += [asyncio.run(over(stdio(filled), mode)) for mode in MODES]
    assert answers[0]["results"]
    assert all(answer == answers[0] for answer in answers)


def settled(post: Callable[[str, Any], httpx.Response], token: str) -> httpx.Response:
    """The answer of /await when it is not a promise any more."""
    checking = {"promise_token": token, "action": "checkin"}
    until(lambda: post("/await", checking).status_code != 202)
    return post("/await", checking)


def test_any_of_several_workers_keeps_a_promise(filled: Path) -> None:
    with running(filled, workers=2) as server:

        def post(path: str, body: Any) -> httpx.Response:
            return httpx.post(
                server.url + path, json=body, timeout=WAIT_SECONDS
            )  # a connection of its own, so any worker may get it

        for _ in range(10):
            token = post("/ask", LATER).json()["promise"]["token"]
            response = settled(post, token)
            assert response.status_code == 200
            assert response.json()["_meta"]["response_type"] == "answer"
            cancelled = [post("/await", {"promise_token": token, "action": "cancel"}) for _ in range(2)]
            assert {one.json()["error"]["code"] for one in cancelled} == {"CANCELLED"}


def exchange(store: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """What the program says to some lines; it ends when they do."""
    return subprocess.run(
        program(store),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_SECONDS,  # a guard against hanging alone
    )


BEGIN = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
PING = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
NO_REQUESTS: list[tuple[dict[str, Any], int, str]] = [
    ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600, "method must be a string"),
    ({"id": "a", "method": "ping"}, -32600, 'jsonrpc must be "2.0"'),
    ({"jsonrpc": "2.0", "id": 3, "method": "ping", "params": []}, -32602, "params must be an object"),
    ({"jsonrpc": "2.0", "id": 4}, -32600, "method is missing: say what is asked"),
]
UNANSWERED: tuple[Any, ...] = (
    {"method": "ping"},
    [PING],
    "ping",
    {"a": 1},
    [],
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)


def called(id: str | int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


ASKED = [
    called(7, "ask", {"query": {"text": "pasta \ud83c"}}),
    called("links", "search", {"query": "whale", "collection": "long"}),
    *(called(f"call {number}", "ask", query()) for number in range(5)),
]


@pytest.fixture(scope="module")
def exchanged(filled: Path) -> subprocess.CompletedProcess[str]:
    """What one program says to messages of every kind, and to what is none."""
    messages = [BEGIN, *UNANSWERED, *(one for one, _, _ in NO_REQUESTS), PING, *ASKED]
    return exchange(filled, "garbage", "", *map(json.dumps, messages))


@pytest.fixture(scope="module")
def answers(exchanged: subprocess.CompletedProcess[str]) -> dict[Any, Any]:
    """The messages by their ids."""
    return {one["id"]: one for one in map(json.loads, exchanged.stdout.splitlines())}


def test_nothing_but_messages_stands_on_standard_output(exchanged: subprocess.CompletedProcess[str]) -> None:
    assert exchanged.returncode == 0, exchanged.stderr
    messages = [json.loads(line) for line in exchanged.stdout.splitlines()]
    asked = [one["id"] for one in (BEGIN, PING, *ASKED, *(one for one, _, _ in NO_REQUESTS))]
    assert sorted(str(one["id"]) for one in messages) == sorted(map(str, asked))
    assert messages[0]["result"]["serverInfo"]["name"] == "aidre"
    assert "Traceback" not in exchanged.stderr


def test_a_request_that_is_not_unicode_is_refused_by_its_id(answers: dict[Any, Any]) -> None:
    assert answers[7]["error"]["code"] == -32700


def test_a_request_that_is_none_is_refused_by_its_id(answers: dict[Any, Any]) -> None:
    for one, code, said in NO_REQUESTS:
        error = answers[one["id"]]["error"]
        assert (error["code"], error["message"]) == (code, said)
    assert answers[PING["id"]]["result"] == {}


def test_what_was_asked_before_the_input_ended_is_answered(answers: dict[Any, Any]) -> None:
    assert all(answers[f"call {number}"]["result"]["structuredContent"]["results"] for number in range(5))


def test_over_standard_input_nothing_links_to_a_server_that_is_not_there(answers: dict[Any, Any]) -> None:
    results = answers["links"]["result"]["structuredContent"]["results"]
    assert {one["url"] for one in results} == {""}


def test_what_was_cancelled_is_not_waited_for(filled: Path) -> None:
    begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": query()}}
    named: list[dict[str, Any] | None] = [None, {}, {"requestId": []}, {"requestId": 1}]
    ended = [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params} for params in named]
    done = exchange(filled, *map(json.dumps, [begin, call, *ended]))
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0)
    assert json.loads(done.stdout.splitlines()[0])["id"] == 0


def test_without_a_store_it_says_so_on_standard_error(tmp_path: Path) -> None:
    done = exchange(tmp_path / "missing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no store at" in done.stderr
