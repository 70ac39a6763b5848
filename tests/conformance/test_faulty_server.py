"""The faulty server: each fault shows in the answers that it is about, and in no other answer.

A probe is one exchange, reduced to what does not change from one request to the next. For each fault the probes that
see another answer than that of the sound server are exactly those named here.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.support.clients import AIDRE
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.intent_platform import Platform, Refused, Sent
from tests.wrong_servers.faults import FAULTS
from tests.wrong_servers.faults.fixtures import FIXTURES
from tests.wrong_servers.faulty_server import faulty_app, faulty_server, fill_store, sound_app

BASE = "http://127.0.0.1:8000"
JSON = "application/json"
SESSION, OTHER_SESSION = "0f8fad5b-d9cb-469f-a165-70867728950e", "7d444840-9dc0-41d1-b245-5ffdce74fad2"
SPACE = "aidre:hashing:64:cosine:v1"
VECTOR = [0.25] * 64
"""Of length 2, so that a product with it is not a cosine."""
CHANGING = re.compile(
    r"req_[\w-]{16,18}|\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r'|"(next_cursor|token|message)\\?":\\?"[^"]*"|"(processing_time_ms|estimated_time|progress)\\?":[\d.]+'
)
"""What every answer has of its own: ids, times, tokens, and texts for people."""


class Prober:
    """Calls an application in this process, and knows an offer that has expired."""

    def __init__(self, runner: asyncio.Runner, app: ASGIApp, expired: str) -> None:
        self._runner = runner
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE)
        self.expired = expired

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._http.request(method, path, **options))

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, body: Any, kind: str = JSON) -> httpx.Response:
        return self.request("POST", path, content=json.dumps(body).encode(), headers={"content-type": kind})

    def search(self, **body: Any) -> httpx.Response:
        return self.post("/search", body, AIDRE)

    def ask(self, query: Any, **prefer: Any) -> httpx.Response:
        return self.post("/ask", {"query": query, "prefer": prefer} if prefer else {"query": query})

    def call(self, method: str, **params: Any) -> httpx.Response:
        return self.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    @property
    def platform(self) -> Platform:
        def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Sent:
            response = self.request(method, path, content=body, headers=headers)
            return response.status_code, dict(response.headers), response.content

        return Platform(send, FIXTURES.intent_key_id, FIXTURES.intent_secret)

    def submit(self, intake: str = FIXTURES.intake, **data: Any) -> httpx.Response:
        return self.post(f"/intakes/{intake}", a_submission(data or dict(FIXTURES.intake_data)))

    def bind(self, offer: str | None = None, **members: Any) -> httpx.Response:
        body = {
            "offer_id": offer or self.submit().json()["offer"]["id"],
            "session_id": SESSION,
            "bind_data": dict(FIXTURES.bind_data),
            "agent": {"id": "agent-1", "consent_scope": ["intake", "offer", "bind"]},
        }
        return self.post("/intakes/bind", {**body, **members})


Probe: TypeAlias = Callable[[Prober], Any]


def a_submission(data: dict[str, Any]) -> dict[str, Any]:
    agent = {"id": "agent-1", "consent_scope": ["intake", "offer"]}
    return {"aip_version": "0.1.0", "agent": agent, "intake_data": data, "session_id": SESSION}


def whole(response: httpx.Response) -> tuple[int, str, str]:
    text = response.content.decode("utf-8", errors="backslashreplace")
    return response.status_code, response.headers.get("content-type", ""), CHANGING.sub("", text)


def pages(prober: Prober) -> list[str]:
    """The ids of the first three pages."""
    ids: list[str] = []
    asked: dict[str, Any] = {"query": FIXTURES.query, "top_k": 3}
    for _ in range(3):
        found = prober.search(**asked).json()
        ids += [result["id"] for result in found["results"]]
        asked["cursor"] = found["meta"]["next_cursor"]
    return ids


def request_ids(prober: Prober) -> bool:
    """Whether those of two searches differ."""
    first, second = (prober.search(query=FIXTURES.query).json()["request_id"] for _ in range(2))
    return bool(first != second)


def odd(prober: Prober, path: str, kind: str = JSON) -> httpx.Response:
    """The answer to a body that is not JSON."""
    return prober.request("POST", path, content=b"{", headers={"content-type": kind})


def cancelled(prober: Prober) -> Any:
    token = prober.post("/ask", {"query": {"text": FIXTURES.query}, "prefer": {"respond-async": True}}).json()
    body = prober.post("/await", {"promise_token": token["promise"]["token"], "action": "cancel"}).json()
    return body.get("error", {}).get("code")


def retrieved(prober: Prober, **members: Any) -> tuple[int, Any, bool]:
    """Status and body of a retrieval, and whether the answer is signed as the platform expects it."""
    platform = prober.platform
    request = platform.request(FIXTURES.query, **members)
    sent = platform.post("/aip/retrieve", request)
    try:
        platform.verified("/aip/retrieve", sent)
        is_signed = True
    except Refused:
        is_signed = False
    body = json.loads(sent[2])
    body["request_id"] = body["request_id"] == request["request_id"]
    return sent[0], CHANGING.sub("", json.dumps(body)), is_signed


def forged(prober: Prober) -> int:
    """The status where one byte was changed after the request had been signed."""
    platform = prober.platform
    body = json.dumps(platform.request("alpha")).encode()
    return platform.send("POST", "/aip/retrieve", body + b" ", platform.headers("POST", "/aip/retrieve", body))[0]


def reported(prober: Prober, *without: str, **members: Any) -> tuple[int, Any]:
    platform = prober.platform
    request = platform.request(FIXTURES.query)
    answer = json.loads(platform.post("/aip/retrieve", request)[2])
    returned = {"source_url": "https://pages.example/stocks", "chunk_ids": [answer["content"]["chunks"][0]["id"]]}
    event = {
        "aip_version": "0.1",
        "event_id": "cite_" + secrets.token_hex(8),
        "event_type": "citation",
        "timestamp": request["timestamp"],
        "request_id": request["request_id"],
        "publisher": {"id": "example", "domain": "127.0.0.1"},
        "platform": {"id": platform.key_id},
        "citation": {**returned, "source_url": source_of(answer), "display_surface": "answer"},
        **members,
    }
    sent = platform.post("/aip/events", {name: value for name, value in event.items() if name not in without})
    status, body = platform.verified("/aip/events", sent)
    return status, (body["status"], body.get("error", {}).get("code"))


def source_of(answer: dict[str, Any]) -> str:
    """Of the first chunk of an answer, by its id."""
    document = answer["content"]["chunks"][0]["id"].partition("#")[0]
    return f"https://pages.example/{document}"


def bound(prober: Prober, **members: Any) -> tuple[int, Any]:
    response = prober.bind(**members)
    body = response.json()
    return response.status_code, (body.get("session_id"), body.get("status"), body.get("error", {}).get("code"))


PROBES: dict[str, Probe] = {
    "discovery": lambda at: whole(at.get("/.well-known/ai-discovery")),
    "collections": lambda at: whole(at.get("/collections")),
    "search": lambda at: whole(at.search(query=FIXTURES.query)),
    "search for two": lambda at: whole(at.search(query=FIXTURES.query, top_k=2)),
    "search for one": lambda at: whole(at.search(query=FIXTURES.query, top_k=1)),
    "search by vector": lambda at: whole(at.search(query_vector=VECTOR, embedding_space=SPACE)),
    "search by a longer vector": lambda at: whole(at.search(query_vector=[*VECTOR, 1], embedding_space=SPACE)),
    "search by text and vector": lambda at: whole(
        at.search(query=FIXTURES.query, query_vector=VECTOR, embedding_space=SPACE)
    ),
    "search for none": lambda at: whole(at.search(query=FIXTURES.query, top_k=0)),
    "search for less than none": lambda at: whole(at.search(query=FIXTURES.query, top_k=-1)),
    "search with an unknown member": lambda at: whole(at.search(query=FIXTURES.query, colour="blue")),
    "search with a charset": lambda at: whole(at.post("/search", {"query": FIXTURES.query}, f"{AIDRE}; charset=utf-8")),
    "pages": pages,
    "request ids": request_ids,
    "chunk": lambda at: whole(at.get("/chunks/stocks%23chunk_2")),
    "chunk with a slash": lambda at: whole(at.get("/chunks/guides%2Fsso%23chunk_1")),
    "unknown chunk": lambda at: whole(at.get("/chunks/nothing")),
    "private chunk": lambda at: whole(at.get("/chunks/secret%23chunk_1")),
    "ask": lambda at: whole(at.ask({"text": FIXTURES.query, "limit": 3})),
    "ask a site": lambda at: whole(at.ask({"text": FIXTURES.query, "limit": 3, "site": FIXTURES.site})),
    "ask an unknown site": lambda at: whole(at.ask({"text": FIXTURES.query, "site": "nowhere.example"})),
    "ask with a filter": lambda at: whole(at.ask({"text": FIXTURES.query, "limit": 3, "personalized": True})),
    "ask without text": lambda at: whole(at.ask({"limit": 3})),
    "ask for a summary": lambda at: whole(at.ask({"text": FIXTURES.query, "limit": 3}, mode="list, summarize")),
    "ask in an unknown mode": lambda at: whole(at.ask({"text": FIXTURES.query}, mode="dance")),
    "ask for a ChatGPT app": lambda at: whole(
        at.ask({"text": FIXTURES.query, "limit": 3}, response_format="chatgpt_app")
    ),
    "ask in an unknown format": lambda at: whole(at.ask({"text": FIXTURES.query, "limit": 3}, response_format="xml")),
    "ask later": lambda at: whole(at.ask({"text": FIXTURES.query}, **{"respond-async": True})),
    "cancel": cancelled,
    "stream": lambda at: whole(at.ask({"text": FIXTURES.query, "limit": 3}, streaming=True)),
    "stream of an unknown site": lambda at: whole(
        at.ask({"text": FIXTURES.query, "site": "nowhere.example"}, streaming=True)
    ),
    "tools": lambda at: whole(at.call("tools/list")),
    "tool ask": lambda at: whole(
        at.call("tools/call", name="ask", arguments={"query": {"text": FIXTURES.query, "limit": 2}})
    ),
    "declaration": lambda at: whole(at.get("/.well-known/aip.json")),
    "capabilities": lambda at: whole(at.get("/aip/capabilities")),
    "retrieve": retrieved,
    "retrieve out of scope": lambda at: retrieved(at, domain="sports.chess"),
    "retrieve with a forged body": forged,
    "event": reported,
    "event of an unknown request": lambda at: reported(at, request_id="req_never_made"),
    "event without its citation": lambda at: reported(at, "citation"),
    "manifest": lambda at: whole(at.get("/.well-known/agent-intake.json")),
    "submit": lambda at: whole(at.submit()),
    "session of an offer": lambda at: at.submit().json()["session_id"] == SESSION,
    "submit without what is required": lambda at: whole(at.submit(audience="expert")),
    "submit with another value": lambda at: whole(at.submit(need="alpha", audience="martians")),
    "submit what is declined": lambda at: whole(at.submit(FIXTURES.declined_intake)),
    "bind": bound,
    "bind with less": lambda at: bound(at, bind_data={"email": "jane@example.com"}),
    "bind an expired offer": lambda at: bound(at, offer=at.expired),
    "bind an unknown offer": lambda at: bound(at, offer="no-such-offer"),
    "bind in another session": lambda at: bound(at, session_id=OTHER_SESSION),
    "bind without consent": lambda at: bound(at, agent={"id": "agent-1", "consent_scope": ["intake"]}),
    "search that is not JSON": lambda at: whole(odd(at, "/search", AIDRE)),
    "search of another media type": lambda at: whole(at.post("/search", {"query": FIXTURES.query}, "text/plain")),
    "search by words": lambda at: whole(at.search(query=FIXTURES.query, mode="lexical", top_k=2)),
    "ask that is not JSON": lambda at: whole(odd(at, "/ask")),
    "ask in an earlier version": lambda at: whole(
        at.post("/ask", {"query": {"text": FIXTURES.query, "max_results": 2}, "meta": {"api_version": "0.54"}})
    ),
    "stream in an earlier version": lambda at: whole(
        at.post(
            "/ask",
            {
                "query": {"text": FIXTURES.query, "max_results": 2},
                "prefer": {"streaming": True},
                "meta": {"api_version": "0.54"},
            },
        )
    ),
    "await of nothing": lambda at: whole(at.post("/await", {"promise_token": "nothing", "action": "checkin"})),
    "tool that is not JSON": lambda at: whole(odd(at, "/mcp")),
    "unknown tool": lambda at: whole(at.call("tools/call", name="dance", arguments={})),
    "retrieve without a signature": lambda at: whole(odd(at, "/aip/retrieve")),
    "event without a signature": lambda at: whole(odd(at, "/aip/events")),
    "submit that is not JSON": lambda at: whole(odd(at, f"/intakes/{FIXTURES.intake}")),
    "submit to an unknown intake": lambda at: whole(at.submit("nothing")),
    "no such address": lambda at: whole(at.get("/nothing")),
}
FOUND = {
    *("search", "search for one", "search for two", "search by words"),
    *("search with a charset", "search with an unknown member"),
}
"""Probes of searches by text that have results."""
BAD_SEARCHES = {
    *("search by a longer vector", "search by text and vector", "search for none", "search for less than none"),
    *("search that is not JSON", "search of another media type"),
}
CHUNKS = {"chunk", "chunk with a slash"}
ANSWERS = {"ask", "ask a site", "ask with a filter", "ask for a summary", "ask for a ChatGPT app"}
FAILURES = {
    *("ask an unknown site", "ask without text", "ask in an unknown mode", "ask in an unknown format"),
    "ask that is not JSON",
}
MISMATCHES = {"submit with another value", "submit without what is required"}

SEEN: dict[str, set[str]] = {
    "aidre_discovery_without_version": {"discovery"},
    "aidre_discovery_as_aidre_json": {"discovery"},
    "aidre_space_without_distance": {"discovery"},
    "aidre_collection_without_updated_at": {"collections"},
    "aidre_query_beside_vector": {"search by text and vector"},
    "aidre_single_result_unwrapped": {"search for one"},
    "aidre_top_k_off_by_one": {"search for one", "search for two", "search by words", "pages"},
    "aidre_negative_top_k": {"search for less than none"},
    "aidre_long_vector_truncated": {"search by a longer vector"},
    "aidre_cosine_as_dot_product": {"search by vector"},
    "aidre_worst_first": (FOUND - {"search for one"}) | {"search by vector", "pages"},
    "aidre_error_as_text": {"unknown chunk", "private chunk"},
    "aidre_error_without_request_id": BAD_SEARCHES,
    "aidre_error_code_is_prose": BAD_SEARCHES,
    "aidre_request_id_repeated": FOUND | BAD_SEARCHES | {"search by vector", "request ids"},
    "aidre_charset_refused": {"search with a charset"},
    "aidre_latin_1": CHUNKS,
    "aidre_vectors_unasked": FOUND | {"search by vector"},
    "aidre_unknown_member_refused": {"search with an unknown member"},
    "aidre_next_chunk_under_this_id": CHUNKS,
    "aidre_slash_in_id_splits_the_path": {"chunk with a slash"},
    "aidre_hash_of_the_hash": FOUND | CHUNKS | {"search by vector"},
    "aidre_private_chunk_open": {"private chunk"},
    "aidre_pages_overlap": {"pages"},
    "nlweb_response_type_capitalized": ANSWERS | FAILURES | {"ask later"},
    "nlweb_failure_without_version": FAILURES,
    "nlweb_filter_refused": {"ask with a filter"},
    "nlweb_site_ignored": {"ask a site", "ask an unknown site", "stream of an unknown site"},
    "nlweb_unknown_format_answered": {"ask in an unknown format"},
    "nlweb_content_is_a_string": {"ask for a ChatGPT app"},
    "nlweb_summary_without_type": {"ask for a summary"},
    "nlweb_unknown_mode_is_an_invalid_query": {"ask in an unknown mode"},
    "nlweb_promise_with_200": {"ask later"},
    "nlweb_cancel_only_checks": {"cancel"},
    "nlweb_stream_without_complete": {"stream", "stream of an unknown site"},
    "nlweb_stream_counts_from_one": {"stream"},
    "nlweb_stream_error_is_bare": {"stream of an unknown site"},
    "nlweb_missing_text_answered": {"ask without text"},
    "nlweb_no_results_with_404": {"ask an unknown site"},
    "nlweb_mcp_without_await": {"tools"},
    "nlweb_mcp_query_is_a_string": {"tools"},
    "nlweb_mcp_without_meta": {"tool ask"},
    "intent_request_id_not_echoed": {"retrieve", "retrieve out of scope"},
    "intent_content_beside_denial": {"retrieve"},
    "intent_more_chunks_than_declared": {"declaration", "capabilities", "retrieve"},
    "intent_citation_of_another_chunk": {"retrieve"},
    "intent_citation_of_a_path": {"retrieve"},
    "intent_denial_reason_of_its_own": {"retrieve out of scope"},
    "intent_any_domain_served": {"retrieve out of scope"},
    "intent_pricing_in_extensions": {"retrieve"},
    "intent_event_about_nothing": {"event of an unknown request"},
    "intent_citation_event_without_citation": {"event without its citation"},
    "intent_signature_over_the_request": {"retrieve", "retrieve out of scope"},
    "intent_signature_not_checked": {"retrieve with a forged body"},
    "intake_manifest_as_text": {"manifest"},
    "intake_without_binding_available": {"manifest"},
    "intake_session_not_echoed": {"session of an offer"},
    "intake_data_not_validated": MISMATCHES,
    "intake_enum_not_validated": {"submit with another value"},
    "intake_mismatch_is_invalid_input": MISMATCHES,
    "intake_incomplete_bind": {"bind with less"},
    "intake_expired_offer_bound": {"bind an expired offer"},
    "intake_bind_of_another_session": {"bind in another session"},
    "intake_bind_without_consent": {"bind without consent"},
    "intake_decline_without_reason": {"submit what is declined"},
    "intake_bare_error": MISMATCHES | {"submit that is not JSON", "bind with less", "bind without consent"},
}
"""The probes that see each fault."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def app(store: Path, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ASGIApp]:
    """The sound application, which all faults share."""
    app = sound_app(store, BASE, tmp_path_factory.mktemp("state"))
    yield app
    runner.run(app.state.intake.close())
    runner.run(app.state.nlweb.promises.close())
    app.state.intent.receipts.close()
    app.state.retrieval.close()


