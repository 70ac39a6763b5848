"""What is counted while a server runs, by one worker and by several; and the text of /metrics."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message, Receive, Scope, Send

from aidre.api.access.caller import Caller
from aidre.api.http.metrics import BUCKET_BOUNDS, STATUSES, Metrics, Numbers
from aidre.api.operations import prometheus
from aidre.api.server.observe import ObserveMiddleware
from aidre.engine.collection.store import Store
from aidre.engine.storage.manifest import Calibration, Depth, SpaceState
from tests.support.clients import COSINE, TEXT, a_document, delete, fill, serving

ROUTES = ("/search", "/chunks/{id:path}")
CODES = ("not_found", "rate_limited")


def counting(folder: Path | None = None, routes: tuple[str, ...] = ROUTES) -> Metrics:
    metrics = Metrics(("aidre", "nlweb"))
    metrics.declare(routes, CODES, folder)
    return metrics


def answered(metrics: Metrics, route: str, status: int, seconds: float = 0.003, code: str | None = None) -> None:
    metrics.request_started()
    metrics.request_ended(route, status, seconds, code)


Samples = dict[str, float]


def samples(lines: Iterable[str]) -> Samples:
    """Every sample by its name and labels, as the parser of Prometheus' own client reads them."""
    found: Samples = {}
    for family in text_string_to_metric_families(prometheus.join_lines(lines).decode()):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in found
            found[key] = sample.value
    return found


def of(metrics: Metrics) -> Samples:
    return samples(prometheus.counter_lines(metrics, metrics.workers()))


def total(metrics: Metrics) -> Numbers:
    return metrics.total(metrics.workers())


# -- counting --------------------------------------------------------------------------------------------------------


def test_requests_are_counted_by_route_and_status() -> None:
    metrics = counting()
    for status in (200, 200, 404, 418, 0):
        answered(metrics, "/search", status)
    answered(metrics, "/admin", 404)
    found = of(metrics)
    assert found["aidre_requests_total{route=/search,status=200}"] == 2
    assert found["aidre_requests_total{route=/search,status=404}"] == 1
    assert found["aidre_requests_total{route=/search,status=other}"] == 1
    assert found["aidre_requests_total{route=/search,status=0}"] == 1
    assert found["aidre_requests_total{route=other,status=404}"] == 1
    assert not [name for name in found if "admin" in name]


def test_refusals_are_counted_by_declared_codes() -> None:
    metrics = counting()
    for code in ("not_found", "not_found", "rate_limited", "a code of nobody", None):
        answered(metrics, "/search", 400, code=code)
    found = of(metrics)
    assert {name: value for name, value in found.items() if "refusals" in name} == {
        "aidre_refusals_total{code=not_found}": 2,
        "aidre_refusals_total{code=rate_limited}": 1,
        "aidre_refusals_total{code=other}": 1,
    }


def test_a_histogram_has_every_time_in_its_bucket() -> None:
    metrics = counting()
    times = [0.0, 0.00025, 0.000251, 0.003, 29.9, 30.0, 31.0, 1e6]
    for seconds in times:
        answered(metrics, "/search", 200, seconds)
    found = of(metrics)
    for bound in BUCKET_BOUNDS:
        expected = sum(seconds <= bound for seconds in times)
        assert found[f"aidre_request_seconds_bucket{{le={bound},route=/search}}"] == expected
    assert found["aidre_request_seconds_bucket{le=+Inf,route=/search}"] == len(times)
    assert found["aidre_request_seconds_count{route=/search}"] == len(times)
    assert math.isclose(found["aidre_request_seconds_sum{route=/search}"], sum(times))


def test_stages_are_timed_by_protocol() -> None:
    metrics = counting()
    metrics.observe_stage("aidre", "search", 0.002)
    metrics.observe_stage("aidre", "search", 0.2)
    metrics.observe_stage("nlweb", "embed", 0.01)
    metrics.observe_stage("gopher", "embed", 0.01)
    found = of(metrics)
    assert found["aidre_stage_seconds_count{protocol=aidre,stage=search}"] == 2
    assert found["aidre_stage_seconds_count{protocol=nlweb,stage=embed}"] == 1
    assert len([name for name in found if name.startswith("aidre_stage_seconds_count")]) == 2


def test_what_goes_on_now_goes_up_and_down() -> None:
    metrics = counting()
    metrics.request_started()
    metrics.request_started()
    metrics.request_ended("/search", 200, 0.1)
    metrics.add_queued(3)
    metrics.add_queued(-1)
    metrics.add_dropped(7)
    found = of(metrics)
    assert found["aidre_requests_in_flight"] == 1
    assert found["aidre_queue_length"] == 2
    assert found["aidre_log_lines_dropped_total"] == 7


