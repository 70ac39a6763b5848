"""NLWeb 0.55 over HTTP: endpoints, refusals, dialects, and requests that are wrong in every way. Names begin with the
check or tell the client that asks so."""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from aidre.api.http.http_errors import HttpError, ServerFault, Unavailable
from aidre.api.protocols.nlweb.nlweb_envelope import render_json, to_failure
from aidre.engine.errors import ModelUnavailable, StoreDamaged
from tests import ROOT
from tests.support.clients import Client, serving
from tests.support.clocks import Clock
from tests.support.rates import count_by
from tests.support.recipes import CONFIGURATION, JSON, STREAM, ask, events, failed, names, query, results, told


@pytest.mark.parametrize(("path", "allowed"), [("/ask", {"GET", "HEAD", "POST"}), ("/await", {"POST"})])
def test_h1_other_methods_are_405_with_allow(client: Client, path: str, allowed: set[str]) -> None:
    for method in {"GET", "PUT", "DELETE", "PATCH"} - allowed:
        response = client.request(method, path)
        failed(response, "METHOD_NOT_ALLOWED", 405)
        assert set(response.headers["allow"].split(", ")) == allowed | {"OPTIONS"}
    assert client.request("OPTIONS", path).status_code == 204


@pytest.mark.parametrize("path", ["/ask/", "/ask/me", "/await/x"])
def test_h1_an_address_below_is_not_found_in_the_same_envelope(client: Client, path: str) -> None:
    failed(client.get(path), "NOT_FOUND", 404)


def test_h1_other_addresses_keep_their_own_envelope(client: Client) -> None:
    assert client.get("/asking").json()["error"] == "not_found"


def test_h1_a_body_beyond_the_limit_is_413(client: Client) -> None:
    body = orjson.dumps(query(padding=""))
    full = body.replace(b'"padding":""', b'"padding":"%b"' % (b"x" * (20_000 - len(body))))
    assert len(full) == 20_000
    headers = {"content-type": JSON}
    assert client.request("POST", "/ask", content=full, headers=headers).status_code == 200
    failed(client.request("POST", "/ask", content=full + b" ", headers=headers), "PAYLOAD_TOO_LARGE", 413)
    failed(client.request("POST", "/await", content=full + b" ", headers=headers), "PAYLOAD_TOO_LARGE", 413)


@pytest.mark.parametrize("headers", [{"content-type": "text/html"}, {"content-type": JSON, "content-encoding": "gzip"}])
def test_h1_a_body_of_another_kind_is_415(client: Client, headers: dict[str, str]) -> None:
    failed(client.request("POST", "/ask", content=b"{}", headers=headers), "INVALID_QUERY", 415)


