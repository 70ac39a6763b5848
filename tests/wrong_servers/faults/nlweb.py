"""Faults of NLWeb 0.55, over HTTP and as tools of MCP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from tests.wrong_servers.faults.exchange import (
    Answer,
    App,
    Fault,
    Request,
    on_answer,
    on_json,
    on_request_json,
)

ASK, AWAIT, MCP = "/ask", "/await", "/mcp"
FILTERS = {"text", "site", "itemType", "location", "price", "limit", "num_results", "max_results"}
FORMATS = {"conversational_search", "chatgpt_app"}
Event: TypeAlias = tuple[str, Any]
"""Name and data."""
_fault = partial(Fault, protocol="nlweb")


def _code(body: Any) -> Any:
    """Of a failure; None of any other answer."""
    error = body.get("error") if isinstance(body, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def _capitalize(body: Any) -> None:
    if "_meta" in body:
        body["_meta"]["response_type"] = body["_meta"]["response_type"].capitalize()


def _drop_version_of_failure(body: Any) -> None:
    if body.get("_meta", {}).get("response_type") == "failure":
        del body["_meta"]["version"]


async def _refuse_filters(request: Request, app: App) -> Answer:
    query = request.json.get("query") if request.is_for("POST", ASK) and isinstance(request.json, dict) else None
    if not isinstance(query, dict) or FILTERS.issuperset(query):
        return await app(request)
    answer = await app(request.with_json({"query": {}}))
    unknown = sorted(set(query) - FILTERS)
    error = {"code": "INVALID_QUERY", "message": f"query has unknown members: {', '.join(unknown)}"}
    return answer.with_json({**answer.json, "error": error})


def _forget_site(body: Any) -> None:
    if isinstance(body.get("query"), dict):
        body["query"].pop("site", None)


def _forget_unknown_format(body: Any) -> None:
    prefer = body.get("prefer")
    asked = prefer.get("response_format") if isinstance(prefer, dict) else None
    if isinstance(asked, str) and FORMATS.isdisjoint(part.strip() for part in asked.split(",")):
        del prefer["response_format"]


def _join_content(body: Any) -> None:
    if "structuredData" in body:
        body["content"] = "\n".join(part["text"] for part in body["content"])


def _rename_summary(body: Any) -> None:
    for item in body.get("results", ()):
        if item.get("@type") == "SearchSummary":
            del item["@type"]
            item["summary"] = item.pop("text")


def _blame_query(body: Any) -> None:
    if _code(body) == "UNSUPPORTED_MODE":
        body["error"]["code"] = "INVALID_QUERY"


def _only_check(body: Any) -> None:
    if body.get("action") == "cancel":
        body["action"] = "checkin"


def _fill_text(body: Any) -> None:
    query = body.get("query")
    if isinstance(query, dict) and "text" not in query:
        query["text"] = "a"


def _not_found(answer: Answer) -> Answer:
    return answer.with_status(404) if _code(answer.json) == "NO_RESULTS" else answer


def _on_events(change: Callable[[list[Event]], list[Event]]) -> Callable[[Answer], Answer]:
    """Changes the events of a stream."""

    def changed(answer: Answer) -> Answer:
        if not (answer.header("content-type") or "").startswith("text/event-stream"):
            return answer
        found = re.findall(r"event: (.*)\ndata: (.*)\n\n", answer.body.decode())
        if not found:  # a stream for clients of earlier versions, which has no names of events
            return answer
        known = [(name, json.loads(data)) for name, data in found]
        text = "".join(f"event: {name}\ndata: {_text(data)}\n\n" for name, data in change(known))
        return replace(answer, body=text.encode())

    return changed


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _without_complete(events: list[Event]) -> list[Event]:
    return [event for event in events if event[0] != "complete"]


def _count_from_one(events: list[Event]) -> list[Event]:
    return [(name, {**data, "index": data["index"] + 1} if name == "result" else data) for name, data in events]


def _bare_errors(events: list[Event]) -> list[Event]:
    return [(name, data["error"] if name == "error" else data) for name, data in events]


def _of_method(method: str, change: Callable[[Any], None]) -> Callable[[Answer], Answer]:
    """Changes the result of a call over MCP."""

    def changed(answer: Answer) -> Answer:
        asked, body = answer.request.json, answer.json
        if not isinstance(asked, dict) or asked.get("method") != method or "result" not in (body or {}):
            return answer
        change(body["result"])
        return answer.with_json(body)

    return changed


def _drop_await(result: Any) -> None:
    result["tools"] = [tool for tool in result["tools"] if tool["name"] != "await"]


def _query_is_a_string(result: Any) -> None:
    for tool in result["tools"]:
        if tool["name"] == "ask":
            described = "What to ask, in natural language"
            tool["inputSchema"]["properties"]["query"] = {"type": "string", "description": described}


def _drop_meta(result: Any) -> None:
    result.pop("_meta", None)
    document = result.get("structuredContent", {})
    if document.pop("_meta", None) is not None:
        result["content"] = [{"type": "text", "text": _text(document)}]


NLWEB_FAULTS = (
    _fault(
        "nlweb_response_type_capitalized",
        level="MUST",
        sentence='response_type (string, required): One of "answer", "elicitation", "promise", or "failure".',
        section="4",
        transform=on_json("POST", ASK, _capitalize),
    ),
    _fault(
        "nlweb_failure_without_version",
        level="MUST",
        sentence="version (string, required): API version number.",
        section="4",
        transform=on_json("POST", ASK, _drop_version_of_failure),
    ),
    _fault(
        "nlweb_filter_refused",
        level="definition",
        sentence="Additional filter attributes (optional): Any number of domain-specific filters.",
        section="3.1",
        transform=_refuse_filters,
    ),
    _fault(
        "nlweb_site_ignored",
        level="definition",
        sentence="An agent may have 'sub corpora' and allow a request to specify which corpora must be searched.",
        section="3.1",
        transform=on_request_json("POST", ASK, _forget_site),
    ),
    _fault(
        "nlweb_unknown_format_answered",
        level="definition",
        sentence='"UNSUPPORTED_FORMAT": The requested response_format is not supported by this agent.',
        section="4.1.4",
        transform=on_request_json("POST", ASK, _forget_unknown_format),
    ),
    _fault(
        "nlweb_content_is_a_string",
        level="MUST",
        sentence="content (array, required): An array of JSON objects, each with type and text.",
        section="4.1.1",
        transform=on_json("POST", ASK, _join_content, 200),
    ),
    _fault(
        "nlweb_summary_without_type",
        level="SHOULD",
        sentence='A summary item SHOULD use @type of "SearchSummary" (or a domain-appropriate type) and include a text '
        "attribute with the summary content.",
        section="4.1.1",
        transform=on_json("POST", ASK, _rename_summary, 200),
    ),
    _fault(
        "nlweb_unknown_mode_is_an_invalid_query",
        level="definition",
        sentence='"UNSUPPORTED_MODE": The requested mode is not supported by this agent.',
        section="4.1.4",
        transform=on_json("POST", ASK, _blame_query),
    ),
    _fault(
        "nlweb_promise_with_200",
        level="SHOULD",
        sentence="202 Accepted: Promise response for long-running tasks.",
        section="7.4",
        transform=on_answer("POST", ASK, lambda answer: answer.with_status(200), 202),
    ),
    _fault(
        "nlweb_cancel_only_checks",
        level="definition",
        sentence='If the task was cancelled, it returns a failure with code "CANCELLED".',
        section="4.2",
        transform=on_request_json("POST", AWAIT, _only_check),
    ),
    _fault(
        "nlweb_stream_without_complete",
        level="definition",
        sentence="complete: Sent once to signal the end of the stream.",
        section="6.1",
        transform=on_answer("POST", ASK, _on_events(_without_complete)),
    ),
    _fault(
        "nlweb_stream_counts_from_one",
        level="definition",
        sentence="index (integer): The position of this item in the final results array.",
        section="6.1",
        transform=on_answer("POST", ASK, _on_events(_count_from_one)),
    ),
    _fault(
        "nlweb_stream_error_is_bare",
        level="definition",
        sentence="The data payload follows the failure response structure (see 4.1.4).",
        section="6.1",
        transform=on_answer("POST", ASK, _on_events(_bare_errors)),
    ),
    _fault(
        "nlweb_missing_text_answered",
        level="MUST",
        sentence="text (string, required): The natural language query string from the user.",
        section="3.1, 7.4",
        transform=on_request_json("POST", ASK, _fill_text),
    ),
    _fault(
        "nlweb_no_results_with_404",
        level="SHOULD",
        sentence="200 OK: Successful response (answer, elicitation, or failure at the application level).",
        section="7.4",
        transform=on_answer("POST", ASK, _not_found, 200),
    ),
    _fault(
        "nlweb_mcp_without_await",
        level="definition",
        sentence='A.2 Tool Definition: await. "name": "await".',
        section="A.2",
        transform=on_answer("POST", MCP, _of_method("tools/list", _drop_await)),
    ),
    _fault(
        "nlweb_mcp_query_is_a_string",
        level="definition",
        sentence='A.1 Tool Definition: ask. "query": {"type": "object", ..., "required": ["text"]}.',
        section="A.1",
        transform=on_answer("POST", MCP, _of_method("tools/list", _query_is_a_string)),
    ),
    _fault(
        "nlweb_mcp_without_meta",
        level="MUST",
        sentence="NLWeb responses are always JSON objects with a required metadata field (_meta).",
        section="4, A.3",
        transform=on_answer("POST", MCP, _of_method("tools/call", _drop_meta)),
    ),
)
