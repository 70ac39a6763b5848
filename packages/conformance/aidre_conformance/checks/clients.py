"""Profile `compat`: requests as clients in the field send them, and what these clients would show of the answer.

Each request was recorded or read from the source of the client; what is judged is what the client reads, by its own
rules. Nothing here is a demand of a text: a server that follows the letter may fail.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import orjson

from aidre_conformance import JSON, SSE, Checks, Exchange, Failed, NotTestable, Target, expect, require, shown
from aidre_conformance.checks.nlweb import ask_url, question
from aidre_conformance.checks.streams import events_of

CHECKS = Checks("compat", "client")
BROWSER = "application/json, text/plain, */*"


def _ask(target: Target, body: Any, **headers: str) -> Exchange:
    return target.post(ask_url(target), body, **headers)


def _lines(answer: Exchange) -> list[Any]:
    """The JSON documents of a client that reads nothing but lines that begin with `data: `."""
    found = []
    for line in answer.content.decode("utf-8", errors="replace").splitlines():
        if line.startswith("data: "):
            try:
                found.append(orjson.loads(line[6:]))
            except orjson.JSONDecodeError:
                raise Failed(f"a line is not JSON: {shown(line)}") from None
    return [item for item in found if isinstance(item, dict)]


def _named(items: list[Any]) -> list[Any]:
    """What a page can show of items: those with a name or a title."""
    return [item for item in items if isinstance(item, dict) and (item.get("name") or item.get("title"))]


def _has_ask(target: Target) -> None:
    question(target)


@CHECKS.add("search-components", "SHOULD", "useNlWeb reads `data: ` lines, and shows results or structuredData.")
def _search_components(target: Target) -> None:
    body = {
        "query": {"text": question(target), "max_results": 9, "num_results": 50},
        "prefer": {"streaming": True, "response_format": "conv_search", "mode": "list"},
        "meta": {"api_version": "0.54", "start_num": 0},
        "context": {"@type": "ConversationalContext", "prev": []},
    }
    answer = _ask(target, body, accept=SSE)
    expect(answer.status == 200, f"{answer.name}: the page shows an error")
    frames = _lines(answer)
    items = [item for frame in frames for name in ("results", "structuredData") for item in frame.get(name) or ()]
    expect(_named(items), f"the page shows nothing of {len(frames)} frames")


@CHECKS.add("search-components", "SHOULD", "useNlWeb shows an item of @type Summary above the results.")
def _search_components_summary(target: Target) -> None:
    body = {
        "query": {"text": question(target), "max_results": 9, "num_results": 50},
        "prefer": {"streaming": True, "response_format": "conv_search", "mode": "list, summarize"},
        "meta": {"api_version": "0.54"},
    }
    answer = _ask(target, body, accept=SSE)
    items = [item for frame in _lines(answer) for item in frame.get("results") or ()]
    kinds = {str(item.get("@type")) for item in items if isinstance(item, dict)}
    require(any("ummary" in kind for kind in kinds), "the server does not summarize")
    expect("Summary" in kinds, f"the page shows no summary: the types are {shown(sorted(kinds))}")


@CHECKS.add(
    "iunera", "SHOULD", "The JavaScript client reads unnamed events with message_type result_batch and complete."
)
def _iunera(target: Target) -> None:
    query = urlencode({"query_id": "q1", "query": question(target), "generate_mode": "list", "prev": "[]"})
    answer = target.get(f"{ask_url(target)}?{query}", accept=SSE)
    expect(answer.status == 200 and answer.media_type == SSE, f"{answer.name} as {answer.media_type}: nothing is shown")
    frames = [event.data for event in events_of(answer) if event.name == "message" and isinstance(event.data, dict)]
    items = [
        item for frame in frames if frame.get("message_type") == "result_batch" for item in frame.get("results") or ()
    ]
    expect(_named(items), "nothing is shown: no result_batch has results")
    expect(
        any(frame.get("message_type") == "complete" for frame in frames),
        "the browser asks again: nothing says complete",
    )


@CHECKS.add(
    "nlweb-chat", "SHOULD", "nlweb-chat.js sees unnamed events alone, and shows results or resources in content."
)
def _nlweb_chat(target: Target) -> None:
    query = urlencode({"query": question(target), "max_results": 10, "mode": "list"})
    answer = target.get(f"{ask_url(target)}?{query}", accept=SSE)
    expect(answer.status == 200 and answer.media_type == SSE, f"{answer.name} as {answer.media_type}: nothing is shown")
    frames = [event.data for event in events_of(answer) if event.name == "message" and isinstance(event.data, dict)]
    items = [item for frame in frames for item in frame.get("results") or ()]
    for frame in frames:
        content = frame.get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        items += [part.get("resource", {}).get("data") for part in parts]
    expect(_named(items), "nothing is shown: no unnamed event has results")


@CHECKS.add("nlweb-ui", "SHOULD", "nlweb-ui sends initialize without capabilities, as axios does.")
def _nlweb_ui_initialize(target: Target) -> None:
    parameters = {"protocolVersion": "2024-11-05", "clientInfo": {"name": "nlweb-ui", "version": "1.0.0"}}
    answer = _mcp(target, {"method": "initialize", "params": parameters})
    expect("result" in answer, f"it does not connect: {shown(answer.get('error'))}")
    listed = _mcp(target, {"method": "tools/list"})
    names = [tool.get("name") for tool in listed.get("result", {}).get("tools", [])]
    expect("ask" in names, f"it finds no tool ask: {shown(names)}")


@CHECKS.add("nlweb-ui", "SHOULD", "nlweb-ui calls ask with a query that is a string, and shows its content.")
def _nlweb_ui_ask(target: Target) -> None:
    parameters = {"name": "ask", "arguments": {"query": question(target), "num_results": 5}}
    answer = _mcp(target, {"method": "tools/call", "params": parameters})
    result = answer.get("result")
    expect(isinstance(result, dict) and not result.get("isError"), f"it shows an error: {shown(answer)}")
    content = result.get("content") if isinstance(result, dict) else None
    expect(content and content[0].get("text"), "it shows nothing")


@CHECKS.add("openai-mcp", "SHOULD", "OpenAI's connector initializes with 2025-03-26 and lists the tools.")
def _openai(target: Target) -> None:
    parameters = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "openai-mcp", "version": "1.0.0"},
    }
    answer = _mcp(target, {"method": "initialize", "params": parameters}, accept=f"{JSON}, {SSE}")
    expect("result" in answer, f"it does not connect: {shown(answer.get('error'))}")
    listed = _mcp(target, {"method": "tools/list"}, accept=f"{JSON}, {SSE}")
    expect(listed.get("result", {}).get("tools"), "it finds no tools")


@CHECKS.add("mcp-2026", "SHOULD", "A client of MCP 2026-07-28 calls without a handshake.")
def _without_a_handshake(target: Target) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "mcp", "version": "2.3.0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    arguments = {"query": {"text": question(target)}}
    message = {"method": "tools/call", "params": {"name": "ask", "arguments": arguments, "_meta": meta}}
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "ask"}
    answer = _mcp(target, message, accept=f"{JSON}, {SSE}", **headers)
    result = answer.get("result")
    expect(isinstance(result, dict) and result.get("content"), f"the call fails: {shown(answer)}")


@CHECKS.add("rust-sdk", "SHOULD", "The Rust SDK names a site by its URL and reads results[].{@type, name, url}.")
def _rust_sdk(target: Target) -> None:
    body = {
        "query": {"text": question(target), "site": target.origin, "limit": 10},
        "prefer": {"streaming": False, "response_format": "conversational_search", "mode": "list"},
        "meta": {"version": "0.55"},
    }
    answer = _ask(target, body, accept=JSON)
    expect(answer.status == 200, f"{answer.name}: an API error")
    kind = answer.object.get("_meta", {}).get("response_type")
    if kind == "failure":  # the site is not one of the server's
        expect(isinstance(answer.object.get("error", {}).get("code"), str), "the failure has no code")
        del body["query"]["site"]  # type: ignore[attr-defined]
        answer = _ask(target, body, accept=JSON)
    items = answer.object.get("results")
    expect(isinstance(items, list) and _named(items or []), "it shows nothing")
    for item in items or ():
        expect("name" in item and "@type" in item, f"an item lacks name or @type: {shown(item)}")


@CHECKS.add("scanner", "SHOULD", "Readiness scanners GET /ask without a query, and read a 4xx as no endpoint.")
def _scanner(target: Target) -> None:
    _has_ask(target)
    answer = target.get(ask_url(target))
    expect(answer.status == 200, f"{answer.name}: the scanner reports no endpoint")
    meta = answer.object.get("_meta", {})
    expect("response_type" in meta and "version" in meta, f"the scanner finds no _meta: {shown(answer.object)}")


@CHECKS.add("get", "SHOULD", "Clients of earlier versions ask by GET, with query, q or question.")
def _by_get(target: Target) -> None:
    text = quote(question(target))
    for name in ("query", "q", "question"):
        answer = target.get(f"{ask_url(target)}?{name}={text}&streaming=false", accept=JSON)
        expect(answer.status == 200, f"{answer.name}: an error is shown")
        items = answer.object.get("results") or answer.object.get("content") or []
        expect(items, f"nothing is shown for ?{name}=")


@CHECKS.add("form", "SHOULD", "Older clients send the question as a form.")
def _form(target: Target) -> None:
    content = urlencode({"query": question(target), "streaming": "false"}).encode()
    fields = {"content-type": "application/x-www-form-urlencoded", "accept": JSON}
    answer = target.send("POST", ask_url(target), fields, content)
    expect(answer.status == 200 and answer.object.get("results"), f"{answer.name}: nothing is shown")


@CHECKS.add("flat", "SHOULD", "Clients of the first version send a flat body: query, site, generate_mode.")
def _flat(target: Target) -> None:
    body = {"query": question(target), "generate_mode": "list", "prev": [], "streaming": False}
    answer = _ask(target, body, accept=JSON)
    expect(answer.status == 200, f"{answer.name}: an error is shown")
    expect(_named(answer.object.get("results") or []), "nothing is shown")


@CHECKS.add("wordpress", "SHOULD", "wpnlweb sends question and context.limit.")
def _wordpress(target: Target) -> None:
    answer = _ask(target, {"question": question(target), "context": {"limit": 5}}, accept=JSON)
    expect(answer.status == 200, f"{answer.name}: an error is shown")
    items = answer.object.get("results") or answer.object.get("items") or []
    expect(_named(items), "nothing is shown")
    expect(len(items) <= 5, f"{len(items)} items are shown, five were asked for")


@CHECKS.add("memory", "SHOULD", "Clients of 0.54 send context.memory as a list.")
def _memory(target: Target) -> None:
    body = {"query": {"text": question(target)}, "context": {"memory": ["vegetarian"], "prev": "muffins"}}
    answer = _ask(target, body, accept=JSON)
    expect(answer.status in {200, 400}, f"{answer.name}: an error of the server's")
    expect(answer.status == 200, f"{answer.name}: an error is shown")


@CHECKS.add("browser", "SHOULD", "A page of another origin asks first: OPTIONS with Access-Control-Request-Method.")
def _preflight(target: Target) -> None:
    origin = target.origin if target.is_loopback else "https://page.example"
    fields = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    answer = target.send("OPTIONS", ask_url(target), fields)
    expect(answer.status in {200, 204}, f"{answer.name}: the browser sends no question")
    expect(
        answer.header("access-control-allow-origin") in {"*", origin}, f"{answer.name}: the browser sends no question"
    )
    allowed = (answer.header("access-control-allow-headers") or "").lower()
    expect("content-type" in allowed or "*" in allowed, f"Access-Control-Allow-Headers is {shown(allowed)}")


def _mcp(target: Target, message: dict[str, Any], *, accept: str = BROWSER, **headers: str) -> dict[str, Any]:
    """A call of JSON-RPC without a session. NotTestable where there is no MCP."""
    url = f"{target.url}/mcp"
    answer = target.post(url, {"jsonrpc": "2.0", "id": 7, **message}, accept=accept, **headers)
    if answer.status in {404, 405, 501} and "json" not in answer.media_type:
        raise NotTestable(f"{answer.name}: the server does not speak MCP")
    messages = [event.data for event in events_of(answer)] if answer.media_type == SSE else [answer.json]
    for reply in messages:
        if isinstance(reply, dict) and ("result" in reply or "error" in reply):
            return reply
    raise Failed(f"{answer.name}: there is no answer")