def test_no_two_things_share_a_number() -> None:
    metrics = counting()
    for route in (*ROUTES, "other"):
        for status in (*STATUSES, 599):
            answered(metrics, route, status, 0.003)
    for code in (*CODES, "other"):
        answered(metrics, "other", 200, 0.003, code)
    for protocol, stage in metrics.stages:
        metrics.observe_stage(protocol, stage, 0.003)
    found = of(metrics)
    counts = [value for name, value in found.items() if name.startswith(("aidre_requests_total", "aidre_refusals"))]
    assert set(counts) == {1, 1 + len(CODES) + 1}
    assert counts.count(1 + len(CODES) + 1) == 1
    assert found["aidre_request_seconds_count{route=/search}"] == len(STATUSES) + 1
    assert found["aidre_stage_seconds_count{protocol=nlweb,stage=render}"] == 1


# -- several workers -------------------------------------------------------------------------------------------------


def test_workers_are_summed_whoever_is_asked(tmp_path: Path) -> None:
    with closing(counting(tmp_path)) as one, closing(counting(tmp_path)) as other:
        answered(one, "/search", 200, 0.1)
        answered(other, "/search", 200, 0.2)
        other.request_started()
        for asked in (one, other):
            found = of(asked)
            assert found["aidre_requests_total{route=/search,status=200}"] == 2
            assert math.isclose(found["aidre_request_seconds_sum{route=/search}"], 0.3)
            assert found["aidre_requests_in_flight"] == 1
            assert len(asked.workers()) == 2


def test_of_a_worker_that_is_gone_its_counts_remain_and_its_successor_goes_on(tmp_path: Path) -> None:
    with closing(counting(tmp_path)) as one:
        other = counting(tmp_path)
        answered(other, "/search", 200)
        other.request_started()
        other.close()
        assert of(one)["aidre_requests_total{route=/search,status=200}"] == 1
        assert of(one)["aidre_requests_in_flight"] == 0
        assert [worker.is_alive for worker in one.workers()] == [True, False]
        with closing(counting(tmp_path)) as successor:
            answered(successor, "/search", 200)
            assert of(one)["aidre_requests_total{route=/search,status=200}"] == 2
            assert of(one)["aidre_requests_in_flight"] == 0
        assert len(list(tmp_path.iterdir())) == 2


KILLED = f"""
import os, pathlib, sys
from aidre.api.http.metrics import Metrics
metrics = Metrics(("aidre", "nlweb"))
metrics.declare({ROUTES!r}, {CODES!r}, pathlib.Path(sys.argv[1]))
metrics.request_started()
metrics.request_ended("/search", 200, 0.003)
os.kill(os.getpid(), 9)
"""


def test_a_worker_that_is_killed_leaves_its_counts(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False).returncode == -9
    with closing(counting(tmp_path)) as metrics:
        assert of(metrics)["aidre_requests_total{route=/search,status=200}"] == 1
        assert len(list(tmp_path.iterdir())) == 1


def test_files_of_others_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.metrics").write_bytes(b"")
    (tmp_path / "b.metrics").write_bytes(bytes(10_000))
    (tmp_path / "c.metrics").mkdir()
    (tmp_path / "other").write_bytes(b"x")
    with closing(counting(tmp_path, ("/other",))) as different, closing(counting(tmp_path)) as metrics:
        answered(different, "/other", 200)
        answered(metrics, "/search", 200)
        assert total(metrics).sum() == total(different).sum()
        assert len(metrics.workers()) == 1
    assert (tmp_path / "b.metrics").read_bytes() == bytes(10_000)


# -- the layer -------------------------------------------------------------------------------------------------------