@pytest.mark.parametrize("kind", [None, JSON, "application/json; charset=utf-8", "application/ld+json"])
def test_h1_a_body_of_json_is_read(client: Client, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    assert results(client.request("POST", "/ask", content=orjson.dumps(query()), headers=headers))


def test_h2_an_answer_has_an_id_and_is_not_kept(client: Client) -> None:
    response = ask(client, query())
    assert response.headers["x-request-id"].startswith("req_")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("header", ["respond-async", "streaming=true", "mode=summarize", "response_format=chatgpt_app"])
def test_h2_the_body_says_what_is_preferred_and_not_the_header(client: Client, header: str) -> None:
    assert results(ask(client, query(), prefer=header)) == results(ask(client, query()))
    streaming = {**query(), "prefer": {"streaming": True}}
    assert [event.name for event in events(ask(client, streaming, accept=STREAM))][-1] == "complete"


def test_h3_what_is_no_known_key_is_401_in_the_envelope(filled: Path) -> None:
    secret = "the secret of a partner"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    keys = f'[[keys]]\nname = "partner"\nsha256 = "{digest}"\ncollections = ["shut"]\n'
    with serving(filled, CONFIGURATION + keys) as guarded:
        for path, body in (("/ask", query()), ("/await", {"promise_token": "t", "action": "checkin"})):
            refused = guarded.request("POST", path, json=body, headers={"authorization": "Bearer unknown"})
            failed(refused, "UNAUTHORIZED", 401)
            assert refused.headers["www-authenticate"].startswith("Bearer ")
        assert results(ask(guarded, query(site="shut"), authorization=f"Bearer {secret}"))
        failed(ask(guarded, query(site="shut")), "NO_RESULTS")


def test_h3_beyond_the_rate_it_is_429_until_the_seconds_that_were_told(filled: Path) -> None:
    clock = Clock()
    with serving(filled, CONFIGURATION.replace("[limits]", '[limits]\nrate = "2/minute"')) as limited:
        count_by(clock, limited)
        for _ in range(2):
            assert results(ask(limited, query()))
        for streaming in (False, True):
            refused = ask(limited, {**query(), "prefer": {"streaming": streaming}})
            failed(refused, "RATE_LIMITED", 429)
        clock.now += int(refused.headers["retry-after"])
        assert results(ask(limited, query()))


def test_h4_the_policies_on_callers_and_rates_are_described(client: Client) -> None:
    described = client.get("/openapi.json").json()
    for path in ("/ask", "/await"):
        assert {"401", "403", "429"} <= described["paths"][path]["post"]["responses"].keys()
    document = (ROOT / "docs" / "access.md").read_text(encoding="utf-8")
    for said in ("Retry-After", "token bucket", "bearer"):
        assert said.lower() in document.lower()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "INVALID_QUERY"),
        (401, "UNAUTHORIZED"),
        (404, "NOT_FOUND"),
        (408, "TIMEOUT"),
        (413, "PAYLOAD_TOO_LARGE"),
        (429, "RATE_LIMITED"),
        (500, "INTERNAL_ERROR"),
    ],
)
def test_h3_a_refusal_of_the_house_keeps_its_status_and_headers(status: int, code: str) -> None:
    class Refused(HttpError):
        pass

    Refused.status = status
    failure = to_failure(Refused("no", {"Retry-After": "7"}))
    assert (failure.status, failure.failure_code, failure.headers) == (status, code, {"Retry-After": "7"})
    assert orjson.loads(render_json(failure))["error"] == {"code": code, "message": "no"}


