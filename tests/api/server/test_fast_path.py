"""The fast path and the general way over real connections: the same bytes, the same counts, the same log."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.responses import Response
from starlette.types import Message

from aidre.api.http.access_log import AccessLog
from aidre.api.protocols.provenance.keys import make_key
from aidre.api.retrieval.scheduler import LoopBudget
from aidre.api.server.fast_path import Answer, _answer_resumed
from aidre.api.server.response_cycle import ResponseCycle
from tests.support.clients import COSINE, TEXT, a_document, fill, samples
from tests.support.servers import CountingConnection, Served, until_closed

SECRET, BLIND, LIMITED = "a reader's secret", "a blind secret", "a limited secret"
CONFIGURATION = f"""
[server]
base_url = "http://127.0.0.1:8000"
cors_origins = ["https://pages.example"]
log = "requests"
[limits]
body_bytes = 100000
[collections.held]
vector_queries = "scope"
[[keys]]
name = "reader"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
collections = ["vault"]
scopes = ["search", "vectors"]
[[keys]]
name = "blind"
sha256 = "{hashlib.sha256(BLIND.encode()).hexdigest()}"
scopes = ["vectors"]
[[keys]]
name = "limited"
sha256 = "{hashlib.sha256(LIMITED.encode()).hexdigest()}"
rate = "2/hour"
"""
VECTOR = [0.1, 0.2, 0.3, 0.4]
SEARCH: dict[str, Any] = {"query_vector": VECTOR, "embedding_space": COSINE.id, "collection": "docs", "top_k": 2}
KEY = f"authorization: Bearer {SECRET}"
DIFFERENT = (
    (re.compile(rb"req_[0-9a-f]{18}"), b"req_"),
    (re.compile(rb"\r\ndate: [^\r]*"), b"\r\ndate:"),
    (re.compile(rb'"next_cursor":"[^"]*"'), b'"next_cursor":""'),  # it has the time, under a secret of the store
    (re.compile(rb"(\r\nratelimit-reset: |\r\nretry-after: 1|;t=)\d+"), rb"\1"),
    (re.compile(rb"(created|expires)=\d+"), rb"\1="),
    (re.compile(rb"=:[A-Za-z0-9+/=]+:"), b"=::"),  # digest and signature of a body with its request id
)
"""What two answers to one request may differ in."""


class Fast(CountingConnection):
    """Counts what the fast path has answered."""

    fast = 0

    def _reply(self, cycle: ResponseCycle, answer: Answer | None) -> None:
        super()._reply(cycle, answer)
        Fast.fast += answer is not None


class General(CountingConnection):
    """A connection that knows no fast path."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._fast_path = None


def message(
    method: str, target: str, body: bytes = b"", *fields: str, host: str = "host: x", version: str = "1.1"
) -> bytes:
    length = () if method == "GET" else (f"content-length: {len(body)}",)
    lines = [f"{method} {target} HTTP/{version}", *([host] if host else []), *fields, *length]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def post(value: Any, *fields: str, kind: str = "content-type: application/json", **options: Any) -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return message("POST", "/search", body, kind, *fields, **options)


def get(target: str, *fields: str, **options: Any) -> bytes:
    return message("GET", target, b"", *fields, **options)


def changed(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in {**SEARCH, **members}.items() if value is not None}


def chunked(body: bytes, size: int = 7, trailer: bytes = b"") -> list[bytes]:
    head = b"POST /search HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    parts = [body[first : first + size] for first in range(0, len(body), size)]
    return [head, *(b"%x\r\n%b\r\n" % (len(part), part) for part in parts), b"0\r\n" + trailer + b"\r\n"]


def digest(body: bytes) -> str:
    return f"content-digest: sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"


BODY = json.dumps(SEARCH).encode()
LARGE = changed(unknown="x" * 70_000)
CHUNK = "/chunks/d1%23chunk_1?collection=docs"
END = get("/healthz", "connection: close")
"""The last request on every connection."""

