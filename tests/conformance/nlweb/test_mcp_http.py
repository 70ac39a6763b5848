"""POST /mcp as HTTP: methods, hosts, origins, limits, malformed messages, clients that leave, what clients send."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.api.protocols.nlweb.answer import answering
from tests import ROOT
from tests.support.clients import Client, serving
from tests.support.clocks import WAIT_SECONDS
from tests.support.mcp_calls import ENVELOPE, MODERN, call, message, post, refused, result
from tests.support.recipes import CONFIGURATION, JSON, query

AXIOS = "application/json, text/plain, */*"


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT"])
def test_anything_but_post_ends_at_once_with_405(client: Client, method: str) -> None:
    response = client.request(method, "/mcp", headers={"accept": "text/event-stream"})
    assert response.status_code == 405
    assert "POST" in response.headers["allow"]


def test_a_slash_behind_the_address_changes_nothing(client: Client) -> None:
    options: dict[str, Any] = {"json": message("ping"), "headers": {"content-type": "application/json"}}
    plain, slashed = (client.request("POST", path, **options) for path in ("/mcp", "/mcp/"))
    assert (slashed.status_code, slashed.content) == (plain.status_code, plain.content) == (200, plain.content)
    assert client.get("/mcp/").status_code == client.get("/mcp").status_code == 405
    assert client.request("POST", "/mcp//", **options).status_code == 404


@pytest.mark.parametrize("id", [{}, [], [1], True, 1.5, None])
def test_an_id_that_could_not_be_answered_is_refused(client: Client, id: Any) -> None:
    refused(post(client, {**message("ping"), "id": id}), -32600, 400)


def test_a_browser_may_ask_from_anywhere(client: Client) -> None:
    asking = {"origin": "https://chat.example", "access-control-request-method": "POST"}
    wanted = {**asking, "access-control-request-headers": "content-type, mcp-protocol-version"}
    allowed = client.request("OPTIONS", "/mcp", headers=wanted)
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-headers"] == "content-type, mcp-protocol-version"
    response = post(client, message("ping"), origin="https://chat.example")
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, "*")


def test_hosts_of_loopback_and_of_the_base_url_are_served_and_no_other(tmp_path: Path) -> None:
    with serving(tmp_path, '[server]\nbase_url = "https://ai.example.com/path"') as client:
        for host in ("ai.example.com", "AI.Example.Com:443", "127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:80"):
            assert result(post(client, message("ping"), host=host)) == {}
        for host in ("evil.example", "ai.example.com.evil.example", "127.0.0.1.evil.example"):
            response = post(client, message("ping"), host=host)
            assert response.status_code == 421
            assert "server.hosts" in response.json()["error"]["message"]


def test_where_origins_are_listed_others_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, '[server]\ncors_origins = ["https://chat.example"]') as client:
        for origin in ("https://chat.example", "http://127.0.0.1:8000"):
            assert result(post(client, message("ping"), origin=origin)) == {}
        for origin in ("https://evil.example", "http://localhost:3000"):
            response = post(client, message("ping"), origin=origin)
            assert response.status_code == 403
            assert "server.cors_origins" in response.json()["error"]["message"]


@pytest.mark.parametrize("accept", [None, "", "*/*", JSON, AXIOS, "application/json, text/event-stream"])
def test_any_accept_that_admits_json_is_served(client: Client, accept: str | None) -> None:
    headers = {} if accept is None else {"accept": accept}
    assert result(post(client, message("ping"), **headers)) == {}
    for version in ({}, {"mcp_protocol_version": MODERN}):
        assert "Accept" in refused(post(client, message("ping"), accept="text/html", **version), -32600, 406)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 10_000, -32700),
        (b'"x"', -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"{}", -32600),
        (b'{"function_call":{"name":"ask","arguments":"{}"}}', -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":5}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
    ],
)
def test_what_is_no_message_is_400(client: Client, body: bytes, code: int) -> None:
    said = refused(post(client, body), code, 400)
    assert "\n" not in said
    assert "pydantic" not in said


def test_what_is_asked_wrongly_is_refused_by_its_id(client: Client) -> None:
    assert post(client, {"jsonrpc": "2.0", "id": "a", "method": "ping", "params": 5}).json()["id"] == "a"
    assert post(client, {"jsonrpc": "2.0", "id": [], "method": "ping"}).json()["id"] is None


@pytest.mark.slow
def test_notifications_and_answers_are_taken(client: Client) -> None:
    told: list[dict[str, Any]] = [
        {"method": "notifications/initialized"},
        {"id": 7, "result": {}},
        {"id": None, "error": {"code": 1, "message": "x"}},
    ]
    for one in told:
        response = post(client, {"jsonrpc": "2.0", **one})
        assert (response.status_code, response.content) == (202, b"")


def test_a_media_type_is_the_same_in_capitals(client: Client) -> None:
    assert result(post(client, message("ping"), content_type="Application/JSON; Charset=UTF-8")) == {}


def test_limits_of_http_are_said_as_errors_of_json_rpc(client: Client) -> None:
    assert "bytes" in refused(post(client, b'{"a":"' + b"x" * 20_000 + b'"}'), -32_600, 413)
    assert "Content-Type" in refused(post(client, message("ping"), content_type="text/plain"), -32_600, 415)


def test_beyond_the_rate_an_error_of_json_rpc_says_when_to_come_back(filled: Path) -> None:
    with serving(filled, CONFIGURATION.replace("[limits]", '[limits]\nrate = "1/minute"')) as limited:
        answers = [post(limited, message("ping")) for _ in range(3)]
    late = answers[-1]
    refused(late, -32_000, 429)
    assert (late.json()["id"], late.json()["error"]["data"]) == (None, {"code": "RATE_LIMITED"})
    assert int(late.headers["retry-after"]) >= 1


def test_two_versions_in_one_request_are_refused(client: Client) -> None:
    body = message("tools/list", {"_meta": ENVELOPE})
    for version in ("2025-11-25", "2024-11-05", "1999-01-01"):
        assert MODERN in refused(
            post(client, body, mcp_protocol_version=version, mcp_method="tools/list"), -32_020, 400
        )
    older = message("tools/list", {"_meta": {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2025-11-25"}})
    refused(post(client, older, mcp_protocol_version=MODERN, mcp_method="tools/list"), -32_020, 400)
    assert result(post(client, body, mcp_protocol_version=MODERN, mcp_method="tools/list"))["tools"]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_recorded_4_and_6_initialize_needs_no_capabilities(client: Client, version: str) -> None:
    mores: list[dict[str, Any]] = [{"clientInfo": {"name": "nlweb-ui", "version": "1.0.0"}}, {}, {"capabilities": {}}]
    for more in mores:
        begun = result(post(client, message("initialize", {"protocolVersion": version, **more}), accept=AXIOS))
        assert begun["protocolVersion"] == version
        assert begun["serverInfo"]["name"] == "aidre"
        assert "tools" in begun["capabilities"]
    assert post(client, {"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
    assert len(result(post(client, message("tools/list"), accept=AXIOS))["tools"]) == 4


def test_recorded_5_a_flat_call_of_nlweb_ui_is_answered(client: Client) -> None:
    arguments = {
        "query": "healthy breakfast eggs",
        "site": "breakfast.example",
        "num_results": 2,
        "mode": "list",
        "db": "x",
    }
    called = call(client, "ask", arguments, accept=AXIOS)
    assert [item["site"] for item in called["structuredContent"]["results"]] == ["breakfast.example"] * 2
    assert called["_meta"]["version"] == "0.55"


def test_recorded_9_a_client_without_a_handshake_is_answered(client: Client) -> None:
    headers = {"mcp_protocol_version": MODERN, "accept": "application/json, text/event-stream"}
    found = result(
        post(client, message("server/discover", {"_meta": ENVELOPE}), mcp_method="server/discover", **headers)
    )
    assert "tools" in found["capabilities"]
    params = {"name": "ask", "arguments": query(limit=1), "_meta": ENVELOPE}
    called = result(post(client, message("tools/call", params), mcp_method="tools/call", mcp_name="ask", **headers))
    assert len(called["structuredContent"]["results"]) == 1
    assert called["_meta"]["response_type"] == "answer"


def test_a_client_that_goes_away_ends_its_work(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def endless(*arguments: Any) -> None:
        began.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    async def leave(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        began.clear()
        ended.clear()
        coming = [{"type": "http.request", "body": body}]

        async def receive() -> dict[str, Any]:
            if coming:
                return coming.pop()
            await began.wait()
            return {"type": "http.disconnect"}

        async def send(part: Any) -> None:
            raise AssertionError("nobody is there to be answered")

        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": headers}
        await client.app(scope, receive, send)
        await asyncio.wait_for(ended.wait(), WAIT_SECONDS)

    monkeypatch.setattr(answering, "find_documents", endless)
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    params = {"name": "ask", "arguments": query(), "_meta": ENVELOPE}
    modern = [(b"mcp-protocol-version", MODERN.encode()), (b"mcp-method", b"tools/call"), (b"mcp-name", b"ask")]
    for more in ([], modern):
        client._runner.run(leave([*headers, *more], json.dumps(message("tools/call", params)).encode()))


def test_first_requests_that_come_together_are_all_answered(filled: Path) -> None:
    with serving(filled, CONFIGURATION) as client:

        async def together() -> list[httpx.Response]:
            headers = {"content-type": JSON}
            asked = [client._http.post("/mcp", json=message("ping"), headers=headers) for _ in range(8)]
            return await asyncio.gather(*asked)

        assert [result(response) for response in client._runner.run(together())] == [{}] * 8


@pytest.mark.process
def test_the_sdk_waits_until_it_is_needed(filled: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.support.clients import serving\n"
        "with serving(Path(sys.argv[1])) as client:\n"
        "    asked = client.request('POST', '/ask', json={'query': {'text': 'pasta'}})\n"
        "    assert asked.status_code == 200\n"
        "    assert not {'mcp', 'mcp_types', 'pydantic'} & set(sys.modules)\n"
        "    ping = {'jsonrpc': '2.0', 'id': 1, 'method': 'ping'}\n"
        "    assert client.request('POST', '/mcp', json=ping).status_code == 200\n"
        "    assert 'mcp' in sys.modules\n"
    )
    command = [sys.executable, "-c", code, str(filled)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