@pytest.fixture(scope="module")
def expired(app: ASGIApp, runner: asyncio.Runner) -> str:
    """An offer, when it has expired."""
    prober = Prober(runner, app, "")
    offer: str = prober.submit(FIXTURES.brief_intake).json()["offer"]["id"]
    incomplete: dict[str, str] = {}
    until(lambda: prober.bind(offer, bind_data=incomplete).status_code == 410, "the offer does not expire")
    return offer


@pytest.fixture(scope="module")
def sound(app: ASGIApp, runner: asyncio.Runner, expired: str) -> dict[str, Any]:
    """What the probes see of the server without a fault."""
    prober = Prober(runner, faulty_app(None, app), expired)
    return {name: probe(prober) for name, probe in PROBES.items()}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_shows_in_the_answers_that_it_is_about_and_in_no_other(
    app: ASGIApp, runner: asyncio.Runner, expired: str, sound: dict[str, Any], name: str
) -> None:
    prober = Prober(runner, faulty_app(name, app), expired)
    seen = {probe: ask(prober) for probe, ask in PROBES.items()}
    assert {probe for probe in PROBES if seen[probe] != sound[probe]} == SEEN[name]


def test_without_a_fault_answers_pass_byte_for_byte(app: ASGIApp, runner: asyncio.Runner, expired: str) -> None:
    inner: list[Message] = []
    outer: list[Message] = []

    def kept(app: ASGIApp, messages: list[Message]) -> ASGIApp:
        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            async def keep(message: Message) -> None:
                messages.append(message)
                await send(message)

            await app(scope, receive, keep)

        return wrapped

    prober = Prober(runner, kept(faulty_app(None, kept(app, inner)), outer), expired)
    for probe in PROBES.values():
        probe(prober)
    assert len([message for message in outer if message["type"] == "http.response.start"]) > len(PROBES)
    assert outer == inner


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["aidre", "nlweb", "intent", "intake"])
def test_a_server_with_a_fault_answers_over_tcp_until_it_is_stopped(store: Path, protocol: str) -> None:
    """Its address stands in what it publishes, and one server begins after another over the same store."""
    paths = {"intent": "aip.json", "intake": "agent-intake.json"}
    for name in (None, next(name for name, fault in FAULTS.items() if fault.protocol == protocol)):
        with faulty_server(store, name) as url, httpx.Client(base_url=url, timeout=WAIT_SECONDS) as client:
            response = client.get(f"/.well-known/{paths.get(protocol, 'ai-discovery')}")
            assert response.status_code == 200
            assert f"{url}/" in response.text
            asked = client.post("/ask", json={"query": {"text": FIXTURES.query}})
            assert (asked.json()["_meta"]["response_type"] == "Answer") is (name == "nlweb_response_type_capitalized")
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)
