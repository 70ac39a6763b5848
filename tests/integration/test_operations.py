"""What an operator sees of running servers: metrics of all workers, the log of requests, keys that change meanwhile."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

from aidre.api.protocols.provenance.keys import make_key
from aidre.ingest.fetch.fetcher import FetchRules
from aidre.ingest.pipeline.last_read import load_read_times, save_read_times
from tests.support.clients import COSINE, TEXT, a_document, fill, metrics_of, serving
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.ingests import Bench
from tests.support.processes import running, search
from tests.support.websites import published


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    fill(path, "docs", [a_document(f"doc_{n}", f"alpha word{n}") for n in range(3)], (TEXT, COSINE))
    fill(path, "secret", [a_document("s", "secret")], visibility="private")
    return path


def test_every_protocol_counts_what_it_answers_and_what_it_refuses(store: Path) -> None:
    intent = '[intent]\nenabled = true\n[intent.editorial_domains.all]\ncollection = "docs"\n'
    intent += '[intent.keys]\nplatform = "test-secret-0123456789abcdef"\n'
    with serving(store, intent) as client:
        client.search({"query": "alpha", "collection": "docs"})
        client.search({"query": " "})
        client.get("/chunks/nothing")
        client.request("GET", "/search")
        client.get("/no/such/address")
        client.request("POST", "/ask", json={"query": {"text": "alpha"}})
        client.request("POST", "/ask", json={})
        client.request("POST", "/ask", json={"query": {"text": "alpha"}, "prefer": {"mode": "sing"}})
        client.request("POST", "/aip/retrieve", json={})
        found = metrics_of(client)
    assert found["aidre_requests_total{route=/search,status=200}"] == 1
    assert found["aidre_requests_total{route=/search,status=400}"] == 1
    assert found["aidre_requests_total{route=/chunks/{id:path},status=404}"] == 1
    assert found["aidre_requests_total{route=other,status=404}"] == 1
    assert found["aidre_requests_total{route=/ask,status=200}"] == 2
    assert found["aidre_refusals_total{code=invalid_request}"] == 1
    assert found["aidre_refusals_total{code=not_found}"] == 2
    assert found["aidre_refusals_total{code=method_not_allowed}"] == 1
    assert found["aidre_refusals_total{code=INVALID_QUERY}"] == 1
    assert found["aidre_refusals_total{code=UNSUPPORTED_MODE}"] == 1
    assert found["aidre_refusals_total{code=auth_failed}"] == 1
    assert found["aidre_refusals_total{code=other}"] == 0
    assert found["aidre_requests_in_flight"] == 1, "the one that asks"
    assert found["aidre_queue_length"] == 0
    for stage in ("embed", "search", "render"):
        assert found[f"aidre_stage_seconds_count{{protocol=aidre,stage={stage}}}"] == 1
    assert found["aidre_stage_seconds_count{protocol=nlweb,stage=search}"] == 1
    total = sum(value for name, value in found.items() if name.startswith("aidre_request_seconds_count"))
    assert total == 9


def test_what_is_refused_at_the_door_is_counted_under_the_route_that_was_meant(store: Path) -> None:
    with serving(store, '[limits]\nrate = "6/hour"\n') as client:
        for path in ("/chunks/a%2Fb", "/collections/docs", "/collections/docs/changes", "/nowhere/else", "/sites"):
            assert client.get(path, {"authorization": "Bearer wrong"}).status_code == 401
        client.search({"query": "alpha", "collection": "docs"})
        client.search({"query": "alpha", "collection": "docs"})
        client.app.state.guard.running.count = 256
        client.get("/openapi.json")
        client.app.state.guard.running.count = 0
        found = metrics_of(client)
    for route in ("/chunks/{id:path}", "/collections/{name}", "/collections/{name}/changes", "other", "/sites"):
        assert found[f"aidre_requests_total{{route={route},status=401}}"] == 1
    assert found["aidre_requests_total{route=/search,status=200}"] == 1
    assert found["aidre_requests_total{route=/search,status=429}"] == 1
    assert found["aidre_requests_total{route=/openapi.json,status=503}"] == 1
    assert not [name for name in found if "nowhere" in name or "a/b" in name]


def test_the_store_is_told_of_as_far_as_the_caller_may_see_it(store: Path) -> None:
    save_read_times(store, "docs", ["a"], [], time.time() - 100)
    save_read_times(store, "secret", ["a"], [], time.time() - 100)
    with serving(store) as client:
        found = metrics_of(client)
    assert found["aidre_collection_chunks{collection=docs}"] == 3
    assert 100 <= found["aidre_collection_source_check_age_seconds{collection=docs}"] < 200
    assert not [name for name in found if "secret" in name]


@pytest.mark.process
def test_workers_count_together_and_change_their_key_together(store: Path, tmp_path: Path) -> None:
    key = tmp_path / "keys.pem"
    former = make_key(key, time.time())
    configuration = tmp_path / "aidre.toml"
    configuration.write_text('[server]\nlog = "requests"\n[provenance]\nkey = "keys.pem"\n')
    with running(store, workers=2, settings=configuration) as server:
        until(lambda: metrics_at(server.url)["aidre_workers"] == 2)
        for _ in range(20):
            with httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client:
                assert search(client, {"query": "a word to look for", "collection": "docs"}).status_code == 200
        for _ in range(6):
            found = metrics_at(server.url)
            assert found["aidre_requests_total{route=/search,status=200}"] == 20
            assert found["aidre_worker_memory_bytes{kind=anonymous,worker=1}"] > 0
        made = make_key(key, time.time())
        until(lambda: all(kids(server.url) == [made.id, former.id] for _ in range(4)))
        assert server.stop() == 0
        assert server.process.stdout is not None
        lines = [json.loads(line) for line in server.process.stdout]
    searches = [line for line in lines if line["route"] == "/search"]
    assert len(searches) == 20
    assert all(line["status"] == 200 and line["ms"] > 0 and line["bytes"] > 100 for line in searches)
    assert len({line["request_id"] for line in lines}) == len(lines)
    assert "look for" not in json.dumps(lines)


def metrics_at(url: str) -> dict[str, float]:
    with httpx.Client(base_url=url, timeout=WAIT_SECONDS) as client:
        return metrics_of(client)


def kids(url: str) -> list[str]:
    with httpx.Client(base_url=url, timeout=WAIT_SECONDS) as client:
        return [one["kid"] for one in client.get("/.well-known/aidre-keys.json").json()["keys"]]


CANARY = "alice@example.com"


@pytest.mark.process
def test_no_log_repeats_what_callers_send(store: Path, tmp_path: Path) -> None:
    configuration = tmp_path / "aidre.toml"
    configuration.write_text('[server]\nlog = "requests"\n')
    broken = (
        "from aidre.engine.collection.snapshot import Snapshot\ndef fail(self, query): raise ValueError(query.text)\n"
    )
    broken += "Snapshot.search = fail\n"
    with (
        running(store, settings=configuration, before=broken) as server,
        httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client,
    ):
        asked: dict[str, object] = {"query": CANARY, "collection": "docs"}
        assert search(client, asked).status_code == 500
        client.get(f"/chunks/{CANARY}?collection={CANARY}", headers={"authorization": f"Bearer {CANARY}"})
        client.get(f"/{CANARY}", headers={"user-agent": CANARY, "x-request-id": CANARY})
        client.request(CANARY.partition("@")[0].upper(), "/search")
        client.post("/ask", json={"query": {"text": CANARY}})
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stderr is not None
        out, err = server.process.stdout.read(), server.process.stderr.read()
    assert len(out.splitlines()) >= 5
    assert "ValueError" in err
    for line in (*out.splitlines(), *err.splitlines()):
        json.loads(line)
    assert CANARY not in out + err
    assert "ALICE" not in out + err


def test_an_ingest_notes_which_sources_it_has_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("a.md", "# A")
    bench.run()
    [first] = load_read_times(tmp_path / "store")["c"].values()
    assert abs(first - time.time()) < 60
    bench.run(dry_run=True)
    assert list(load_read_times(tmp_path / "store")["c"].values()) == [first]
    assert bench.run().unchanged == 1
    [second] = load_read_times(tmp_path / "store")["c"].values()
    assert second > first


@pytest.mark.slow
def test_a_source_that_could_not_be_read_was_not_looked_at(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("a.md", "# A")
    with published() as site:
        site.put("/feed", "<html><p>words</p></html>")
        address = site.url("/feed")
        bench.run(bench.docs, address, fetching=FetchRules(allow_private_addresses=True))
        former = load_read_times(tmp_path / "store")["c"]
        assert len(former) == 2
        site.fail("/feed", 503)
        bench.run(bench.docs, address, fetching=FetchRules(allow_private_addresses=True))
        checks = load_read_times(tmp_path / "store")["c"]
    assert [name for name in former if checks[name] == former[name]] == [name for name in former if name != "docs"]
