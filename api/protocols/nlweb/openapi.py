"""Schemas and paths of NLWeb's HTTP routes for /openapi.json. NLWeb's specification is authoritative."""

from __future__ import annotations

from typing import Any

from aidre.api.config import Limits
from aidre.api.http import JSON
from aidre.api.protocols.nlweb.envelope import VERSION
from aidre.api.protocols.nlweb.query import CONVERSATIONAL_CONTEXT
from aidre.api.protocols.nlweb.stream import EVENT_STREAM

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
NOT_BLANK_PATTERN = r"[^\s\u001c-\u001f\u0085]"
"""Pattern of a text that is not blank; \\s alone omits some white space of Unicode."""

OBJECT: Schema = {"type": "object"}
BOOLEAN: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": STRING}
QUESTION_TYPES = ["single_select", "multi_select", "free_text", "number", "boolean"]


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _meta(kind: str) -> Schema:
    return _object(
        ["response_type", "version"],
        response_type={"const": kind},
        version={"const": VERSION},
        response_format={"enum": ["conversational_search", "chatgpt_app"]},
        session_context=OBJECT,
        processing_time_ms={"type": "integer", "minimum": 0},
        decontextualized_query=STRING,
        ignored_filters=TEXTS,
        rewriting_method={"enum": ["rule", "llm"]},
        summary_method={"enum": ["extractive", "llm"]},
        remembered={"const": False},
    )


ITEM = _object(
    [],
    url=STRING,
    score={"type": "number", "minimum": 0, "maximum": 100},
    site=STRING,
    grounding=_object(
        ["chunk_ids", "content_hashes"], source_url=STRING, chunk_ids=TEXTS, content_hashes=TEXTS, passage=STRING
    ),
    actions=_list(_object(["name", "description", "protocol"], protocol={"enum": ["HTTP", "MCP", "A2A"]})),
)
QUESTION = _object(
    ["id", "text", "type"], id=STRING, text=STRING, type={"enum": QUESTION_TYPES}, options=TEXTS, default={}
)


def schemas(limits: Limits) -> Schema:
    """The component schemas that the paths refer to."""
    text = {"type": "string", "minLength": 1, "maxLength": limits.query_chars, "pattern": NOT_BLANK_PATTERN}
    query = _object(["text"], text=text, site={"anyOf": [STRING, TEXTS, {"type": "null"}]})
    query["description"] = "additional members are filters: itemType, price, location, dates, any property of the items"
    texts = {"anyOf": [STRING, TEXTS, {"type": "null"}]}
    conversational = _object([], **{"@type": {"enum": [CONVERSATIONAL_CONTEXT, None]}}, prev=texts, memory=texts)
    conversational["properties"]["text"] = _or_null(STRING)
    foreign = _object(["@type"], **{"@type": {"type": ["string", "array"], "not": {"const": CONVERSATIONAL_CONTEXT}}})
    context: Schema = {"type": "object", "anyOf": [conversational, foreign]}
    context["description"] = "a ConversationalContext, or a context of another @type with its own members"
    prefer = _object(
        [], streaming=_or_null(BOOLEAN), response_format=texts, mode=texts, **{"accept-language": _or_null(STRING)}
    )
    prefer["properties"]["respond-async"] = _or_null(BOOLEAN)
    meta = _object(
        [],
        version=_or_null(STRING),
        session_context=_or_null(OBJECT),
        user={"type": ["string", "object", "null"]},
        remember=_or_null(BOOLEAN),
    )
    current = _object(["query"], query=query, context=_or_null(context), prefer=_or_null(prefer), meta=_or_null(meta))
    legacy = _object(["query"], query=text)
    legacy["description"] = "the request of NLWeb before 0.55, with its parameters beside the query"
    return {
        "AskRequest": {"anyOf": [current, legacy]},
        "AwaitRequest": _object(
            ["promise_token", "action"], promise_token=STRING, action={"enum": ["checkin", "cancel"]}, meta={}
        ),
        "Item": ITEM,
        "Results": _object(["_meta", "results"], _meta=_meta("answer"), results=_list(_ref("Item"))),
        "AppResults": _object(
            ["_meta", "content", "structuredData"],
            _meta=_meta("answer"),
            content=_list(_object(["type", "text"], type={"const": "text"}, text=STRING)),
            structuredData=_list(_ref("Item")),
        ),
        "Elicitation": _object(
            ["_meta", "elicitation"],
            _meta=_meta("elicitation"),
            elicitation=_object([], text=STRING, questions=_list(QUESTION)),
        ),
        "Promise": _object(
            ["_meta", "promise"],
            _meta=_meta("promise"),
            promise=_object(
                ["token"],
                token=STRING,
                estimated_time={"type": "integer", "minimum": 0},
                message=STRING,
                progress={"type": "number", "minimum": 0, "maximum": 1},
            ),
        ),
        "Failure": _object(
            ["_meta", "error"], _meta=_meta("failure"), error=_object(["code", "message"], code=STRING, message=STRING)
        ),
        "NlwebAnswer": {"anyOf": [_ref(name) for name in ("Results", "AppResults", "Elicitation", "Failure")]},
        "Sites": _object(["_meta", "sites", "collections"], sites=TEXTS, collections=_list(OBJECT)),
    }


