"""Documents over a client: writes are done once whatever fails on the way, and what is refused is named."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

import aidre
import aidre_client
from aidre_client.collection.rows import read_rows
from tests.support.clients import TEXT
from tests.support.fault_proxy import (
    RESET_AFTER,
    RESET_BEFORE,
    Asked,
    Failing,
    Fault,
    FaultyServer,
    answering,
    faulty,
    foreign,
    refusal,
)
from tests.support.remote import connected

pytestmark = pytest.mark.process

SECRETS = {"writer": "w" * 32, "reader": "r" * 32}
CONFIGURATION = f"""
[server]
base_url = "{{base}}"
writes = true
[limits]
write_bytes = 2_000
[[spaces]]
id = "{TEXT.id}"
dimensions = 64
distance = "cosine"
normalized = true
provider = "aidre"
model = "hashing"
[collections.docs]
spaces = ["{TEXT.id}"]
[collections.withheld]
return_text = false
[[keys]]
name = "writer"
sha256 = "{hashlib.sha256(SECRETS["writer"].encode()).hexdigest()}"
scopes = ["search", "write"]
[[keys]]
name = "reader"
sha256 = "{hashlib.sha256(SECRETS["reader"].encode()).hexdigest()}"
"""
WRITES = "/collections/docs/documents"


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyServer]:
    with faulty(tmp_path_factory.mktemp("writable"), CONFIGURATION) as (server, _):
        yield server


@pytest.fixture
def proxy(writable: FaultyServer) -> Iterator[FaultyServer]:
    writable.plan = lambda asked: None
    yield writable
    writable.plan = lambda asked: None


@pytest.fixture
def docs(proxy: FaultyServer) -> Iterator[aidre_client.RemoteCollection]:
    with connected(proxy.url, key=SECRETS["writer"]) as client:
        found = client.collection("docs")
        found.add({"id": "first", "text": "first"})
        found.delete(filter={"id": {"ne": "first"}})
        proxy.asked.clear()
        yield found


def written(proxy: FaultyServer) -> list[Asked]:
    return [asked for asked in proxy.asked if asked.target.startswith(WRITES)]


def key_of(asked: Asked) -> bytes:
    lines = [line for line in asked.head.split(b"\r\n") if line.lower().startswith(b"idempotency-key:")]
    return lines[0].partition(b":")[2].strip() if lines else b""


FAULTS = (refusal(429, Retry_After="7"), RESET_BEFORE, refusal(503, Retry_After="11"), RESET_AFTER)


def test_each_write_is_done_once_through_every_fault(proxy: FaultyServer, docs: aidre_client.RemoteCollection) -> None:
    proxy.plan = Failing(FAULTS, WRITES)
    before = docs._documents.reader.session.written["docs"]
    docs.add({"id": "a", "text": "alpha", "n": 1})
    assert docs.patch({"a": {"n": 2}}) == 1
    assert docs.delete(["a"]) == 1
    assert docs._documents.reader.session.written["docs"] == before + 3, "one generation for each"
    sent = written(proxy)
    assert len(sent) == 15
    assert len({key_of(one) for one in sent}) == 3 and all(map(key_of, sent))


def test_an_answer_that_was_lost_is_that_of_the_first_time(
    proxy: FaultyServer, docs: aidre_client.RemoteCollection
) -> None:
    """Somebody else writes between the two attempts, and stays."""

    class Meanwhile:
        turns = 0

        def __call__(self, asked: Asked) -> Fault | None:
            if not asked.target.startswith(WRITES) or b"mine" not in asked.body:
                return None
            self.turns += 1
            if self.turns == 2:
                with connected(proxy.url, key=SECRETS["writer"]) as other:
                    other.collection("docs").add({"id": "shared", "text": "theirs"})
            return RESET_AFTER if self.turns == 1 else None

    proxy.plan = Meanwhile()
    docs.add({"id": "shared", "text": "mine"})
    proxy.plan = lambda asked: None
    with connected(proxy.url, key=SECRETS["writer"]) as later:
        later.collection("docs").add({"id": "after", "text": "x"})
        found = later.collection("docs").get(["shared"])
    assert [one and one.text for one in found] == ["theirs"]


def test_a_program_may_name_the_key_and_repeat_a_call(proxy: FaultyServer, docs: aidre_client.RemoteCollection) -> None:
    assert docs.delete(["first"], idempotency_key="night-1") == 1
    assert docs.delete(["first"], idempotency_key="night-1") == 1, "the first answer"
    assert docs.delete(["first"]) == 0
    with pytest.raises(aidre_client.InvalidInput, match="another request"):
        docs.delete(["second"], idempotency_key="night-1")
    for key in ("", "a b", "ä", "x" * 201, 7):
        with pytest.raises(aidre_client.InvalidInput, match="idempotency_key"):
            docs.add("x", idempotency_key=key)  # type: ignore[arg-type]


def test_a_write_that_still_runs_is_waited_for(proxy: FaultyServer) -> None:
    """However often the server says so: it is one attempt, and no longer than the patience."""
    running = answering(409, b'{"error":"conflict","message":"still running"}', Retry_After="1")
    waits: list[float] = []
    with connected(proxy.url, waits, key=SECRETS["writer"]) as client:
        client.collection("docs").count()
        proxy.plan = Failing((running,) * 20, WRITES)
        client.collection("docs").add({"id": "slow", "text": "x"})
        assert waits == [1.0] * 20
        proxy.plan = lambda asked: running if asked.target.startswith(WRITES) else None
        with pytest.raises(aidre_client.Conflict):
            client.collection("docs").add({"id": "slower", "text": "x"})
        assert len(waits) == 80


def test_what_is_too_long_for_a_request_goes_in_several(
    proxy: FaultyServer, docs: aidre_client.RemoteCollection
) -> None:
    rows = [{"id": f"n{number}", "text": f"Note {number}"} for number in range(100)]
    assert docs.add(rows, idempotency_key="parts") == [row["id"] for row in rows]
    sent = written(proxy)
    assert len(sent) > 1 and all(len(one.body) <= 2_000 for one in sent)
    assert [key_of(one) for one in sent] == [b"parts", *(b"parts-%d" % number for number in range(1, len(sent)))]
    with pytest.raises(aidre_client.InvalidDocument) as caught:
        docs.add([*rows, {"id": "bad", "text": "x", "metadata": {"etag": 1}}])
    assert caught.value.details["row"] == 100
    assert 0 < caught.value.details["stored"] < 100
    with pytest.raises(aidre_client.InvalidInput, match="larger than 2000 bytes"):
        docs.add({"id": "huge", "text": "x" * 3_000})


def test_a_write_that_may_have_arrived_is_not_repeated_where_no_key_is_honoured() -> None:
    endpoints = {"search": "/find", "query": "/c/{name}/query", "documents": "/c/{name}/documents"}
    discovery = json.dumps({"version": "1", "endpoints": endpoints}).encode()

    def plan(asked: Asked) -> Fault:
        return answering(200, discovery) if "discovery" in asked.target else RESET_BEFORE

    with foreign(plan) as proxy, connected(proxy.url) as client:
        with pytest.raises(aidre_client.RequestFailed) as caught:
            client.collection("docs").add("a note")
        assert caught.value.details["error"] == "no_answer"
        assert [asked.method for asked in proxy.asked] == ["GET", "PUT"]
        assert key_of(proxy.asked[-1]) == b""
        with pytest.raises(aidre_client.Unsupported):
            client.collection("docs").count()


def test_who_may_not_write_is_told_why(proxy: FaultyServer, tmp_path: Path) -> None:
    for key, words in ((None, "needs a key"), (SECRETS["reader"], "scopes lack write")):
        with connected(proxy.url, key=key) as client:
            for write in (client.collection("docs").add, client.collection("docs").delete):
                with pytest.raises(aidre_client.AccessDenied, match=words):
                    write(["x"])
            with pytest.raises(aidre_client.AccessDenied, match=words):
                client.collection("docs").patch({"x": {"a": 1}})
    with connected(proxy.url, key=SECRETS["writer"]) as client, pytest.raises(aidre_client.CollectionMissing):
        client.collection("absent").add("x")
    with (
        faulty(tmp_path, '[server]\nbase_url = "{base}"\n') as (closed, _),
        connected(closed.url) as client,
        pytest.raises(aidre_client.Unsupported, match=r"server\.writes"),
    ):
        client.collection("docs").add("x")


def test_a_collection_that_withholds_its_texts_gives_documents_without(proxy: FaultyServer) -> None:
    with connected(proxy.url, key=SECRETS["writer"]) as client:
        withheld = client.collection("withheld")
        assert withheld.count() == 0
        withheld.add({"id": "a", "text": "secret words", "n": 1})
        [document] = withheld.get(["a"])
        assert document is not None and (document.text, document.metadata["n"]) == ("", 1)
        for verb in (lambda: withheld.facets("n"), lambda: list(withheld.scan(fields=["text"]))):
            with pytest.raises(aidre_client.InvalidInput, match="does not return text"):
                verb()


def test_documents_over_the_asynchronous_client(proxy: FaultyServer) -> None:
    async def work() -> list[Any]:
        async with aidre.connect_async(proxy.url, SECRETS["writer"]) as client:
            docs = client.collection("docs")
            await docs.upsert([{"id": "x", "text": "one", "n": 1}, {"id": "y", "text": "two", "n": 2}])
            changed = await docs.patch({"x": {"n": 3}, "y": {"n": 4}})
            listed = [one.id async for one in docs.scan({"n": {"gte": 3}}, order_by="-n")]
            counted = await docs.facets("n", filter={"n": {"gte": 3}})
            return [changed, listed, counted["n"].documents, await docs.delete(["x", "y"]), await docs.get(["x"])]

    assert asyncio.run(work()) == [2, ["y", "x"], 2, 2, [None]]


def test_an_id_of_content_is_that_of_the_library(tmp_path: Path) -> None:
    randomly = random.Random(7)
    floats = [struct.unpack("d", randomly.randbytes(8))[0] for _ in range(300)]
    numbers = [one for one in floats if np.isfinite(one)] + [1e16, 1e15, 123e20, -0.0, 5e-324, 0.1]
    rows: list[Any] = [{"text": "x", "n": number, "nested": [{"z": number, "ä": 'q"\\\n\x7f'}]} for number in numbers]
    rows += ["a text", {"text": "x", "b": 1, "a": None, "id": None}, {"a": None, "text": "x", "b": True}]
    with aidre.open(tmp_path) as database:
        assert [found for found, _ in read_rows(rows, None)] == database.collection("docs", space=TEXT).add(rows)


def test_vectors_are_sent_as_they_are(proxy: FaultyServer) -> None:
    matrix = np.array([[0.1, 1e-30, -3.0]], np.float32)
    [(_, body)] = read_rows(["x"], matrix)
    assert np.array_equal(np.float32(orjson.loads(body)["vectors"]), matrix[0])
    [(_, body)] = read_rows([{"text": "x", "vectors": {"own": [1, 2]}}], {"other": matrix})
    assert orjson.loads(body)["vectors"].keys() == {"own", "other"}
