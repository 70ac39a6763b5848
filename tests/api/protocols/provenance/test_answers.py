"""Signed answers, verified by a library that others wrote."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from http_message_signatures import HTTPMessageVerifier, InvalidSignature, MappingKeyResolver, algorithms
from starlette.types import Message, Receive, Scope, Send

from aidre.api.access.guard import Guard
from aidre.api.config.settings import parse_settings
from aidre.api.protocols.provenance.answers import AnswerSigner, signed_headers
from aidre.api.protocols.provenance.keys import KeyRing, make_key, parse_keys
from aidre.api.server.frame import FrameMiddleware
from tests.api.frames import framed
from tests.support.clients import TEXT, a_document, fill
from tests.support.clocks import Clock
from tests.support.servers import served
from tests.support.signatures import RFC9421_KEY, Published, Received, Sent, verified_answer

BASE = "https://ai.example.com/retrieval"


Reply = Callable[[Scope, Receive, Send], Awaitable[None]]


def test_the_verifier_of_these_tests_accepts_the_example_of_rfc_9421_b_2_6() -> None:
    headers = {
        "Date": "Tue, 20 Apr 2021 02:07:55 GMT",
        "Content-Type": "application/json",
        "Content-Length": "18",
        "Signature-Input": 'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")'
        ';created=1618884473;keyid="test-key-ed25519"',
        "Signature": "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKR"
        "Cw==:",
    }
    public = parse_keys(RFC9421_KEY.encode(), Path()).signing.private.public_key()
    verifier = HTTPMessageVerifier(
        signature_algorithm=algorithms.ED25519,
        key_resolver=MappingKeyResolver(public_keys={"test-key-ed25519": public}, private_keys={}),
    )
    request = Sent("POST", "https://example.com/foo?param=Value&Pet=dog", headers)
    assert verifier.verify(request, max_age=None)
    request.headers["Content-Length"] = "19"
    with pytest.raises(InvalidSignature):
        verifier.verify(request, max_age=None)


def replying(status: int, body: bytes, content_type: str | None = "application/aidre+json") -> Reply:
    async def reply(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", str(len(body)).encode()), (b"x-other", b"kept")]
        if content_type is not None:
            headers.append((b"content-type", content_type.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return reply


def signing(reply: Reply, signer: AnswerSigner) -> FrameMiddleware:
    return framed(reply, Guard(parse_settings("")), sign=partial(signed_headers, signer))


def ask(reply: Reply, ring: KeyRing, target: str = "/search", method: str = "POST", clock: Any = time.time) -> Received:
    """The answer to a client that asked for `target` under BASE; a proxy stripped the path of BASE."""
    app = signing(reply, AnswerSigner(ring, BASE, clock=clock))

    async def call() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return await client.send(client.build_request(method, "http://127.0.0.1" + target))

    return Received.of(asyncio.run(call()), BASE + target)


BODY = orjson.dumps({"results": ["ä"] * 100})


@pytest.mark.parametrize("status", [200, 400, 401, 404, 405, 413, 429, 500, 503])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
def test_answers_are_signed_errors_too(ring: KeyRing, status: int, method: str) -> None:
    received = ask(replying(status, BODY), ring, method=method)
    result = verified_answer(received, ring.keys.document())
    assert result.covered_components['"@status"'] == str(status)
    assert result.covered_components['"@method";req'] == method
    assert result.parameters["keyid"] == ring.signing.public.id
    assert int(result.parameters["expires"]) - int(result.parameters["created"]) == 300
    assert received.headers["x-other"] == "kept"
    assert received.body == BODY


@pytest.mark.parametrize(
    "target",
    [
        "/chunks/a%20b%23chunk_1",
        "/chunks/a%2Fb%c3%A4?collection=docs&x=%26",
        "/a//b/../c;p=1",
        "/collections/docs/changes?since=a+b%2B&limit=3",
        "/?query=a'b(c)",
        "/%00%ff%",
    ],
)
def test_the_target_uri_is_base_url_and_what_was_sent(ring: KeyRing, target: str) -> None:
    """Percent-encoding as it came, without normalising, by a client whose requests are written by hand."""
    sent: list[Message] = []
    path, _, query = target.partition("?")
    scope = {"type": "http", "method": "GET", "path": "/decoded", "raw_path": path.encode(), "headers": []}
    app = signing(replying(200, BODY), AnswerSigner(ring, BASE + "/"))
    asyncio.run(app(scope | {"query_string": query.encode()}, _nothing, _into(sent)))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    covered = f'"@target-uri";req: {BASE}{target}\n"@signature-params": '
    parameters = headers["signature-input"].removeprefix("aidre=")
    digest = base64.b64encode(hashlib.sha256(BODY).digest()).decode()
    assert headers["content-digest"] == f"sha-256=:{digest}:"
    text = (
        f'"@status": 200\n"content-type": application/aidre+json\n"content-digest": sha-256=:{digest}:\n'
        f'"@method";req: GET\n{covered}{parameters}'
    )
    key = Published(ring.keys.document()).resolve_public_key(ring.signing.public.id)
    key.verify(base64.b64decode(headers["signature"].removeprefix("aidre=:").removesuffix(":")), text.encode())
    if not target.endswith("%"):  # which the library refuses to read
        verified_answer(Received(200, headers, BODY, Sent("GET", BASE + target)), ring.keys.document())


def test_a_target_is_signed_as_its_connection_received_it(path: Path, ring: KeyRing) -> None:
    fill(path.parent / "store", "docs", [a_document("a", "alpha")], (TEXT,))
    settings = f'[server]\nbase_url = "{BASE}"\n[provenance]\nkey = "{path}"'
    with served(path.parent / "store", settings) as (server, _):
        for before, target in [
            ("", "/collections"),
            ("", "/collections?"),
            ("", "/collections??"),
            ("", "/chunks/a%23chunk_1?"),
            ("", "//nothing/b?"),
            ("http://127.0.0.1", "/collections?"),
            ("http://127.0.0.1:80", "/collections?a=http://b/c"),
        ]:
            said = server.say(f"GET {before}{target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            head, _, body = said.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            received = Received(int(first.split()[1]), headers, body, Sent("GET", BASE + target))
            verified_answer(received, ring.keys.document())


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def _into(sent: list[Message]) -> Send:
    async def send(message: Message) -> None:
        sent.append(message)

    return send


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, status_code=201),
        lambda one: replace(one, body=one.body[:-1] + b" "),
        lambda one: replace(one, body=b""),
        lambda one: replace(one, request=Sent("GET", one.request.url)),
        lambda one: replace(one, request=Sent("POST", one.request.url + "?a=1")),
        lambda one: replace(one, request=Sent("POST", "https://evil.example.com/retrieval/search")),
        lambda one: replace(one, headers=one.headers | {"content-type": "application/json"}),
        lambda one: replace(one, headers=one.headers | {"content-digest": "sha-256=:" + "A" * 43 + "=:"}),
        lambda one: replace(
            one,
            headers=one.headers | {"signature-input": one.headers["signature-input"].replace("created=1", "created=2")},
        ),
        lambda one: replace(
            one,
            headers=one.headers | {"signature-input": one.headers["signature-input"].replace("expires=1", "expires=9")},
        ),
        lambda one: replace(
            one,
            headers=one.headers | {"signature-input": one.headers["signature-input"].replace('"content-digest" ', "")},
        ),
    ],
)
def test_whatever_is_covered_cannot_be_changed(ring: KeyRing, change: Callable[[Received], Received]) -> None:
    received = ask(replying(200, BODY), ring)
    verified_answer(received, ring.keys.document())
    with pytest.raises(InvalidSignature):
        verified_answer(change(received), ring.keys.document())


@pytest.mark.parametrize(("offset", "what"), [(-3_600, "past"), (3_600, "future")])
def test_an_answer_of_another_time_is_refused(ring: KeyRing, offset: int, what: str) -> None:
    received = ask(replying(200, BODY), ring, clock=lambda: time.time() + offset)
    with pytest.raises(InvalidSignature, match=what):
        verified_answer(received, ring.keys.document())


def test_every_answer_has_the_time_it_was_signed_at_and_the_key_in_force(path: Path, clock: Clock) -> None:
    ring = KeyRing(path)
    signer = AnswerSigner(ring, BASE, clock=clock)

    def input_now() -> str:
        fields = dict(signer.fields("GET", b"/", 200, b"application/json", b"{}"))
        return fields[b"signature-input"].decode()

    clock.now = 1_000_000.4
    first = input_now()
    assert ";created=1000000;expires=1000300;" in first
    clock.now = 1_000_000.9
    assert input_now() == first
    clock.now = 999_999.9  # set back
    assert ";created=999999;expires=1000299;" in input_now()
    former = ring.signing.public.id
    make_key(path, clock.now)
    ring.refresh()
    ring.signing = ring.keys.signing
    assert former in first
    assert ring.signing.public.id in input_now()


async def _stream(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for part in (b"data: 1\n\n", b"data: 2\n\n"):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _in_parts(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"a", "more_body": True})
    await send({"type": "http.response.body", "body": b"b"})


@pytest.mark.parametrize(
    ("reply", "method"),
    [
        (_stream, "POST"),
        (_in_parts, "GET"),
        (replying(204, b"", None), "OPTIONS"),
        (replying(304, b"", None), "GET"),
        (replying(200, b""), "GET"),
        (replying(200, b"bytes of no known kind", None), "GET"),
        (replying(200, BODY), "HEAD"),
    ],
)
def test_streams_and_what_has_no_content_go_as_they_are(ring: KeyRing, reply: Reply, method: str) -> None:
    received = ask(reply, ring, method=method)
    assert not {"content-digest", "signature", "signature-input"} & received.headers.keys()
    if reply is _stream:
        assert received.body == b"data: 1\n\ndata: 2\n\n"
    if reply is _in_parts:
        assert received.body == b"ab"


def test_the_head_of_a_stream_does_not_wait_for_its_first_part(ring: KeyRing) -> None:
    sent: list[Message] = []

    async def reply(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        assert [message["type"] for message in sent] == ["http.response.start"]

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    asyncio.run(signing(reply, AnswerSigner(ring, BASE))(scope, _nothing, _into(sent)))
    assert len(sent) == 1


@pytest.mark.parametrize("target", ["", "/ä"])
def test_what_no_target_uri_can_be_said_of_is_not_signed(ring: KeyRing, target: str) -> None:
    sent: list[Message] = []
    scope = {"type": "http", "method": "GET", "path": target, "raw_path": target.encode(), "headers": []}
    asyncio.run(signing(replying(404, BODY), AnswerSigner(ring, BASE))(scope, _nothing, _into(sent)))
    assert b"signature" not in dict(sent[0]["headers"])
    assert sent[1]["body"] == BODY


def test_other_protocols_than_http_pass(ring: KeyRing) -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    asyncio.run(signing(app, AnswerSigner(ring, BASE))({"type": "lifespan"}, _nothing, _into([])))
    assert seen == [{"type": "lifespan"}]
