"""Faults of the small server in NLWeb and its tools over MCP, and the check that has to find each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.wrong_servers.faults.exchange import (
    Answer,
    Request,
    Transformation,
    on_answer,
    on_json,
    on_request,
    on_request_json,
)
from tests.wrong_servers.small_faults import Planted, drop, in_, set_, status, to, when

ASK, AWAIT, MCP = "/ask", "/await", "/mcp"


def _ask_json(change: Callable[[Any], Any]) -> Transformation:
    return on_json("POST", ASK, change)


def _ask_request(change: Callable[[Any], Any]) -> Transformation:
    return on_request_json("POST", ASK, change)


def _has(name: str, member: str) -> Callable[[Any], Any]:
    """A condition: the section `name` of a request has a member."""
    return lambda body: isinstance(body.get(name), dict) and member in body[name]


def _invalid(answer: Answer) -> Answer:
    meta = {"response_type": "failure", "version": "0.55"}
    return answer.with_json({"_meta": meta, "error": {"code": "INVALID_QUERY", "message": ""}}).with_status(400)


def _code(old: str, new: str) -> Callable[[Any], None]:
    return in_("error.code", lambda code: new if code == old else code)


def _no_results_is_404(answer: Answer) -> Answer:
    return answer.with_status(404) if b"NO_RESULTS" in answer.body else answer


def _forget(section: str, member: str) -> Callable[[Any], None]:
    return in_(section, drop(member))


def _fill_text(body: Any) -> None:
    query = body.get("query")
    if isinstance(query, dict) and "text" not in query:
        query["text"] = "keys"


def _any_text(body: Any) -> None:
    query = body.get("query")
    if isinstance(query, dict) and "text" in query and not isinstance(query["text"], str):
        query["text"] = "keys"


def _other_default(body: Any) -> None:
    body["prefer"] = {"response_format": "chatgpt_app"} | (body.get("prefer") or {})


def _always_streams(request: Request) -> Request:
    body = request.json
    if "event-stream" not in (request.header("accept") or "") or not isinstance(body, dict):
        return request
    return request.with_json({**body, "prefer": {**(body.get("prefer") or {}), "streaming": True}})


def _events(change: Callable[[str], str]) -> Transformation:
    """Changes the text of a stream."""

    def changed(answer: Answer) -> Answer:
        is_stream = (answer.header("content-type") or "").startswith("text/event-stream")
        return answer.with_body(change(answer.body.decode()).encode()) if is_stream else answer

    return on_answer("POST", ASK, changed)


def _without_event(name: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{one}\n\n" for one in text.split("\n\n") if one and f"event: {name}\n" not in one)


def _counted_from_one(text: str) -> str:
    for number in range(9, -1, -1):
        text = text.replace(f'"index": {number},', f'"index": {number + 1},')
    return text


def _tool(method: str, change: Callable[[Any], Any]) -> Transformation:
    """Changes the result of a call over MCP."""

    def changed(answer: Answer) -> Answer:
        asked, body = answer.request.json, answer.json
        if isinstance(asked, dict) and asked.get("method") == method and isinstance(body, dict) and "result" in body:
            change(body["result"])
            return answer.with_json(body)
        return answer

    return on_answer("POST", MCP, changed)


def _document(change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Changes the NLWeb response that the result of a tool holds as text."""

    def changed(result: Any) -> None:
        document = json.loads(result["content"][0]["text"])
        change(document)
        result["content"][0]["text"] = json.dumps(document)
        result.pop("_meta", None)

    return changed


def _unknown_tool_succeeds(answer: Answer) -> Answer:
    body = answer.json
    if isinstance(body, dict) and body.get("error", {}).get("code") == -32602:
        return answer.with_json({"jsonrpc": "2.0", "id": body["id"], "result": {"content": []}})
    return answer


def _not_cancelled(body: Any) -> None:
    if body.get("action") == "cancel":
        body["action"] = "checkin"


