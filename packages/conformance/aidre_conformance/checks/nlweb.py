"""Checks of NLWeb 0.55: ask and await over HTTP, and the envelope of every answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from aidre_conformance import JSON, Checks, Exchange, NotTestable, Target, expect, expect_shape, require, shown
from aidre_conformance.checks.discovery import sample_results
from aidre_conformance.checks.versions import require_this_version

CHECKS = Checks("nlweb", "NLWeb 0.55")
RESPONSE_TYPES = {"answer": "results", "elicitation": "elicitation", "promise": "promise", "failure": "error"}
"""With the member that each brings."""
WORDS = ("the", "a", "help", "information", "how does it work")
STRING, OBJECT = {"type": "string"}, {"type": "object"}
_QUESTION = {
    "type": "object",
    "required": ["id", "text", "type"],
    "properties": {"id": STRING, "text": STRING, "type": STRING, "options": {"type": "array", "items": STRING}},
}
CONTENT: dict[str, dict[str, Any]] = {
    "results": {"type": "array", "items": OBJECT},
    "promise": {
        "type": "object",
        "required": ["token"],
        "properties": {
            "token": {"type": "string", "minLength": 1},
            "estimated_time": {"type": "integer"},
            "message": STRING,
            "progress": {"type": "number", "minimum": 0, "maximum": 1},
        },
    },
    "elicitation": {
        "type": "object",
        "properties": {"text": STRING, "questions": {"type": "array", "items": _QUESTION}},
    },
    "error": {
        "type": "object",
        "required": ["code"],
        "properties": {"code": {"type": "string", "minLength": 1}, "message": STRING},
    },
    "content": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type", "text"],
            "properties": {"type": {"const": "text"}, "text": {"type": "string", "minLength": 1}},
        },
    },
    "structuredData": {"type": "array", "items": OBJECT},
}
META = {
    "type": "object",
    "required": ["response_type", "version"],
    "properties": {
        "response_type": {"enum": list(RESPONSE_TYPES)},
        "version": {"type": "string", "minLength": 1},
        "response_format": STRING,
        "session_context": OBJECT,
        "openai/outputTemplate": STRING,
        "openai/widgetAccessible": {"type": "boolean"},
    },
}
_ACTION = {
    "type": "object",
    "required": ["name", "description", "protocol"],
    "properties": {"name": STRING, "description": STRING, "protocol": {"enum": ["HTTP", "MCP", "A2A"]}},
}
ACTION_MEMBERS = {"HTTP": ("method", "endpoint"), "MCP": ("server", "tool"), "A2A": ("agent_url", "skill")}


# -- asking ----------------------------------------------------------------------------------------------------------


def ask_url(target: Target) -> str:
    """Where the server takes questions. NotTestable where it takes none."""

    def find() -> str:
        url = f"{target.url}/ask"
        answer = target.post(url, {"query": {"text": "a"}})
        require(answer.status not in {404, 405, 501}, f"{answer.name}: the server does not speak NLWeb")
        require_this_version(answer)
        speaks = answer.body.lstrip()[:1] == b"{" and "html" not in answer.media_type
        require(speaks, f"{answer.name}: the server does not speak NLWeb")
        return url

    return target.once("ask", find)


def ask(target: Target, body: Any, **headers: str) -> Exchange:
    return target.post(ask_url(target), body, **headers)


def question(target: Target) -> str:
    """Words that have results."""

    def find() -> str:
        for text in questions(target):
            answer = ask(target, {"query": {"text": text}})
            if answer.status == 200 and (answer.object.get("results") or answer.object.get("structuredData")):
                return text
        raise NotTestable("no question was found that has results: give the fixture `query`")

    return target.once("question", find)


def questions(target: Target) -> list[str]:
    """What may have results: the fixture, or words of what an AIDRE search of the same server finds."""
    if target.fixtures.query:
        return [target.fixtures.query]
    try:
        found = sample_results(target)
    except NotTestable:
        found = []
    titles = [source.get("title") for result in found if isinstance(source := result.get("source"), dict)]
    texts = [" ".join(text.split()[:8]) for result in found if isinstance(text := result.get("text"), str)]
    return [*dict.fromkeys(text for text in (*titles, *texts) if isinstance(text, str) and text), *WORDS][:20]


def asked(target: Target, **members: Any) -> Exchange:
    """Asks the question that has results, with other members of the request."""
    query = {"text": question(target), **members.pop("query", {})}
    return ask(target, {"query": query, **members})


def expect_envelope(body: Any, name: str) -> str:
    """The response type of an answer that has the form of section 4. Failed of any other."""
    expect(isinstance(body, dict), f"{name}: it is not an object")
    expect(isinstance(body.get("_meta"), dict), f"{name}: _meta is {shown(body.get('_meta'))}")
    expect_shape(body["_meta"], META, f"{name}: _meta")
    kind = str(body["_meta"]["response_type"])
    own = ("content", "structuredData") if kind == "answer" and "results" not in body else (RESPONSE_TYPES[kind],)
    for member in own:
        expect(member in body, f"{name}: response_type is {kind} and there is no `{member}`")
    for member, schema in CONTENT.items():
        if member in body:
            expect(member in own or member in {"content"}, f"{name}: response_type is {kind} and there is `{member}`")
            expect_shape(body[member], schema, f"{name}: {member}")
    return kind


def answered(answer: Exchange) -> dict[str, Any]:
    """The body of an answer with results. Failed for anything else."""
    expect(answer.status == 200, f"{answer.name}, expected 200: {shown(answer.body[:200].decode(errors='replace'))}")
    kind = expect_envelope(answer.object, answer.name)
    expect(kind == "answer", f"{answer.name}: response_type is {kind}, expected answer: {shown(answer.object)}")
    return answer.object


def items_of(answer: Exchange) -> list[Any]:
    """The results of an answer. Raises Failed where it is no answer with a list of results."""
    items = answered(answer).get("results")
    expect(isinstance(items, list), f"{answer.name}: there are no `results`")
    return list(items or ())


def refused(answer: Exchange, code: str | None = None) -> dict[str, Any]:
    """The body of a failure. Failed for anything else."""
    expect(answer.status < 500, f"{answer.name}, expected a failure of the caller's")
    kind = expect_envelope(answer.object, answer.name)
    expect(kind == "failure", f"{answer.name}: response_type is {kind}, expected failure")
    found = answer.object["error"].get("code")
    expect(code is None or found == code, f"{answer.name}: code is {shown(found)}, expected {code}")
    return answer.object


def identities(items: list[Any]) -> list[str]:
    """What items are compared by: their address or name, without what may differ between two answers."""
    names = ("@id", "url", "name", "title")
    return [str(next((item[name] for name in names if item.get(name)), shown(item))) for item in items]


# -- requests --------------------------------------------------------------------------------------------------------


@CHECKS.add("7.1", "MUST", "POST /ask: Submit a natural language query.")
def _ask(target: Target) -> None:
    try:
        text = question(target)
    except NotTestable:
        answer = ask(target, {"query": {"text": WORDS[0]}})
        code = code_of(answer) if expect_envelope(answer.object, answer.name) == "failure" else None
        expect(code in {None, "NO_RESULTS"}, f"{answer.name} with {code} for a plain question")
        fixture = target.fixtures.query
        expect(fixture is None, f"nothing is found for the fixture `query` {shown(fixture)}, which has results")
        raise
    answered(ask(target, {"query": {"text": text}}))


@CHECKS.add("3.1", "MUST", "text (string, required): The natural language query string from the user.")
def _text_is_required(target: Target) -> None:
    body: dict[str, Any]
    for body in ({}, {"query": {}}, {"query": {"site": "all"}}, {"query": {"text": None}}, {"query": {"text": 7}}):
        refused(ask(target, body))


@CHECKS.add("4.1.4", "MUST", '"INVALID_QUERY": The query could not be parsed or is malformed.')
def _invalid_query(target: Target) -> None:
    body: dict[str, Any]
    for body in ({"query": {}}, {"query": {"text": 7}}, {"query": {"text": ["a"]}}, {"query": {"text": "  "}}):
        refused(ask(target, body), "INVALID_QUERY")


@CHECKS.add("7.4", "SHOULD", "400 Bad Request: Malformed request structure.")
def _bad_request(target: Target) -> None:
    for raw in (b'{"query": ', b"[1]", b'"x"', b"\xff\xfe"):
        answer = target.send("POST", ask_url(target), {"content-type": JSON}, raw)
        expect(answer.status == 400, f"{answer.name} for the body {shown(raw.decode(errors='replace'))}, expected 400")
        refused(answer)


@CHECKS.add("3.1", "MUST", "Additional filter attributes (optional): Any number of domain-specific filters.")
def _filters_are_an_open_set(target: Target) -> None:
    for filters in (
        {"itemType": "Recipe"},
        {"location": "Idaho", "price": "less than $20"},
        {"personalized": True},
        {"cuisine": ["thai"], "x": {"y": 1}},
    ):
        answer = asked(target, query=filters)
        expect(answer.status in {200, 202}, f"{answer.name} for the filters {shown(filters)}")
        kind = expect_envelope(answer.object, answer.name)
        code = answer.object["error"]["code"] if kind == "failure" else None
        expect(code in {None, "NO_RESULTS"}, f"{answer.name}: {code} for the filters {shown(filters)}")


@CHECKS.add(
    "3.1", "MUST", "An agent may have 'sub corpora' and allow a request to specify which corpora must be searched."
)
def _site(target: Target) -> None:
    site = target.fixture("site")
    whole = items_of(asked(target))
    answer = asked(target, query={"site": site})
    if expect_envelope(answer.object, answer.name) == "failure":
        fixture = target.fixtures.query
        expect(fixture is None, f"nothing is found for the fixtures `query` and `site`: {shown(answer.object)}")
        return
    part = answer.object["results"]
    sites = sites_of(part)
    expect(len(sites) <= 1, f"results of {shown(sorted(sites))} for the site {shown(site)}")
    if identities(part) != identities(whole) or sites == {site}:
        return  # it is not a fault that all of the best results are of this site
    elsewhere = asked(target, query={"site": "no-such-site-5b1f.example"})
    if expect_envelope(elsewhere.object, elsewhere.name) == "answer":
        same = identities(elsewhere.object.get("results", [])) == identities(whole)
        expect(not same, f"neither the site {shown(site)} nor one that does not exist changes the results")


def sites_of(items: list[Any]) -> set[str]:
    return {item["site"] for item in items if isinstance(item.get("site"), str)}


@CHECKS.add("3.1", "SHOULD", "itemType: The type of the item requested (e.g., Movie, Recipe, etc.)")
def _item_type(target: Target) -> None:
    items = items_of(asked(target))
    kinds = sorted({item["@type"] for item in items if isinstance(item.get("@type"), str)})
    require(len(kinds) > 1, "the results are all of one type")
    lists = []
    for kind in kinds[:2]:
        body = asked(target, query={"itemType": kind}).object
        lists.append(identities(body.get("results", [])))
    expect(lists[0] != lists[1], f"itemType {kinds[0]} and {kinds[1]} give the same results")


@CHECKS.add("3.2", "MUST", "When omitted, ConversationalContext is assumed.")
def _default_context(target: Target) -> None:
    context = {"prev": ["breakfast muffins"], "text": "a party", "memory": "vegetarian"}
    plain = asked(target, context=context)
    typed = asked(target, context={"@type": "ConversationalContext", **context})
    kinds = [expect_envelope(answer.object, answer.name) for answer in (plain, typed)]
    expect(kinds[0] == kinds[1], f"response_type is {kinds[0]} without @type and {kinds[1]} with it")
    found = [identities(answer.object.get("results", [])) for answer in (plain, typed)]
    expect(found[0] == found[1], "the results differ")


@CHECKS.add("3.2", "MUST", "Custom context types can be defined using the @context mechanism.")
def _custom_context(target: Target) -> None:
    context = {"@type": "UserDiet", "@context": "https://example.com/schemas/diet", "restrictions": ["vegan"]}
    answered(asked(target, context=context))


@CHECKS.add(
    "3.3",
    "MUST",
    "Prefer: Attributes (all optional)",
    reading="and attributes that a server does not know do not make a request fail",
)
def _prefer(target: Target) -> None:
    for prefer in ({}, {"accept-language": "de", "user-agent": "mobile"}, {"x-unknown": 1}, {"streaming": False}):
        answer = asked(target, prefer=prefer)
        answered(answer)
        expect(answer.media_type == JSON, f"{answer.name} as {answer.media_type} for prefer {shown(prefer)}")


@CHECKS.add("3.4", "MUST", "Meta: Attributes (all optional)")
def _meta(target: Target) -> None:
    person = {"@type": "Person", "@context": "https://schema.org", "identifier": "user_12345"}
    for meta in (
        {"version": "0.55"},
        {"user": "user_12345"},
        {"user": person},
        {"remember": False},
        {"session_context": {"conversation_id": "conv_98765"}},
        {"request_id": "x"},
    ):
        answered(asked(target, meta=meta))


@CHECKS.add("2.2", "SHOULD", "... we would like extensibility ... '@context' is easily incorporated.")
def _extensions(target: Target) -> None:
    answered(asked(target, **{"@context": "https://schema.org", "x-trace": {"a": 1}}))


# -- answers ---------------------------------------------------------------------------------------------------------


@CHECKS.add(
    "4",
    "MUST",
    "NLWeb responses are always JSON objects with a required metadata field (_meta): response_type, version.",
)
def _envelope(target: Target) -> None:
    query, body = {"text": questions(target)[0]}, dict[str, Any]()
    for body in ({"query": query}, {"query": {}}, {"query": query, "prefer": {"response_format": "x-none"}}):
        answer = ask(target, body)
        expect_envelope(answer.object, answer.name)


@CHECKS.add("4.1.1", "SHOULD", "@type (string, recommended): Specifies the object's type.")
def _types(target: Target) -> None:
    for item in items_of(asked(target)):
        kind = item.get("@type")
        expect(isinstance(kind, str) or (isinstance(kind, list) and kind), f"@type is {shown(kind)}")


@CHECKS.add("4.1.1", "MUST", "grounding (object, optional); actions (array, optional)")
def _grounding(target: Target) -> None:
    schema = {"type": "object", "properties": {"grounding": OBJECT, "actions": {"type": "array", "items": OBJECT}}}
    for item in items_of(asked(target)):
        expect_shape(item, schema, "item")


@CHECKS.add("5", "MUST", "name, description, protocol (string, required), and the attributes of the protocol")
def _actions(target: Target) -> None:
    items = items_of(asked(target))
    actions = [action for item in items for action in item.get("actions") or ()]
    require(actions, "no result has an action")
    for action in actions:
        expect_shape(action, _ACTION, "action")
        for name in ACTION_MEMBERS[action["protocol"]]:
            expect(isinstance(action.get(name), str), f"an action of {action['protocol']} without {name}")


@CHECKS.add(
    "3.3.1", "MUST", "conversational_search (default): Returns results in the Conversational Search result structure."
)
def _default_format(target: Target) -> None:
    for prefer in ({}, {"response_format": "conversational_search"}):
        body = answered(asked(target, prefer=prefer))
        expect(isinstance(body.get("results"), list), f"there are no results for prefer {shown(prefer)}")
        stated = body["_meta"].get("response_format")
        expect(stated in {None, "conversational_search"}, f"response_format is {shown(stated)}")


@CHECKS.add(
    "4.1.1",
    "MUST",
    "content (array, required): An array of JSON objects, each with type and text; structuredData (array, required)",
)
def _chatgpt_app(target: Target) -> None:
    answer = asked(target, prefer={"response_format": "chatgpt_app"})
    if code_of(answer) == "UNSUPPORTED_FORMAT":
        raise NotTestable("the server does not support chatgpt_app")
    body = answered(answer)
    for member in ("content", "structuredData"):
        expect(isinstance(body.get(member), list), f"{member} is {shown(body.get(member))}")
    expect(body["content"], "content is empty")
    stated = body["_meta"].get("response_format")
    expect(stated in {None, "chatgpt_app"}, f"response_format is {shown(stated)}")


@CHECKS.add("4.1.4", "MUST", '"UNSUPPORTED_FORMAT": The requested response_format is not supported by this agent.')
def _unknown_format(target: Target) -> None:
    refused(asked(target, prefer={"response_format": "x-no-such-format"}), "UNSUPPORTED_FORMAT")


@CHECKS.add("4.1.4", "MUST", '"UNSUPPORTED_MODE": The requested mode is not supported by this agent.')
def _unknown_mode(target: Target) -> None:
    refused(asked(target, prefer={"mode": "x-no-such-mode"}), "UNSUPPORTED_MODE")


@CHECKS.add("3.3.2", "MUST", 'Multiple comma-separated values (e.g., "list, summarize") can be specified.')
def _modes(target: Target) -> None:
    for mode in ("list", "list, summarize", "list,summarize", "summarize"):
        answer = asked(target, prefer={"mode": mode})
        if "summarize" in mode and code_of(answer) == "UNSUPPORTED_MODE":
            continue
        body = answered(answer)
        if mode == "list":
            kinds = [item.get("@type") for item in body["results"]]
            expect("SearchSummary" not in kinds, "there is a summary, and mode is list")


@CHECKS.add(
    "4.1.1",
    "SHOULD",
    'A summary item SHOULD use @type of "SearchSummary" (or a domain-appropriate type) and '
    "include a text attribute with the summary content.",
)
def _summary(target: Target) -> None:
    answer = asked(target, prefer={"mode": "list, summarize"})
    require(code_of(answer) != "UNSUPPORTED_MODE", "the server does not summarize")
    items = answered(answer)["results"]
    summaries = [item for item in items if "summary" in str(item.get("@type", "")).lower()]
    expect(len(summaries) == 1, f"{len(summaries)} items are of the type SearchSummary, expected one")
    text = summaries[0].get("text")
    expect(isinstance(text, str) and text, f"text of the summary is {shown(text)}")


@CHECKS.add(
    "4.1.3", "MUST", "questions: id, text, type (string, required); options required for single_select and multi_select"
)
def _elicitation(target: Target) -> None:
    for text in ("I need something", "something", "help me choose"):
        answer = ask(target, {"query": {"text": text}})
        if expect_envelope(answer.object, answer.name) == "elicitation":
            break
    else:
        raise NotTestable("the server did not ask for more")
    questions = answer.object["elicitation"].get("questions", [])
    ids = [question["id"] for question in questions]
    expect(len(set(ids)) == len(ids), "two questions have one id")
    for question in questions:
        selects = question["type"] in {"single_select", "multi_select"}
        expect(not selects or question.get("options"), f"the question {shown(question['id'])} has no options")


@CHECKS.add("7.4", "SHOULD", "200 OK: Successful response (answer, elicitation, or failure at the application level).")
def _no_results(target: Target) -> None:
    answer = no_results(target)
    expect(answer.status == 200, f"{answer.name} with NO_RESULTS, expected 200")


def no_results(target: Target) -> Exchange:
    """An answer that nothing was found. NotTestable where something is found for everything."""

    def find() -> Exchange:
        for query in (
            {"text": question(target), "site": "no-such-site-5b1f.example"},
            {"text": "qzxv wvkjq zzqpl 58317"},
            {"text": question(target), "itemType": "NoSuchType5b1f"},
        ):
            answer = ask(target, {"query": query})
            if code_of(answer) == "NO_RESULTS":
                return answer
        raise NotTestable("the server finds something for everything")

    return target.once("no results", find)


def code_of(answer: Exchange) -> str | None:
    """The code of a failure; None of any other answer."""
    error = answer.object.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else None


# -- promises --------------------------------------------------------------------------------------------------------


def promised(target: Target) -> Exchange:
    """A new promise. NotTestable where the server makes none."""
    body: dict[str, Any] = {"query": {"text": question(target)}}
    for name, value in target.fixture("promise").items():
        known = body.get(name)
        body[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, Mapping) else value
    answer = ask(target, body)
    require(answer.object.get("_meta", {}).get("response_type") == "promise", f"{answer.name}: it is not a promise")
    return answer


def await_url(target: Target) -> str:
    return f"{target.url}/await"


def check_in(target: Target, token: Any, action: str = "checkin") -> Exchange:
    body = {"promise_token": token, "action": action, "meta": {"version": "0.55", "request_id": "req_def456"}}
    return target.post(await_url(target), body)


@CHECKS.add("7.4", "SHOULD", "202 Accepted: Promise response for long-running tasks.")
def _promise(target: Target) -> None:
    answer = promised(target)
    expect_envelope(answer.object, answer.name)
    expect(answer.status == 202, f"{answer.name}, expected 202")


@CHECKS.add(
    "4.2", "MUST", "If the task is still running, it returns another promise. If complete, it returns an answer."
)
def _await(target: Target) -> None:
    token = promised(target).object["promise"]["token"]
    progress = 0.0
    for _ in range(40):
        answer = check_in(target, token)
        kind = expect_envelope(answer.object, answer.name)
        if kind != "promise":
            break
        now = answer.object["promise"].get("progress", progress)
        expect(now >= progress, f"progress falls from {progress} to {now}")
        progress = now
        time.sleep(0.25)
    require(kind != "promise", "the task took too long")
    expect(kind == "answer", f"{answer.name}: response_type is {kind}, expected answer")
    direct = identities(items_of(asked(target)))
    items = answer.object.get("results") or answer.object.get("structuredData") or []
    expect(identities(items) == direct, "the promised answer is not that of a direct question")


@CHECKS.add("4.2", "MUST", 'If the task was cancelled, it returns a failure with code "CANCELLED".')
def _cancel(target: Target) -> None:
    token = promised(target).object["promise"]["token"]
    refused(check_in(target, token, "cancel"), "CANCELLED")
    refused(check_in(target, token), "CANCELLED")


@CHECKS.add("4.2", "MUST", 'promise_token (string, required); action (string, required): Either "checkin" or "cancel".')
def _malformed_await(target: Target) -> None:
    question(target)
    answer = target.post(await_url(target), {"promise_token": "x", "action": "checkin"})
    require(answer.status not in {404, 405} or "json" in answer.media_type, f"{answer.name}: there is no /await")
    for body in (
        {},
        {"promise_token": "x"},
        {"action": "checkin"},
        {"promise_token": "x", "action": "stop"},
        {"promise_token": 7, "action": "checkin"},
    ):
        answer = target.post(await_url(target), body)
        refused(answer)
        expect(answer.status == 400, f"{answer.name} for {shown(body)}, expected 400")


@CHECKS.add(
    "4.2",
    "MUST",
    "Response: Returns a standard NLWeb response.",
    reading="a failure for a token that the server never gave",
)
def _unknown_promise(target: Target) -> None:
    question(target)
    answer = check_in(target, "no-such-promise-5b1f")
    require(answer.status not in {404, 405} or "json" in answer.media_type, f"{answer.name}: there is no /await")
    refused(answer)


@CHECKS.add(
    "15.5.6", "MUST", "The origin server MUST generate an Allow header field in a 405 response.", text="RFC 9110"
)
def _allow(target: Target) -> None:
    question(target)
    tested = False
    for method in ("DELETE", "PUT", "GET"):
        answer = target.send(method, await_url(target))
        if answer.status == 405:
            tested = True
            expect("POST" in (answer.header("allow") or ""), f"{answer.name}: Allow is {answer.header('allow')}")
    require(tested, "no method is refused with 405")
