"""Checks of AIDRE: errors, media types and limits of searches (draft-batum-aidre-00)."""

from __future__ import annotations

import re

from aidre_conformance import AIDRE_JSON, JSON, Checks, Exchange, Target, expect, require, shortened, shown
from aidre_conformance.checks.discovery import (
    chunk_url,
    endpoint,
    results_of,
    sample,
    sample_ids,
    sample_results,
    search,
)
from aidre_conformance.checks.search import expect_refusal, ids_of, text_search

CHECKS = Checks("aidre", "AIDRE")
CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,63}")
LEAK = re.compile(rb"Traceback \(most recent|\bFile \"/|/usr/lib|/home/|/site-packages/|\bat [\w.$]+\([\w]+\.java:\d+")


# -- errors ----------------------------------------------------------------------------------------------------------


def errors(target: Target) -> list[Exchange]:
    """Answers to requests that each have one thing wrong."""

    def collect() -> list[Exchange]:
        url = endpoint(target, "search")
        answers = [
            target.send("POST", url, {"content-type": AIDRE_JSON}, b'{"query": '),
            target.send("POST", url, {"content-type": AIDRE_JSON}, b"[1, 2]"),
            target.send("POST", url, {"content-type": AIDRE_JSON}, b'{"query": "\xff"}'),
            target.send("POST", url, {"content-type": AIDRE_JSON}, b""),
            search(target, {}),
            search(target, {**sample(target), "collection": "no-such-collection-5b1f"}),
            search(target, {**sample(target), "top_k": 0}),
            target.get(url),
            target.get(chunk_url(target, "no-such-chunk-5b1f")),
            target.send("DELETE", url, {"accept": AIDRE_JSON}),
            target.send("POST", url, {"content-type": "text/plain"}, b"hello"),
        ]
        return [answer for answer in answers if answer.status >= 400]

    return target.once("errors", collect)


@CHECKS.add("17.1", "MUST", "Errors MUST be JSON objects.")
def _errors_are_objects(target: Target) -> None:
    found = errors(target)
    require(found, "no request was refused")
    for answer in found:
        expect("json" in answer.media_type, f"{answer.name} is {answer.media_type or 'without a type'}")
        expect(isinstance(answer.object, dict), answer.name)


@CHECKS.add("17.1", "SHOULD", "Error responses SHOULD contain: error, message, details, request_id.")
def _error_members(target: Target) -> None:
    for answer in errors(target):
        body = answer.object
        for name in ("error", "message", "request_id"):
            expect(isinstance(body.get(name), str), f"{answer.name}: {name} is {shown(body.get(name))}")
        expect("details" in body, f"{answer.name}: there are no details")


@CHECKS.add("17.3", "SHOULD", "Servers SHOULD use stable, machine-readable error values.")
def _error_codes(target: Target) -> None:
    for answer in errors(target):
        code = answer.object.get("error")
        expect(isinstance(code, str) and CODE.fullmatch(code), f"{answer.name}: error is {shown(code)}")
    for wrong in ({"top_k": 0}, {"top_k": -3}):
        again = search(target, {**sample(target), **wrong}).object.get("error")
        expect(again == "invalid_request", f"error is {shown(again)} for {shown(wrong)}, expected invalid_request")


@CHECKS.add("15.4", "SHOULD", "400 Bad Request: syntactically invalid request.")
def _bad_request(target: Target) -> None:
    for raw in (b'{"query": ', b"[1]", b'"x"', b"\xff\xfe", b'{"query": "\xff"}', b""):
        answer = target.send("POST", endpoint(target, "search"), {"content-type": AIDRE_JSON}, raw)
        expect(answer.status == 400, f"{answer.name} for the body {shown(raw.decode(errors='replace'))}, expected 400")
    for wrong in ({"query": 7}, {"query": ["a"]}, {"query": "a", "top_k": "x"}, {"query": "a", "top_k": []}):
        expect_refusal(search(target, {**sample(target), **wrong}), 400, 422)


@CHECKS.add("15.4", "SHOULD", "404 Not Found: resource identifier not found.")
def _unknown_collection(target: Target) -> None:
    expect_refusal(search(target, {**sample(target), "collection": "no-such-collection-5b1f"}), 404)