SUMMARY = '"@type": "SearchSummary"'
NLWEB_PLANTED: tuple[Planted, ...] = (
    ("answer_without_meta", "nlweb.4.envelope", _ask_json(drop("_meta"))),
    ("answer_without_version", "nlweb.4.envelope", _ask_json(in_("_meta", drop("version")))),
    ("capital_response_type", "nlweb.4.envelope", _ask_json(in_("_meta.response_type", str.capitalize))),
    ("answer_called_items", "nlweb.4.envelope", _ask_json(lambda body: {"_meta": body["_meta"], "items": []})),
    (
        "nothing_is_ever_found",
        "nlweb.7.1.ask",
        _ask_request(in_("query.text", lambda text: "zzz" if isinstance(text, str) and text.strip() else text)),
    ),
    ("text_may_be_left_out", "nlweb.3.1.text-is-required", _ask_request(_fill_text)),
    ("text_may_be_anything", "nlweb.3.1.text-is-required", _ask_request(_any_text)),
    ("bad_request_by_another_name", "nlweb.4.1.4.invalid-query", _ask_json(_code("INVALID_QUERY", "BAD_REQUEST"))),
    (
        "broken_json_is_a_crash",
        "nlweb.7.4.bad-request",
        on_answer("POST", ASK, lambda answer: answer if answer.request.json else answer.with_status(500)),
    ),
    ("filters_refused", "nlweb.3.1.filters-are-an-open-set", when("POST", ASK, _has("query", "cuisine"), _invalid)),
    ("site_ignored", "nlweb.3.1.site", _ask_request(_forget("query", "site"))),
    ("item_type_ignored", "nlweb.3.1.item-type", _ask_request(_forget("query", "itemType"))),
    (
        "custom_context_refused",
        "nlweb.3.2.custom-context",
        when("POST", ASK, _has("context", "@context"), _invalid),
    ),
    (
        "context_by_its_type_alone",
        "nlweb.3.2.default-context",
        when("POST", ASK, lambda body: "prev" in body.get("context", ()) and "@type" not in body["context"], _invalid),
    ),
    ("preferences_refused", "nlweb.3.3.prefer", when("POST", ASK, _has("prefer", "accept-language"), _invalid)),
    (
        "user_is_a_text_alone",
        "nlweb.3.4.meta",
        when("POST", ASK, lambda body: isinstance(body.get("meta", {}).get("user"), dict), _invalid),
    ),
    ("extensions_refused", "nlweb.2.2.extensions", when("POST", ASK, lambda body: "@context" in body, _invalid)),
    ("items_without_type", "nlweb.4.1.1.types", _ask_json(in_("results.*", drop("@type")))),
    ("grounding_is_a_text", "nlweb.4.1.1.grounding", _ask_json(in_("results.*.grounding", to("https://x")))),
    ("action_without_protocol", "nlweb.5.actions", _ask_json(in_("results.*.actions.*", drop("protocol")))),
    ("action_without_endpoint", "nlweb.5.actions", _ask_json(in_("results.*.actions.*", drop("endpoint")))),
    ("chatgpt_app_by_default", "nlweb.3.3.1.default-format", _ask_request(_other_default)),
    ("content_is_a_text", "nlweb.4.1.1.chatgpt-app", _ask_json(in_("content", lambda parts: parts[0]["text"]))),
    ("no_structured_data", "nlweb.4.1.1.chatgpt-app", _ask_json(drop("structuredData"))),
    ("any_format", "nlweb.4.1.4.unknown-format", _ask_request(_forget("prefer", "response_format"))),
    ("any_mode", "nlweb.4.1.4.unknown-mode", _ask_request(_forget("prefer", "mode"))),
    (
        "one_mode_alone",
        "nlweb.3.3.2.modes",
        when("POST", ASK, lambda body: body.get("prefer", {}).get("mode") == "list,summarize", _invalid),
    ),
    ("summary_without_text", "nlweb.4.1.1.summary", _ask_json(in_("results.*", drop("text")))),
    ("no_results_is_404", "nlweb.7.4.no-results", on_answer("POST", ASK, _no_results_is_404)),
    ("no_stream", "nlweb.6.stream", _ask_request(_forget("prefer", "streaming"))),
    ("streams_by_accept", "nlweb.7.2.prefer-decides", on_request("POST", ASK, _always_streams)),
    ("stream_without_start", "nlweb.6.1.start", _events(_without_event("start"))),
    ("start_that_says_no_stream", "nlweb.6.1.start", _events(lambda text: text.replace(', "streaming": true', ""))),
    ("stream_without_end", "nlweb.6.1.complete", _events(_without_event("complete"))),
    ("stream_counts_from_one", "nlweb.6.1.index", _events(_counted_from_one)),
    ("stream_leaves_one_out", "nlweb.6.1.same-items", _events(lambda text: text.replace("/locks", "/doors"))),
    (
        "stream_without_its_summary",
        "nlweb.4.1.1.summary-in-the-stream",
        _events(lambda text: "".join(f"{one}\n\n" for one in text.split("\n\n") if one and SUMMARY not in one)),
    ),
    (
        "stream_error_without_meta",
        "nlweb.6.1.stream-error",
        _events(lambda text: text.replace('"_meta": {"response_type": "failure", "version": "0.55"}, ', "")),
    ),
    ("promise_with_200", "nlweb.7.4.promise", on_answer("POST", ASK, status(200), 202)),
    ("promise_without_token", "nlweb.7.4.promise", _ask_json(in_("promise", drop("token")))),
    ("cancel_only_looks", "nlweb.4.2.cancel", on_request_json("POST", AWAIT, _not_cancelled)),
    (
        "unknown_promise_is_an_answer",
        "nlweb.4.2.unknown-promise",
        on_json("POST", AWAIT, lambda body: {"_meta": {**body["_meta"], "response_type": "answer"}, "results": []}),
    ),
    ("any_await", "nlweb.4.2.malformed-await", on_answer("POST", AWAIT, status(200), 400)),
    ("ask_tool_with_a_text", "mcp.a.1.ask-tool", _tool("tools/list", in_("tools.*.inputSchema", set_(required=[])))),
    ("no_await_tool", "mcp.a.2.await-tool", _tool("tools/list", in_("tools", lambda tools: tools[:1]))),
    ("tool_without_content", "mcp.a.3.call", _tool("tools/call", set_(content=[]))),
    ("tool_answers_without_meta", "mcp.4.meta-of-the-tool", _tool("tools/call", _document(drop("_meta")))),
    ("unknown_tool_succeeds", "mcp.tools.unknown-tool", on_answer("POST", MCP, _unknown_tool_succeeds)),
    (
        "unknown_method_by_another_code",
        "mcp.5.1.unknown-method",
        on_json("POST", MCP, in_("error.code", lambda code: -32600 if code == -32601 else code)),
    ),
    ("items_with_more_members", None, _ask_json(in_("results.*", set_(image="https://x/y.png", price=3)))),
    ("meta_with_more_members", None, _ask_json(in_("_meta", set_(took_ms=7)))),
)
