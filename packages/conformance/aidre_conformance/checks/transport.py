"""Checks of HTTP itself, for whichever protocols the server speaks: what proxies, libraries and old clients send."""

from __future__ import annotations

import gzip
from contextlib import suppress
from urllib.parse import quote, urlsplit

import orjson

from aidre_conformance import AIDRE_JSON, JSON, Checks, Exchange, Failed, NotTestable, Target, expect, require, shown
from aidre_conformance.checks.discovery import (
    chunk_url,
    discovery,
    endpoint,
    sample,
    sample_ids,
    sample_results,
    search,
)
from aidre_conformance.checks.nlweb import ask_url, question

CHECKS = Checks("http", "RFC 9110")
DOCUMENTS = ("ai-discovery", "aip.json", "agent-intake.json")


def documents(target: Target) -> list[str]:
    """The addresses that answer a GET. NotTestable where there is none."""

    def find() -> list[str]:
        found = [f"{target.origin}/.well-known/{name}" for name in DOCUMENTS if target.well_known(name).status == 200]
        require(found, "the server has none of the discovery documents")
        return found

    return target.once("documents", find)


def posts(target: Target) -> list[tuple[str, bytes, str]]:
    """Requests that succeed: address, body and media type. NotTestable where there is none."""

    def find() -> list[tuple[str, bytes, str]]:
        found = []
        with suppress(NotTestable):
            found.append((endpoint(target, "search"), orjson.dumps(sample(target)), AIDRE_JSON))
        with suppress(NotTestable):
            found.append((ask_url(target), orjson.dumps({"query": {"text": question(target)}}), JSON))
        require(found, "the server answers neither a search nor a question")
        return found

    return target.once("posts", find)


@CHECKS.add("9.3.2", "MUST", "The HEAD method is identical to GET except that the server MUST NOT send content.")
def _head(target: Target) -> None:
    for url in documents(target):
        plain, head = target.get(url), target.send("HEAD", url)
        expect(head.status == plain.status, f"{head.name}, and GET {plain.status}")
        expect(not head.body, f"{head.name}: it has content")
        expect(head.media_type == plain.media_type, f"{head.name} as {head.media_type}, and GET as {plain.media_type}")


@CHECKS.add("15.5.6", "MUST", "The origin server MUST generate an Allow header field in a 405 response.")
def _allow(target: Target) -> None:
    tested = False
    for url, _, _ in posts(target):
        for method in ("DELETE", "PUT"):
            answer = target.send(method, url)
            if answer.status == 405:
                tested = True
                expect(
                    "POST" in (answer.header("allow") or "").upper(),
                    f"{answer.name}: Allow is {answer.header('allow')}",
                )
    for url in documents(target):
        answer = target.send("DELETE", url)
        if answer.status == 405:
            tested = True
            expect("GET" in (answer.header("allow") or "").upper(), f"{answer.name}: Allow is {answer.header('allow')}")
    require(tested, "no method is refused with 405")


@CHECKS.add(
    "5.5",
    "MUST",
    "A field value does not include leading or trailing whitespace.",
    reading="so whitespace around a value, and around the `;` of a parameter, changes nothing",
)
def _header_whitespace(target: Target) -> None:
    for url, body, kind in posts(target):
        for value in (f"  {kind}", f"\t{kind}  ", f"{kind} ; charset=utf-8", f"{kind}; charset=utf-8 ;"):
            answer = target.send("POST", url, [("Content-Type", value), ("Accept", f"  {kind} , */* ")], body)
            expect(answer.status == 200, f"{answer.name} for Content-Type: {shown(value)}")


@CHECKS.add("5.1", "MUST", "Field names are case-insensitive.")
def _header_case(target: Target) -> None:
    for url, body, kind in posts(target):
        answer = target.send("POST", url, [("CONTENT-TYPE", kind.upper()), ("aCCept", kind)], body)
        expect(answer.status == 200, f"{answer.name} for CONTENT-TYPE: {kind.upper()}")


@CHECKS.add(
    "12.5.5",
    "SHOULD",
    "An origin server SHOULD generate a Vary header field on a response that it wishes to be "
    "selected by the request's header fields.",
)
def _vary(target: Target) -> None:
    tested = False
    for url in documents(target):
        answers = [target.get(url, accept=kind) for kind in (JSON, AIDRE_JSON)]
        if len({answer.media_type for answer in answers}) > 1:
            tested = True
            for answer in answers:
                varied = {name.strip().lower() for name in (answer.header("vary") or "").split(",")}
                expect(varied & {"accept", "*"}, f"{answer.name}: Vary is {answer.header('vary')}")
    require(tested, "no document is negotiated")


