"""Checks of NLWeb 0.55 as tools of the Model Context Protocol (appendices A and C)."""

from __future__ import annotations

from typing import Any

import orjson

from aidre_conformance import JSON, SSE, Checks, Exchange, Failed, NotTestable, Target, expect, require, shown
from aidre_conformance.checks.nlweb import expect_envelope, promised, questions
from aidre_conformance.checks.streams import events_of
from aidre_conformance.checks.versions import require_this_version

CHECKS = Checks("mcp", "NLWeb 0.55")
PROTOCOL = "2025-06-18"
PARAMETERS = {
    "protocolVersion": PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "aidre-conformance", "version": "1"},
}


# -- calling ---------------------------------------------------------------------------------------------------------


def session(target: Target) -> dict[str, str]:
    """Opens a session once: the headers of every further message."""

    def open_one() -> dict[str, str]:
        answer = _send(target, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMETERS}, {})
        require(answer.status == 200, f"{answer.name}: the server does not speak MCP")
        require_this_version(target.post(f"{target.url}/ask", {"query": {"text": "a"}}))
        result = _message(answer, 1).get("result")
        if not isinstance(result, dict):
            raise NotTestable(f"{answer.name}: initialize has no result")
        headers = {"mcp-protocol-version": str(result.get("protocolVersion", PROTOCOL))}
        named = answer.header("mcp-session-id")
        headers |= {} if named is None else {"mcp-session-id": named}
        _send(target, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        return headers

    return target.once("session", open_one)


def call(target: Target, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer to a call: an object with `result` or `error`."""
    headers = session(target)
    number = len(target.exchanges) + 100
    message = {"jsonrpc": "2.0", "id": number, "method": method} | ({"params": parameters} if parameters else {})
    return _message(_send(target, message, headers), number)


def call_tool(target: Target, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return call(target, "tools/call", {"name": name, "arguments": arguments})


def tools(target: Target) -> dict[str, dict[str, Any]]:
    """The tools by name."""

    def read() -> dict[str, dict[str, Any]]:
        listed = call(target, "tools/list").get("result", {}).get("tools")
        require(isinstance(listed, list), "tools/list has no tools")
        return {tool["name"]: tool for tool in listed}

    return target.once("tools", read)


def _send(target: Target, message: dict[str, Any], headers: dict[str, str]) -> Exchange:
    fields = {"content-type": JSON, "accept": f"{JSON}, {SSE}", **headers}
    return target.send("POST", f"{target.url}/mcp", fields, orjson.dumps(message))


def _message(answer: Exchange, number: int) -> dict[str, Any]:
    """The JSON-RPC message with that id, whether it comes whole or as an event."""
    messages = [event.data for event in events_of(answer)] if answer.media_type == SSE else [answer.json]
    for message in messages:
        if isinstance(message, dict) and message.get("id") == number:
            return message
    raise Failed(f"{answer.name}: there is no answer to the call {number}")


def ask_tool(target: Target, **arguments: Any) -> dict[str, Any]:
    """The result of the tool ask, for words that have results unless `query` says otherwise."""
    arguments = {"query": {"text": _words(target)}, **arguments}
    answer = call_tool(target, "ask", arguments)
    expect("result" in answer, f"ask has no result: {shown(answer.get('error'))}")
    return dict(answer["result"])


def _words(target: Target) -> str:
    def find() -> str:
        for text in (listed := questions(target)):
            result = call_tool(target, "ask", {"query": {"text": text}}).get("result")
            if isinstance(result, dict) and not result.get("isError") and _has_hits(result):
                return text
        return listed[0]

    return target.once("words for the tool", find)


def _has_hits(result: dict[str, Any]) -> bool:
    try:
        return bool(document(result).get("results"))
    except Failed:
        return True  # an answer of another form, which the checks judge


def document(result: dict[str, Any]) -> dict[str, Any]:
    """The NLWeb response in the result of a tool: its text, or its structured content."""
    content = result.get("content")
    expect(isinstance(content, list) and content, f"content is {shown(content)}")
    first = content[0] if isinstance(content, list) else {}
    expect(first.get("type") == "text" and isinstance(first.get("text"), str), f"content[0] is {shown(first)}")
    try:
        value = orjson.loads(first["text"])
    except orjson.JSONDecodeError:
        value = result.get("structuredContent")
    if isinstance(value, dict) and "_meta" not in value and isinstance(result.get("_meta"), dict):
        value = {**value, "_meta": result["_meta"]}
    expect(isinstance(value, dict), "the result has no NLWeb response")
    return dict(value)


# -- checks ----------------------------------------------------------------------------------------------------------


@CHECKS.add("A.1", "MUST", 'Tool Definition: ask. "query": {"type": "object", ..., "required": ["text"]}')
def _ask_tool(target: Target) -> None:
    listed = tools(target)
    expect("ask" in listed, f"the tools are {shown(sorted(listed))}")
    schema = listed["ask"].get("inputSchema", {})
    expect(schema.get("type") == "object", f"inputSchema.type is {shown(schema.get('type'))}")
    expect("query" in schema.get("required", ()), f"required is {shown(schema.get('required'))}")
    query = schema.get("properties", {}).get("query", {})
    kinds = query.get("type")
    is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
    expect(is_object or _has_object(query), f"query is of the type {shown(kinds)}")


def _has_object(schema: dict[str, Any]) -> bool:
    return any(subschema.get("type") == "object" for name in ("anyOf", "oneOf") for subschema in schema.get(name, ()))


@CHECKS.add("A.2", "MUST", 'Tool Definition: await. "required": ["promise_token", "action"]')
def _await_tool(target: Target) -> None:
    listed = tools(target)
    expect("await" in listed, f"the tools are {shown(sorted(listed))}")
    schema = listed["await"].get("inputSchema", {})
    required = schema.get("required", ())
    expect({"promise_token", "action"} <= set(required), f"required is {shown(required)}")
    action = schema.get("properties", {}).get("action", {})
    expect(set(action.get("enum", ())) == {"checkin", "cancel"}, f"action is {shown(action)}")


@CHECKS.add("A.3", "MUST", 'The result of a call: "content": [{"type": "text", "text": ...}]')
def _call(target: Target) -> None:
    result = ask_tool(target)
    expect(not result.get("isError"), f"isError is set: {shown(result)}")
    document(result)
    fixture = target.fixtures.query
    expect(fixture is None or _has_hits(result), f"nothing is found for the fixture `query` {shown(fixture)}")


@CHECKS.add("4", "MUST", "NLWeb responses are always JSON objects with a required metadata field (_meta).")
def _meta_of_the_tool(target: Target) -> None:
    expect_envelope(document(ask_tool(target)), "the response of the tool")


@CHECKS.add("A.3", "SHOULD", 'The result of a call carries "_meta" with response_type and version.')
def _meta_of_the_result(target: Target) -> None:
    result = ask_tool(target)
    meta = result.get("_meta") or document(result).get("_meta")
    expect(isinstance(meta, dict) and "response_type" in meta, f"_meta is {shown(result.get('_meta'))}")


@CHECKS.add("A.3", "MUST", "The arguments of the tool are query, context, prefer and meta.")
def _arguments(target: Target) -> None:
    context = {"@type": "UserDiet", "@context": "https://example.com/schemas/diet", "restrictions": ["vegan"]}
    for arguments in (
        {"context": context},
        {"prefer": {"mode": "list"}},
        {"meta": {"version": "0.55"}},
        {"prefer": {"streaming": True}},
    ):
        result = ask_tool(target, **arguments)
        expect(not result.get("isError"), f"isError is set for {shown(arguments)}")
        expect_envelope(document(result), f"the response for {shown(arguments)}")


@CHECKS.add("C.2", "SHOULD", "A promise over MCP, then the tool await returns the answer.")
def _promise_by_tool(target: Target) -> None:
    request = orjson.loads(promised(target).request_body)
    made = document(ask_tool(target, **request))
    require(made.get("_meta", {}).get("response_type") == "promise", "the tool makes no promise")
    answer = call_tool(target, "await", {"promise_token": made["promise"]["token"], "action": "checkin"})
    kind = expect_envelope(document(answer.get("result", {})), "await")
    expect(kind in {"promise", "answer"}, f"response_type is {kind}")


@CHECKS.add(
    "3.1",
    "MUST",
    "text (string, required)",
    reading="a call without it fails: as a failure of NLWeb, or as an error of JSON-RPC",
)
def _call_without_text(target: Target) -> None:
    arguments: dict[str, Any]
    for arguments in ({}, {"query": {}}, {"query": {"text": 7}}):
        answer = call_tool(target, "ask", arguments)
        result = answer.get("result")
        if "error" in answer or not isinstance(result, dict):
            expect(isinstance(answer.get("error"), dict), f"neither result nor error for {shown(arguments)}")
            continue
        if not result.get("isError"):
            kind = expect_envelope(document(result), "ask")
            expect(kind == "failure", f"response_type is {kind} for {shown(arguments)}")


@CHECKS.add("Tools", "MUST", "Protocol Errors: Standard JSON-RPC errors for issues like unknown tools.", text="MCP")
def _unknown_tool(target: Target) -> None:
    tools(target)
    answer = call_tool(target, "no_such_tool", {})
    refused = "error" in answer or bool(answer.get("result", {}).get("isError"))
    expect(refused, f"a call of an unknown tool succeeds: {shown(answer)}")


@CHECKS.add("5.1", "MUST", "-32601: The method does not exist / is not available.", text="JSON-RPC 2.0")
def _unknown_method(target: Target) -> None:
    answer = call(target, "no/such/method")
    code = answer.get("error", {}).get("code")
    expect(code == -32601, f"the code is {shown(code)}")
    expect(answer.get("jsonrpc") == "2.0", f"jsonrpc is {shown(answer.get('jsonrpc'))}")