@CHECKS.add("15.4", "SHOULD", "415 Unsupported Media Type: unsupported Content-Type.")
def _unsupported_media_type(target: Target) -> None:
    for kind in ("text/plain", "application/xml", "application/x-www-form-urlencoded"):
        answer = search(target, sample(target), content_type=kind)
        expect(answer.status == 415, f"{answer.name} for {kind}, expected 415")


@CHECKS.add("12", "SHOULD", "Sensitive data SHOULD NOT be exposed unintentionally.")
def _no_leak(target: Target) -> None:
    for answer in errors(target):
        leak = LEAK.search(answer.body)
        expect(leak is None, f"{answer.name}: it shows {shortened(answer.body[:200].decode(errors='replace'))}")


# -- media types -----------------------------------------------------------------------------------------------------


@CHECKS.add(
    "14.1",
    "MUST",
    "Clients MUST send a Content-Type header of application/aidre+json when sending AIDRE request bodies.",
    reading="so servers accept it, with parameters and in any case",
)
def _content_type(target: Target) -> None:
    for kind in (AIDRE_JSON, f"{AIDRE_JSON}; charset=utf-8", f"{AIDRE_JSON};charset=UTF-8", "Application/AIDRE+JSON"):
        answer = search(target, sample(target), content_type=kind)
        expect(answer.status == 200, f"{answer.name} for Content-Type: {kind}")


@CHECKS.add(
    "15.3",
    "SHOULD",
    "Servers SHOULD include a Content-Type response header set to application/aidre+json for "
    "successful AIDRE responses.",
)
def _response_type(target: Target) -> None:
    text = sample(target)
    answers = [search(target, text), search(target, text, accept=f"{AIDRE_JSON}, {JSON}")]
    answers.append(target.get(endpoint(target, "collections"), accept=AIDRE_JSON))
    answers += [
        target.get(chunk_url(target, chunk_id), accept=AIDRE_JSON) for chunk_id in ids_of(sample_results(target))[:1]
    ]
    for answer in answers:
        expect(answer.media_type == AIDRE_JSON, f"{answer.name} as {answer.media_type or 'no type'}")


@CHECKS.add("14.2", "MUST", "AIDRE JSON payloads MUST use UTF-8 encoding.")
def _utf8(target: Target) -> None:
    text = text_search(target)
    for query in ("çığ düştü", "検索 テスト", "🙂 Straße", text["query"]):
        answer = search(target, {**text, "query": query, "return": {"ids": True, "metadata": True, "text": True}})
        if answer.status in {401, 403, 422}:
            answer = search(target, {**text, "query": query})
        results_of(answer)
        expect(not answer.content.startswith(b"\xef\xbb\xbf"), "the body begins with a byte order mark")
        declared = re.search(r"charset=\"?([\w-]+)", answer.header("content-type") or "")
        expect(declared is None or declared[1].lower() == "utf-8", f"charset is {declared and declared[1]}")
    for chunk_id in sample_ids(target):
        _ = target.get(chunk_url(target, chunk_id), accept=AIDRE_JSON).json
    for result in sample_results(target):
        lost = "\\x" in str(result.get("text", "")) or "�" in str(result.get("text", ""))
        expect(not lost, f"a text lost characters: {shown(result.get('text'))}")


@CHECKS.add(
    "21.2",
    "SHOULD",
    "Deployments SHOULD consider exposing: RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset.",
    reading="whole numbers where they are sent, and no more remains than the limit",
)
def _rate_limit_fields(target: Target) -> None:
    answer = search(target, sample(target))
    values = {}
    for name in ("limit", "remaining", "reset"):
        value = answer.header(f"ratelimit-{name}")
        if value is not None:
            expect(value.strip().isdigit(), f"RateLimit-{name.capitalize()} is {shown(value)}")
            values[name] = int(value)
    require(values, "no limit is stated")
    if {"limit", "remaining"} <= values.keys():
        expect(values["remaining"] <= values["limit"], f"more remains than the limit: {shown(values)}")
    if "limit" in values:
        expect("reset" in values, "RateLimit-Limit without RateLimit-Reset")