class Line:
    """Stands in for the log of requests."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, **line: Any) -> None:
        self.lines.append(line)


class Template:
    path = "/chunks/{id:path}"


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


async def _drop(message: Message) -> None: ...


def watched(app: Any, metrics: Metrics, **scope: Any) -> list[dict[str, Any]]:
    log = Line()
    whole = {"type": "http", "method": "GET", "path": "/chunks/secret", "headers": [], **scope}
    asyncio.run(ObserveMiddleware(app, metrics, log)(whole, _nothing, _drop))  # type: ignore[arg-type]
    return log.lines


async def _refusing(scope: Scope, receive: Receive, send: Send) -> None:
    scope["route"] = Template
    scope["state"] = {"request_id": "req_1", "code": "not_found", "caller": Caller("key partner")}
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"12345", "more_body": True})
    await send({"type": "http.response.body", "body": b"678"})


def test_a_request_is_counted_and_written_down_by_its_template() -> None:
    metrics = counting()
    [line] = watched(_refusing, metrics)
    seconds = line.pop("seconds")
    assert 0 < seconds < 5
    assert line == {
        "identifier": "req_1",
        "method": "GET",
        "route": "/chunks/{id:path}",
        "status": 404,
        "code": "not_found",
        "size": 8,
        "caller": "key partner",
    }
    found = of(metrics)
    assert found["aidre_requests_total{route=/chunks/{id:path},status=404}"] == 1
    assert found["aidre_refusals_total{code=not_found}"] == 1
    assert found["aidre_requests_in_flight"] == 0


async def _leaving(scope: Scope, receive: Receive, send: Send) -> None:
    raise asyncio.CancelledError


async def _breaking(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("broken")


@pytest.mark.parametrize(("app", "error"), [(_leaving, asyncio.CancelledError), (_breaking, RuntimeError)])
def test_a_request_without_an_answer_is_counted_too(app: Any, error: type[BaseException]) -> None:
    metrics = counting()
    with pytest.raises(error):
        watched(app, metrics)
    assert of(metrics)["aidre_requests_total{route=other,status=0}"] == 1
    assert of(metrics)["aidre_requests_in_flight"] == 0


def test_what_is_no_request_passes_uncounted() -> None:
    metrics = counting()
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    assert watched(app, metrics, type="lifespan") == []
    assert seen == ["lifespan"]
    assert total(metrics).sum() == 0


# -- the store and the processes -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    fill(path, "docs", [a_document(f"d{n}", f"text {n}") for n in range(5)], (TEXT, COSINE))
    delete(path, "docs", ["d0"], (TEXT, COSINE))
    fill(path, "news", [a_document("n", "news")])
    return path


def test_collections_are_told_of(store: Path) -> None:
    snapshots = [Store(store).open(name) for name in ("docs", "news")]
    found = samples(prometheus.collection_lines(snapshots, {"docs": 0.0, "gone": 1.0}, damaged=2))
    assert found["aidre_collections_damaged"] == 2
    assert found["aidre_collection_generation{collection=docs}"] == 2
    assert found["aidre_collection_generation{collection=news}"] == 1
    assert found["aidre_collection_segments{collection=docs}"] == 1
    assert found["aidre_collection_documents{collection=docs}"] == 4
    assert found["aidre_collection_chunks{collection=docs}"] == 4
    assert found["aidre_collection_deleted_chunks{collection=docs}"] == 1
    assert found["aidre_collection_warnings{collection=docs}"] == 0
    assert found["aidre_collection_updated_seconds{collection=docs}"] > 1.7e9
    assert found["aidre_collection_source_check_age_seconds{collection=docs}"] > 1.7e9
    assert "aidre_collection_source_check_age_seconds{collection=news}" not in found
    [segment] = snapshots[0].manifest.segments
    vectors = [entry.size for name, entry in segment.files.items() if name.endswith(".vectors.arrow")]
    told = [found[f"aidre_space_bytes{{collection=docs,file=vectors,space={space.id}}}"] for space in (TEXT, COSINE)]
    assert sorted(told) == sorted(vectors)
    assert found[f"aidre_space_bytes{{collection=docs,file=index,space={COSINE.id}}}"] == 0
    assert found[f"aidre_space_search{{collection=docs,kind=exact,space={COSINE.id}}}"] == 1
    assert not [name for name in found if name.startswith("aidre_space_recall")]


def test_recall_is_that_of_the_calibration(store: Path) -> None:
    snapshot = Store(store).open("news")
    depths = (Depth(10, 200, 0.996, 0.9), Depth(100, 900, 0.99, 0.97))
    [state] = snapshot.manifest.spaces
    other = 'an "odd"\\id\nof a space'
    states = (
        replace(state, calibration=Calibration("scan", 0.99, 1_000, depths=depths)),
        SpaceState(replace(state.space, id=other), "building"),
    )
    snapshot.manifest = replace(snapshot.manifest, spaces=states)
    found = samples(prometheus.collection_lines([snapshot], {}, damaged=0))
    named = f"space={state.space.id}"
    assert found[f"aidre_space_recall{{collection=news,results=10,{named},statistic=mean}}"] == 0.996
    assert found[f"aidre_space_recall{{collection=news,results=100,{named},statistic=p5}}"] == 0.97
    assert found[f"aidre_space_search{{collection=news,kind=scan,{named}}}"] == 1
    assert found[f"aidre_space_search{{collection=news,kind=building,space={other}}}"] == 1


def test_strangers_read_of_no_collection_that_lists_itself_nowhere(tmp_path: Path) -> None:
    fill(tmp_path / "store", "docs", [a_document("d", "text")])
    fill(tmp_path / "store", "leads", [a_document("d", "text")])
    with serving(tmp_path / "store", '[collections.leads]\nprotocols = ["intake"]\n') as client:
        shown = client.get("/metrics").text
    assert 'collection="docs"' in shown
    assert "leads" not in shown


def test_a_caller_who_sees_no_collection_reads_of_none() -> None:
    assert samples(prometheus.collection_lines([], {"secret": 0.0}, damaged=0)) == {"aidre_collections_damaged": 0}


def test_processes_are_told_of(tmp_path: Path) -> None:
    with closing(counting(tmp_path)) as one:
        counting(tmp_path).close()
        found = samples(prometheus.process_lines(one.workers()))
        assert found["aidre_workers"] == 1
        assert found["aidre_worker_memory_bytes{kind=anonymous,worker=0}"] > 1e6
        assert found["aidre_worker_open_files{worker=0}"] > 3
        assert found["aidre_worker_threads{worker=0}"] >= 1
        assert [value for name, value in found.items() if name.startswith("aidre_build_info{")] == [1]


def test_a_process_that_has_just_ended_is_left_out() -> None:
    def ended() -> Iterator[Any]:
        [worker] = counting().workers()
        yield replace(worker, pid=2**22 + 1)

    found = samples(prometheus.process_lines(ended()))
    assert found["aidre_workers"] == 1
    assert not [name for name in found if name.startswith("aidre_worker_")]