REQUESTS: dict[str, Sequence[bytes]] = {
    "vector": [post(SEARCH)],
    "vector of a caller": [post(SEARCH, KEY)],
    "plain JSON": [post(SEARCH, "accept: application/json")],
    "not acceptable": [post(SEARCH, "accept: text/html")],
    "two Accept fields": [post(SEARCH, "accept: text/html", "accept: application/json;q=0.5")],
    "problem details": [post(b"{", "accept: application/problem+json")],
    "wrong content type": [post(SEARCH, kind="content-type: text/plain")],
    "no content type": [post(SEARCH, kind="x-kind: none")],
    "encoded": [post(SEARCH, "content-encoding: gzip")],
    "no JSON": [post(b"{]")],
    "no body": [post(b"")],
    "no object": [post([1])],
    "deep": [post(b"[" * 2_000)],
    "a lone surrogate": [post(b'{"query":"\\ud800","mode":"lexical","collection":"docs"}')],
    "no space": [post(changed(embedding_space=None))],
    "wrong dimension": [post(changed(query_vector=[1.0]))],
    "booleans": [post(changed(query_vector=[True, 0.5, 0.5, 0.5]))],
    "infinite": [post(b'{"query_vector":[1e39,0,0,0],"embedding_space":"test:plain:4:cosine:v1","collection":"docs"}')],
    "zero vector": [post(changed(query_vector=[0, 0, 0, 0]))],
    "unknown space": [post(changed(embedding_space="other"))],
    "unknown collection": [post(changed(collection="other"))],
    "private collection": [post(changed(collection="vault")), post(changed(collection="vault"), KEY)],
    "restricted vectors": [post(changed(collection="held")), post(changed(collection="held"), KEY)],
    "no collection": [post(changed(collection=None))],
    "text and vector": [post(changed(query="alpha"))],
    "neither": [post({"collection": "docs"})],
    "top_k": [post(changed(top_k=1_000)), post(changed(top_k=0)), post(changed(top_k=2.0)), post(changed(top_k="2"))],
    "fields": [post(changed(**{"return": {"text": True, "ids": False, "metadata": None}}))],
    "vectors as fields": [post(changed(**{"return": {"vectors": True}}), KEY)],
    "filter": [post(changed(filter={"n": {"gte": 2}})), post(changed(filter={"n": {"gte": 2}}))],
    "wrong filter": [post(changed(filter={"n": {"about": 2}}))],
    "unknown field": [post(changed(filter={"other": {"ne": 2}}))],
    "large filter": [post(changed(filter={"n": {"in": list(range(2_000))}}))],
    "wrong cursor": [post(changed(cursor="AAAA"))],
    "lexical": [post({"query": "alpha", "mode": "lexical", "collection": "docs"})],
    "text": [post({"query": "alpha", "collection": "docs"})] * 2,
    "blank text": [post({"query": " ", "collection": "docs"})],
    "digest": [post(BODY, digest(BODY)), post(BODY, digest(b"other"))],
    "unknown key": [post(SEARCH, "authorization: Bearer none")],
    "something like a token": [post(SEARCH, "authorization: Bearer a.b.c")],
    "other scheme": [post(SEARCH, "authorization: Basic eDp5")],
    "two credentials": [post(SEARCH, KEY, KEY)],
    "no scope": [post(SEARCH, f"authorization: Bearer {BLIND}")],
    "rate": [post(SEARCH, f"authorization: Bearer {LIMITED}")] * 4,
    "other host": [post(SEARCH, host="host: evil.example"), get(CHUNK, host="host: evil.example")],
    "no host": [post(SEARCH, host="")],
    "two hosts": [post(SEARCH, "host: y")],
    "wrong host": [post(SEARCH, host="host: a b")],
    "origin": [post(SEARCH, "origin: https://pages.example"), get(CHUNK, "origin: https://pages.example")],
    "other origin": [post(SEARCH, "origin: https://evil.example")],
    "preflight": [
        message("OPTIONS", "/search", b"", "origin: https://pages.example", "access-control-request-method: POST")
    ],
    "HEAD": [message("HEAD", CHUNK, b""), message("HEAD", "/search", b"")],
    "other methods": [get("/search"), message("POST", CHUNK, b"x"), message("DELETE", CHUNK, b"")],
    "chunk": [get(CHUNK), get(CHUNK, KEY), get(CHUNK, "accept: application/json")],
    "chunk of no collection": [get("/chunks/d1%23chunk_1"), get("/chunks/d1%23chunk_1", KEY)],
    "no chunk": [get("/chunks/none?collection=docs"), get("/chunks/"), get("/chunks"), get("/chunks/a/b/c")],
    "odd ids": [get("/chunks/%ff"), get("/chunks/a%0Ab"), get("/chunks/%"), get("/chunks/d1%23chunk_1?collection=%ff")],
    "known copy": [get(CHUNK, "if-none-match: *"), get(CHUNK, "if-modified-since: Fri, 01 Jan 2100 00:00:00 GMT")],
    "chunk with a body": [b"GET " + CHUNK.encode() + b" HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc"],
    "absolute target": [get("http://x" + CHUNK), get("http://x")],
    "fragment": [get(CHUNK + "#here")],
    "in pieces": [post(SEARCH)[:40], post(SEARCH)[40:-20], post(SEARCH)[-20:]],
    "header and body apart": [post(SEARCH)[: -len(BODY)], BODY],
    "in chunks": [b"".join(chunked(BODY))],
    "in chunks, apart": chunked(BODY),
    "in chunks with a trailer": [b"".join(chunked(BODY, trailer=b"authorization: Bearer none\r\n"))],
    "large": [post(LARGE)],
    "large, apart": [post(LARGE)[:20_000], post(LARGE)[20_000:]],
    "too large": [post(changed(unknown="x" * 200_000))],
    "too large in chunks": [b"".join(chunked(json.dumps(changed(unknown="x" * 200_000)).encode(), 50_000))],
    "expected": [post(SEARCH, "expect: 100-continue")],
    "upgrade": [post(SEARCH, "connection: upgrade", "upgrade: h2c")],
    "old": [post(SEARCH, version="1.0")],
    "closed": [post(SEARCH, "connection: close"), post(SEARCH)],
    "closed, at once": [b"".join([post(SEARCH, "connection: close"), post(SEARCH)])],
    "behind each other": [b"".join([post(SEARCH), get(CHUNK), post(b"{"), post(SEARCH, KEY), get(CHUNK, KEY)])],
    "behind one that waits": [
        b"".join([post(changed(filter={"n": 3})), get(CHUNK), get("/collections"), post(SEARCH)])
    ],
    "behind many": [post(SEARCH) * 60],
    "nonsense in a body": [chunked(BODY)[0] + b"zz\r\n"],
}
GENERAL = {"HEAD", "other methods", "preflight", "expected", "fragment", "large", "large, apart", "too large"}
GENERAL |= {"too large in chunks", "large filter", "unknown field", "nonsense in a body"}
"""What the fast path does not answer."""
EITHER = {"filter", "text", "in pieces", "header and body apart", "in chunks, apart", "behind one that waits"}
"""What it answers if the pieces come soon enough."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fast") / "store"
    words = ["alpha", "beta", "gamma", "alpha beta", "beta gamma"]
    documents = [
        a_document(f"d{n}", text, metadata={"n": n}, url=f"https://example.com/{n}") for n, text in enumerate(words)
    ]
    for name in ("docs", "held"):
        fill(path, name, documents, (TEXT, COSINE))
    fill(path, "vault", documents[:2], (TEXT, COSINE), "private")
    return path


class Pair(NamedTuple):
    """Two servers over copies of one store: with the fast path and without."""

    fast: Served
    general: Served
    lines: dict[int, list[dict[str, Any]]]
    """What each server logged, in the order of the two."""

    def say(self, pieces: Sequence[bytes]) -> tuple[bytes, bytes]:
        """All that each of them answers to the pieces, one after the other."""
        return _said(self.fast, pieces), _said(self.general, pieces)

    def logged(self) -> list[list[dict[str, Any]]]:
        return list(self.lines.values())


def _said(server: Served, pieces: Sequence[bytes]) -> bytes:
    with closing(server.connect()) as client:
        for piece in pieces:
            if server.holds(client) or piece is pieces[0]:
                server.take(client, piece)
        with suppress(OSError):  # the server may have closed the connection
            client.sendall(END)
        said = until_closed(client)
    server.rest()
    for pattern, same in DIFFERENT:
        said = pattern.sub(same, said)
    return said


def paired(filled: Path, folder: Path, stack: ExitStack, configuration: str = CONFIGURATION) -> Pair:
    lines: dict[int, list[dict[str, Any]]] = {}
    patch = stack.enter_context(pytest.MonkeyPatch.context())

    def write(log: AccessLog, **line: Any) -> None:
        kept = {name: value for name, value in line.items() if name not in {"identifier", "seconds"}}
        lines.setdefault(id(log), []).append(kept)

    patch.setattr(AccessLog, "write", write)
    servers = []
    for protocol in (Fast, General):
        store = shutil.copytree(filled, folder / protocol.__name__)
        server = Served(store, configuration, protocol)
        stack.enter_context(server.run())
        servers.append(server)
    fast, general = servers
    return Pair(fast, general, lines)


@pytest.fixture(scope="module")
def pair(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield paired(filled, tmp_path_factory.mktemp("servers"), stack)


@pytest.mark.parametrize("name", REQUESTS)
def test_both_ways_write_the_same_bytes(pair: Pair, name: str) -> None:
    before, pair_lines = Fast.fast, [len(lines) for lines in pair.logged()] or [0, 0]
    fast, general = pair.say(REQUESTS[name])
    assert fast == general
    assert fast.startswith(b"HTTP/1.1 "), "there is an answer"
    if name not in EITHER:
        assert (Fast.fast > before) == (name not in GENERAL), "it takes the way that it is said to take"
    of_fast, of_general = (lines[first:] for lines, first in zip(pair.logged(), pair_lines, strict=True))
    assert of_fast == of_general


def test_nonsense_behind_an_answer_is_refused_after_it(pair: Pair) -> None:
    """The general way begins to answer only after it has read the nonsense, and closes the connection instead."""
    fast, general = pair.say([b"".join([post(SEARCH), b"\0\0\0\r\n\r\n"])])
    assert re.findall(rb"HTTP/1.1 (\d+)", fast) == [b"200", b"400"]
    assert general.startswith(b"HTTP/1.1 200 OK")
    assert b"\r\nconnection: close\r\n" in fast and b"\r\nconnection: close\r\n" in general


def test_both_ways_are_counted_alike(pair: Pair) -> None:
    for pieces in REQUESTS.values():
        pair.say(pieces)
    counted = []
    for server in (pair.fast, pair.general):
        found = samples(until_closed_text(server))
        counted.append({name: value for name, value in found.items() if _is_count(name)})
    assert counted[0] == counted[1]
    assert counted[0]["aidre_requests_in_flight"] == 1, "that for the metrics"


def until_closed_text(server: Served) -> str:
    return server.say(get("/metrics", "connection: close")).partition(b"\r\n\r\n")[2].decode()


def _is_count(name: str) -> bool:
    return name.startswith(("aidre_requests", "aidre_refusals")) or "_seconds_count" in name


def test_at_the_concurrency_limit_both_say_the_same(pair: Pair) -> None:
    with pair.fast.full(), pair.general.full():
        for name in (
            "vector",
            "vector of a caller",
            "chunk",
            "behind each other",
            "header and body apart",
            "unknown key",
        ):
            for _ in range(2):
                fast, general = pair.say(REQUESTS[name])
                assert fast == general
                assert b"503 Service Unavailable" in fast
    assert pair.fast.running.count == pair.general.running.count == 0


@pytest.mark.parametrize(
    "name", ["vector", "vector of a caller", "wrong dimension", "zero vector", "behind each other"]
)
def test_a_search_that_waits_for_its_turn_is_answered_alike(
    pair: Pair, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoopBudget, "arrive", lambda budget: True)
    before = Fast.fast
    fast, general = pair.say(REQUESTS[name])
    assert fast == general
    assert Fast.fast > before
    assert pair.fast.running.count == pair.general.running.count == 0


def test_whoever_leaves_before_the_turn_of_a_search_keeps_no_slot(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopBudget, "arrive", lambda budget: True)
    for _ in range(20):
        with closing(pair.fast.connect()) as client:
            client.sendall(post(SEARCH))
    pair.fast.rest()
    assert pair.fast.running.count == 0
    assert pair.say(REQUESTS["vector"])[0].startswith(b"HTTP/1.1 200 OK")


def test_signed_answers_are_the_same(filled: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "keys.pem", 0.0)
    signed = f'{CONFIGURATION}\n[provenance]\nkey = "{tmp_path}/keys.pem"\n'
    names = ("vector", "chunk", "known copy", "no chunk", "rate", "other host", "not acceptable", "behind each other")
    with ExitStack() as stack:
        pair = paired(filled, tmp_path, stack, signed)
        for name in names:
            before = Fast.fast
            fast, general = pair.say(REQUESTS[name])
            assert re.sub(rb'"provenance":"[^"]*"', b"", fast) == re.sub(rb'"provenance":"[^"]*"', b"", general)
            assert b"\r\nsignature: " in fast or name == "known copy"
            assert Fast.fast > before


def test_behind_a_trusted_proxy_both_say_the_same(filled: Path, tmp_path: Path) -> None:
    proxied = CONFIGURATION.replace("[limits]", 'trusted_proxies = ["127.0.0.1"]\n[limits]\nrate = "2/hour"')
    with ExitStack() as stack:
        pair = paired(filled, tmp_path, stack, proxied)
        for address in ("203.0.113.1", "203.0.113.2", "203.0.113.1", "203.0.113.1"):
            fast, general = pair.say([post(SEARCH, f"x-forwarded-for: {address}", "x-original-uri: /search")])
            assert fast == general
        assert b"429" in fast


Story = Callable[["asyncio.Future[str]"], Coroutine[Any, Any, Response]]


def resumed(endpoint: Story, then: Callable[[asyncio.Future[str], asyncio.Task[None]], object]) -> bytes:
    """The body that is sent by a task that takes over at the first wait; `then` is called while it waits."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def story() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        started = endpoint(future)
        rest = _answer_resumed(started, started.send(None), {"type": "http"}, None, send)  # type: ignore[arg-type]
        task = asyncio.create_task(rest)
        await asyncio.sleep(0)
        then(future, task)
        await task

    asyncio.run(story())
    return b"".join(message.get("body", b"") for message in sent)


async def waiting(future: asyncio.Future[str]) -> Response:
    found = await future
    await asyncio.sleep(0)
    return Response(found + await asyncio.to_thread(str.upper, found))


def test_it_goes_on_with_what_it_waited_for() -> None:
    assert resumed(waiting, lambda future, task: future.set_result("found")) == b"foundFOUND"


def test_what_fails_fails_where_it_is_awaited() -> None:
    async def endpoint(future: asyncio.Future[str]) -> Response:
        try:
            return await waiting(future)
        except ValueError as error:
            return Response(f"refused: {error}")

    assert resumed(endpoint, lambda future, task: future.set_exception(ValueError("why"))) == b"refused: why"


def test_a_cancellation_reaches_the_endpoint() -> None:
    ended = []

    async def endpoint(future: asyncio.Future[str]) -> Response:
        try:
            return await waiting(future)
        finally:
            ended.append(future.cancelled())

    with pytest.raises(asyncio.CancelledError):
        resumed(endpoint, lambda future, task: task.cancel())
    assert ended == [True]