AWAIT_LINK: Schema = {
    "operationId": "await",
    "description": "Check on the promise",
    "requestBody": {"promise_token": "$response.body#/promise/token", "action": "checkin"},
}
RPC_REQUEST = _object(
    ["jsonrpc", "method"],
    jsonrpc={"const": "2.0"},
    id={"type": ["string", "integer"]},
    method=STRING,
    params={"type": ["object", "null"]},
)
RPC_REQUEST["description"] = "one JSON-RPC 2.0 message of the Model Context Protocol"
RPC_RESPONSE = _object(["jsonrpc"], jsonrpc={"const": "2.0"}, id={"type": ["string", "integer", "null"]}, result=OBJECT)
RPC_RESPONSE["properties"]["error"] = _object(["code", "message"], code={"type": "integer"}, message=STRING)


def paths(limits: Limits) -> Schema:
    """/ask, /await, /sites and /mcp."""
    ask_body = {"required": True, "content": {JSON: {"schema": _ref("AskRequest")}}}
    await_body = {"required": True, "content": {JSON: {"schema": _ref("AwaitRequest")}}}
    text = {"type": "string", "minLength": 1, "maxLength": limits.query_chars, "pattern": NOT_BLANK_PATTERN}
    parameter = {"name": "query", "in": "query", "required": False, "schema": text}
    errors = (400, 408, 413, 415, 500, 503)
    return {
        "/ask": {
            "get": _operation("askByAddress", "Ask with a query string (EventSource)", errors, parameter=parameter),
            "post": _operation("ask", "Ask in natural language (NLWeb)", errors, body=ask_body),
        },
        "/await": {"post": _operation("await", "Check on a promise, or cancel it (NLWeb)", errors, body=await_body)},
        "/mcp": {"post": _mcp()},
        "/sites": {
            "get": {
                "operationId": "listSites",
                "summary": "The values that query.site accepts",
                "responses": {
                    "200": {"description": "The sites", "content": {JSON: {"schema": _ref("Sites")}}},
                    "500": _failure(),
                },
            }
        },
    }


def _operation(
    name: str, summary: str, errors: tuple[int, ...], body: Schema | None = None, parameter: Schema | None = None
) -> Schema:
    content: Schema = {JSON: {"schema": _ref("NlwebAnswer")}}
    if name != "await":
        content[EVENT_STREAM] = {"schema": {"contentMediaType": EVENT_STREAM}}
    responses: Schema = {
        "200": {"description": "An answer, an elicitation, or a failure to find one", "content": content},
        "202": {
            "description": "A promise",
            "content": {JSON: {"schema": _ref("Promise")}},
            "links": {"await": AWAIT_LINK},
        },
    }
    responses |= {str(status): _failure() for status in errors}
    operation: Schema = {"operationId": name, "summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = body
    return operation if parameter is None else {**operation, "parameters": [parameter]}


def _mcp() -> Schema:
    success = {"description": "The answer", "content": {JSON: {"schema": RPC_RESPONSE}}}
    failure = {"description": "A failure", "content": {JSON: {"schema": {"anyOf": [RPC_RESPONSE, _ref("Failure")]}}}}
    return {
        "operationId": "mcp",
        "summary": "One message of the Model Context Protocol (NLWeb, appendix C)",
        "requestBody": {"required": True, "content": {JSON: {"schema": RPC_REQUEST}}},
        "responses": {
            "200": success,
            "202": {"description": "A notification was accepted"},
            **dict.fromkeys(
                ("400", "401", "403", "404", "406", "408", "413", "415", "421", "429", "500", "503"), failure
            ),
        },
    }


def _failure() -> Schema:
    return {"description": "A failure", "content": {JSON: {"schema": _ref("Failure")}}}
