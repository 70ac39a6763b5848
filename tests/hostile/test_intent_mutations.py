"""Agentic Intent under mutated requests: never a 500, always its own envelope, and nothing that tells keys apart."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import hmac
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aidre.api.http.http_errors import Unprocessable
from aidre.api.operations.openapi import EXAMPLES
from aidre.api.protocols.intent.intent_messages import read_event, read_retrieve
from tests.support import publishers
from tests.support.clients import Client
from tests.support.intent_platform import FIELDS, Platform
from tests.support.intent_schemas import RETRIEVE_RESPONSE, valid
from tests.support.publishers import CONFIGURATION, log_of, platform_of, publishing

store, client = publishers.store, publishers.client

PARTS = ("intent", "context", "runtime")
MUTATIONS = 1_000
AT_ONCE = 50
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    1e308,
    "",
    " ",
    "x" * 2_000,
    "\u0000",
    "ü😀\u202e",
    "../../etc/passwd",
    "'; DROP TABLE nonces; --",
    [],
    {},
    [[]],
    {"a": {"b": {}}},
    ["x"] * 50,
    "2026-04-01T10:00:00Z",
    "finance.markets",
    "1.0",
]
RAW = [b"", b"\xff\xfe", b"{", b"[" * 2_000, b'{"a":1}{', b"null", b'"\\ud800"', b'{"request_id":"\\ud800"}', b"NaN"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


def mutated(chance: random.Random, message: dict[str, Any]) -> bytes:
    """The message with one to three members changed, removed or added; sometimes its bytes are hurt too."""
    if chance.random() < 0.05:
        return chance.choice(RAW)
    message = copy.deepcopy(message)
    for _ in range(chance.randint(1, 3)):
        where = chance.choice(list(places(message)) or [()])
        if not where:
            break
        holder: Any = message
        for name in where[:-1]:
            holder = holder[name]
        kind = chance.random()
        if kind < 0.6:
            holder[where[-1]] = copy.deepcopy(chance.choice(VALUES))
        elif kind < 0.8:
            del holder[where[-1]]
        elif isinstance(holder, dict):
            holder[chance.choice(["extra", "price", "", "x" * 500, "user", "$schema"])] = chance.choice(VALUES)
    content = json.dumps(message).encode()
    if chance.random() < 0.1:
        place = chance.randrange(len(content))
        content = content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
    return content


def headers_of(chance: random.Random, platform: Platform, path: str, content: bytes) -> list[tuple[bytes, bytes]]:
    """Signed over the mutated body, so that it is read; sometimes a field is hurt."""
    headers = platform.headers("POST", path, content)
    kind = chance.random()
    if kind < 0.1:
        headers[chance.choice(FIELDS)] = chance.choice(["", "x", "0.1", "v1=", "2026-04-01T10:00:00Z", "9" * 300])
    elif kind < 0.15:
        del headers[chance.choice(FIELDS)]
    elif kind < 0.2:
        headers["content-type"] = chance.choice(["", "text/html", "application/json; charset=x", "a/b; q"])
    return [(name.encode(), value.encode("utf-8")) for name, value in headers.items()]


def test_mutated_requests_never_break_the_server(client: Client) -> None:
    chance, platform = random.Random(5), platform_of(client)
    answer = platform.retrieve()
    messages = {"/aip/retrieve": platform.request(), "/aip/events": platform.citation(answer)}
    before = len(log_of(client))

    async def batch() -> list[tuple[int, bytes]]:
        calls = []
        for _ in range(AT_ONCE):
            path = chance.choice(list(messages))
            content = mutated(chance, messages[path])
            headers = headers_of(chance, platform, path, content)
            calls.append(client._http.request("POST", path, content=content, headers=headers))
        return [(response.status_code, response.content) for response in await asyncio.gather(*calls)]

    seen: Counter[int] = Counter()
    answered = 0
    for _ in range(MUTATIONS // AT_ONCE):
        for status, content in client._runner.run(batch()):
            seen[status] += 1
            body = json.loads(content)
            if "event_id" in body:
                answered += status == 202
            else:
                valid(RETRIEVE_RESPONSE, body)
                answered += body["status"] == "ok"
    assert set(seen) <= {200, 202, 400, 401, 404, 409, 415, 422}
    assert min(seen[status] for status in (200, 400, 401, 415, 422)) > 0
    assert len(log_of(client)) == before + answered


def test_an_unknown_key_costs_the_work_of_a_known_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: what is hashed, under keys of which length, and what is compared."""
    work: list[tuple[str, int, int]] = []

    def digest(key: bytes, text: bytes, name: str) -> bytes:
        work.append(("digest", -(-len(key) // hashlib.new(name).block_size), len(text)))
        return original_digest(key, text, name)

    def compare(one: bytes, other: bytes) -> bool:
        work.append(("compare", len(one), len(other)))
        return original_compare(one, other)

    original_digest, original_compare = hmac.digest, hmac.compare_digest
    monkeypatch.setattr(hmac, "digest", digest)
    monkeypatch.setattr(hmac, "compare_digest", compare)
    done, said = [], set()
    for key_id in ("platform", "plutform"):
        work.clear()
        platform = platform_of(client, key_id=key_id, secret="not the secret of it")
        body = platform.request(id="req_same", session="s", timestamp="2026-04-01T10:00:00Z")
        body["platform"]["id"] = "same"
        status, _, content = platform.post("/aip/retrieve", body, nonce="n" * 22)
        assert status == 401
        done.append(list(work))
        said.add(json.dumps({**json.loads(content), "timestamp": None}))
    assert len(done[0]) == 2
    assert done[0] == done[1]
    assert len(said) == 1


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "\u2028", "\x1b[2J"])
def test_a_member_that_is_not_known_is_named_in_one_line(name: str) -> None:
    examples = json.loads(EXAMPLES.read_bytes())
    event, request = ({**examples[one]["request"], name: 1} for one in ("reportCitation", "retrieve"))
    for read in (lambda: read_event(event, "0.1", event["publisher"]), lambda: read_retrieve(request, "0.1", 100)):
        with pytest.raises(Unprocessable, match="is not a member") as raised:
            read()
        assert str(raised.value).isprintable()


def test_requests_at_once_are_not_given_more_than_the_chunks_of_a_day(store: Path) -> None:
    """What is refused for that leaves neither a receipt nor anything that the session would lack later."""
    with publishing(store, CONFIGURATION + "[limits]\nchunks_per_day = 5\n") as (client, platform):

        async def all_at_once() -> list[dict[str, Any]]:
            calls = []
            for number in range(20):
                content = json.dumps(platform.request(f"alpha {number}", session=f"s{number}")).encode()
                headers = platform.headers("POST", "/aip/retrieve", content)
                calls.append(client._http.request("POST", "/aip/retrieve", content=content, headers=headers))
            return [response.json() for response in await asyncio.gather(*calls)]

        before = len(log_of(client))
        answers = client._runner.run(all_at_once())
        given = [len(answer["content"]["chunks"]) for answer in answers if answer["status"] == "ok"]
        chunks = {chunk["id"] for answer in answers for chunk in answer.get("content", {}).get("chunks", ())}
        assert given
        assert len(chunks) < 5 + max(given)
        assert {answer["status"] for answer in answers} == {"ok", "denied"}
        assert len(log_of(client)) == before + len(given)