@CHECKS.add("8.4.1", "MUST", "Content-Encoding indicates what content codings have been applied to the representation.")
def _gzip(target: Target) -> None:
    for url in documents(target):
        plain = target.get(url, accept_encoding="identity")
        expect((plain.header("content-encoding") or "identity") == "identity", f"{plain.name} is encoded, unasked")
        packed = target.get(url, accept_encoding="gzip, deflate;q=0.5")
        same = _without_variables(packed) == _without_variables(plain)
        expect(same, f"{packed.name} decodes to something else than without Accept-Encoding")
        if packed.header("content-encoding") not in {None, "identity"}:
            varied = {name.strip().lower() for name in (packed.header("vary") or "").split(",")}
            expect(varied & {"accept-encoding", "*"}, f"{packed.name} is encoded and Vary is {packed.header('vary')}")
            tags = (plain.header("etag") or "", packed.header("etag") or "")
            strong = tags[0] == tags[1] and tags[0] and not tags[0].startswith("W/")
            expect(not strong, f"{packed.name}: two representations have the strong ETag {tags[0]}")


def _without_variables(answer: Exchange) -> dict[str, object]:
    return {name: value for name, value in answer.object.items() if name != "request_id"}


@CHECKS.add(
    "15.5.16",
    "SHOULD",
    "415 Unsupported Media Type: ... due to Content-Encoding.",
    reading="a compressed body is understood or refused as such, and never an error of the server's",
)
def _compressed_request(target: Target) -> None:
    for url, body, kind in posts(target):
        answer = target.send("POST", url, {"content-type": kind, "content-encoding": "gzip"}, gzip.compress(body))
        expect(answer.status in {200, 202, 400, 415}, f"{answer.name} for a body with Content-Encoding: gzip")


@CHECKS.add(
    "4.2.3",
    "SHOULD",
    "URIs that differ only by a slash at the end name other resources.",
    reading="a slash too many is answered or refused in JSON, without a redirect that loses the body",
)
def _trailing_slash(target: Target) -> None:
    for url, body, kind in posts(target):
        answer = target.send("POST", f"{url}/", {"content-type": kind, "accept": kind}, body)
        expect(not 300 <= answer.status < 400, f"{answer.name}: a redirect")
        expect(answer.status < 500, answer.name)
        expect(isinstance(answer.object, dict), answer.name)


@CHECKS.add(
    "4.2.2",
    "MUST",
    "Percent-encoded octets that are reserved are not equivalent to the bare characters.",
    text="RFC 3986",
    reading="an id of a result with `#`, `/`, spaces or letters beyond ASCII is found under its encoded form",
)
def _encoded_ids(target: Target) -> None:
    special = [chunk_id for chunk_id in _many_ids(target) if quote(chunk_id, safe="-._~") != chunk_id]
    slashed = [chunk_id for chunk_id in special if "/" in chunk_id]
    require(special, "no id has a character that is encoded")
    for chunk_id in (slashed[:5] or []) + special[:5]:
        answer = target.get(chunk_url(target, chunk_id))
        expect(answer.status == 200, f"{answer.name}, expected 200")
        expect(answer.object.get("id") == chunk_id, f"{answer.name}: id is {shown(answer.object.get('id'))}")


def _many_ids(target: Target) -> list[str]:
    answer = search(target, {**sample(target), "top_k": 50})
    results = answer.object.get("results", []) if answer.status == 200 else sample_results(target)
    ids = [result["id"] for result in results if isinstance(result.get("id"), str)]
    return ids or sample_ids(target)


@CHECKS.add(
    "3.1",
    "SHOULD",
    "endpoints: absolute URLs",
    text="AIDRE",
    reading="also below a path: the addresses work as they stand",
)
def _path_prefix(target: Target) -> None:
    prefixed = [name for name in ("search", "collections") if urlsplit(endpoint(target, name)).path.count("/") > 1]
    require(prefixed, "no endpoint is below a path")
    for name in prefixed:
        url = endpoint(target, name)
        answer = search(target, sample(target)) if name == "search" else target.get(url)
        expect(answer.status == 200, f"{answer.name}, expected 200")


@CHECKS.add(
    "4.2.1",
    "MUST",
    "Applications do not use a well-known URI below their own.",
    text="RFC 8615",
    reading="an unknown name there is 404",
)
def _unknown_well_known(target: Target) -> None:
    documents(target)
    answer = target.get(f"{target.origin}/.well-known/no-such-document-5b1f")
    expect(answer.status == 404, f"{answer.name}, expected 404")


@CHECKS.add(
    "15.6",
    "SHOULD",
    "Errors are told in the representation of the protocol.",
    reading="an unknown address below an endpoint is 404 in JSON",
)
def _unknown_address(target: Target) -> None:
    discovery(target)
    answer = target.get(f"{endpoint(target, 'search')}/no-such-address-5b1f")
    expect(answer.status in {404, 405}, f"{answer.name}, expected 404")
    try:
        found = isinstance(answer.object, dict)
    except Failed:
        found = False
    expect(found, f"{answer.name} as {answer.media_type or 'no type'}, expected a JSON object")