def test_f4_what_breaks_inside_is_told_without_its_words(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (
        RuntimeError("secret"),
        StoreDamaged("secret"),
        ModelUnavailable("secret"),
        ServerFault("the server failed"),
    ):

        def broken(*_: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(client.app.state.retrieval.collections, "visible", broken)
        status = 500 if isinstance(error, RuntimeError | ServerFault) else 503
        response = ask(client, query())
        assert "secret" not in failed(response, "INTERNAL_ERROR", status)
        assert status == 500 or "retry-after" in response.headers
        failed(ask(client, {**query(), "prefer": {"streaming": True}}), "INTERNAL_ERROR", status)
    assert to_failure(Unavailable("later")).headers["Retry-After"]


def test_probe_a_bare_get_describes_itself(client: Client) -> None:
    answer = client.get("/ask").json()
    assert (answer["_meta"]["response_type"], answer["_meta"]["version"], answer["results"]) == ("answer", "0.55", [])
    assert answer["usage"]["ask"]["url"].endswith("/ask")
    head = client.request("HEAD", "/ask")
    assert (head.status_code, head.content) == (200, b"")


def test_probe_a_post_without_a_query_is_400(client: Client) -> None:
    failed(ask(client, {}), "INVALID_QUERY", 400)
    failed(ask(client, {"prefer": {"streaming": True}}), "INVALID_QUERY", 400)
    failed(client.get("/ask?query="), "INVALID_QUERY", 400)
    failed(client.get("/ask?site=docs"), "INVALID_QUERY", 400)


@pytest.mark.parametrize(
    "address",
    [
        "/ask?query=cinnamon",
        "/ask?q=cinnamon&streaming=false&model=x&db=y",
        "/ask?query.text=cinnamon",
        "/ask?query=cinnamon&site=all&prev=[]&generate_mode=none",
        "/ask?query=cinnamon&site=docs,textless,long",
        "/ask?query=cinnamon&site=docs&site=textless&site=long",
    ],
)
def test_get_a_query_may_stand_in_the_address(client: Client, address: str) -> None:
    assert names(client.get(address)) == names(ask(client, query()))


def test_get_varies_by_what_is_accepted_unless_the_address_says_how_to_answer(client: Client) -> None:
    for accept in (JSON, STREAM):
        assert client.get("/ask?query=cinnamon", {"accept": accept}).headers["vary"] == "Accept"
    for address in ("/ask?query=cinnamon&streaming=true", "/ask?query.text=cinnamon&prefer.streaming=false"):
        assert "vary" not in client.get(address).headers
    assert "vary" not in ask(client, query()).headers


def test_get_sections_may_be_reached_with_dots(client: Client) -> None:
    assert events(client.get("/ask?query.text=cinnamon&prefer.streaming=true"))
    answer = told(client.get("/ask?query.text=lamp&query.site=docs&query.limit=2&prefer.mode=summarize"), "answer")
    assert len(answer["results"]) == 3
    assert told(client.get("/ask?query=and&prev=reading+lamp"), "answer")["_meta"]["decontextualized_query"]
    assert told(client.get("/ask?query.text=lamp&meta.remember=true"), "answer")["_meta"]["remembered"] is False


@pytest.mark.parametrize(
    "address",
    ["query=reading+lamp&query.itemType=Product", "query.itemType=Product&query=reading+lamp"],
)
def test_get_a_flat_query_is_restricted_by_members_with_dots(client: Client, address: str) -> None:
    found = results(client.get(f"/ask?{address}&num_results=2"))
    assert [item["@type"][0] for item in found] == ["Product", "Product"]
    failed(client.get(f"/ask?{address}&query.site=absent.example"), "NO_RESULTS")
    failed(client.get(f"/ask?{address}&query.site=absent.example,other.example"), "NO_RESULTS")
    assert results(client.get(f"/ask?{address}&query.site=absent.example,docs"))
    assert events(client.get(f"/ask?{address}&prefer.streaming=true"))


def test_legacy_a_bare_string_is_answered_in_the_envelope_of_0_55(client: Client) -> None:
    whole = results(ask(client, query()))
    for body in ({"query": "cinnamon"}, {"q": "cinnamon"}, {"question": "cinnamon", "context": {"limit": 7}}):
        found = results(ask(client, body))
        assert found == whole
        assert all("score" in item and "site" in item for item in found)
    assert len(results(ask(client, {"query": "cinnamon", "num_results": "2", "db": "x"}))) == 2


def test_legacy_a_form_is_read(client: Client) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = client.request(
        "POST", "/ask", content=b"query=reading+lamp&itemType=Product&num_results=2", headers=headers
    )
    assert [item["@type"][0] for item in results(response)] == ["Product", "Product"]


def test_json_that_curl_calls_a_form_is_json(client: Client) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = client.request("POST", "/ask", content=b' {"query": {"text": "cinnamon"}}', headers=headers)
    assert results(response) == results(ask(client, query()))


def test_rust_sdk_a_site_as_an_origin_and_a_limit(client: Client) -> None:
    body = {
        "query": {"text": "cinnamon", "site": "http://127.0.0.1:8000", "limit": 10},
        "prefer": {"streaming": False, "response_format": "conversational_search", "mode": "list"},
        "meta": {"version": "0.55"},
    }
    assert results(ask(client, body, accept=JSON))


def test_sites_lists_what_a_query_may_name(client: Client) -> None:
    answer = client.get("/sites").json()
    assert answer["_meta"]["version"] == "0.55"
    assert answer["sites"] == ["docs", "long", "textless", "recipes.example"]
    described = {one["name"]: one for one in answer["collections"]}
    assert described["docs"]["description"] == "About docs"
    assert described["long"]["documents"] == 2
    etag = client.get("/sites").headers["etag"]
    assert client.get("/sites", {"if-none-match": etag}).status_code == 304
    for site in answer["sites"]:
        assert results(ask(client, query("pasta", site=site)))


WHOLE: dict[str, Any] = {
    "query": {
        "text": "cinnamon",
        "site": "docs",
        "itemType": "Recipe",
        "price": "less than $20",
        "location": {"@type": "Place", "name": "Idaho"},
        "limit": 3,
        "start_num": 0,
        "decontextualized_query": "cinnamon cake",
        "datePublished": "after 2020",
    },
    "context": {"@type": "ConversationalContext", "prev": ["a", "b"], "text": "t", "memory": ["m", "n"]},
    "prefer": {
        "streaming": False,
        "response_format": "chatgpt_app, conversational_search",
        "mode": "list, summarize",
        "accept-language": "en",
        "user-agent": "x",
    },
    "meta": {"version": "0.55", "session_context": {"a": {"b": []}}, "user": {"@type": "Person"}, "remember": True},
}


def deep(levels: int) -> orjson.Fragment:
    """Nested deeper than orjson writes itself."""
    return orjson.Fragment(b'[{"x":' * (levels // 2) + b"0" + b"}]" * (levels // 2))


STRANGE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e308,
    2**63,
    -(2**63),
    "",
    " ",
    "\x00",
    "\u202e😀",
    "x" * 5_000,
    "$" * 90,
    "9" * 90,
    "-" * 90,
    "((((",
    "http://[",
    "less than less than",
    [],
    [None],
    [[]],
    ["x", 5],
    [{}],
    {},
    {"": ""},
    {"@type": []},
    {"gt": "x"},
    {"and": []},
    {"value": {"value": {}}},
    {"minPrice": "x", "maxPrice": []},
    deep(30),
    deep(240),
    deep(600),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where anything stands in a request."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*path, name)
        yield from places(one, (*path, name))


def mutated(rng: random.Random) -> tuple[dict[str, Any], set[tuple[Any, ...]], set[int]]:
    """A request with one to three things in it put wrong: replaced, removed, doubled under another name.

    Also the places that were replaced, and which of STRANGE stand there now.
    """
    body = copy.deepcopy(WHOLE)
    replaced, strange = set(), set()
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(list(places(body)))
        parent = body
        for name in path[:-1]:
            parent = parent[name]
        kind = rng.random()
        if kind < 0.75:
            chosen = rng.randrange(len(STRANGE))
            parent[path[-1]] = orjson.Fragment(orjson.dumps(STRANGE[chosen]))
            replaced.add(path)
            strange.add(chosen)
        elif kind < 0.85:
            del parent[path[-1]]
        elif isinstance(parent, dict):
            name = rng.choice(["query", "text", "site", "x" * 300, "offers.price", "type", "and", "", "é"])
            parent[name] = orjson.Fragment(orjson.dumps(rng.choice(STRANGE)))
    return body, replaced, strange


@pytest.mark.parametrize("rounds", [300, pytest.param(2_000, marks=pytest.mark.slow)])
def test_r2_r3_no_mutated_request_breaks_the_server(client: Client, rounds: int) -> None:
    """Every answer is one of NLWeb's, and only what is malformed is 400.

    The few rounds put every strange value somewhere and something strange in every place; the many are for pairs.
    """
    rng = random.Random(55)
    statuses: dict[int, int] = {}
    replaced: set[tuple[Any, ...]] = set()
    strange: set[int] = set()
    for _ in range(rounds):
        body, put, chosen = mutated(rng)
        replaced |= put
        strange |= chosen
        content = orjson.dumps(body)
        response = client.request("POST", "/ask", content=content, headers={"content-type": JSON})
        statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
        if response.headers["content-type"].startswith(STREAM):
            assert events(response)[-1].name in {"complete", ""}
            continue
        answer = response.json()
        kind = answer["_meta"]["response_type"].lower()
        if response.status_code == 400:
            assert answer["error"]["code"] == "INVALID_QUERY", content
        elif response.status_code == 413:
            assert answer["error"]["code"] == "PAYLOAD_TOO_LARGE", content
        else:
            assert response.status_code == 200, content
            assert kind in {"answer", "failure"}
    assert set(statuses) <= {200, 400, 413}
    assert min(statuses[200], statuses[400]) > rounds // 10
    assert replaced >= set(places(WHOLE))
    assert len(strange) == len(STRANGE)
