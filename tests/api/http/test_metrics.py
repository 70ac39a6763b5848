"""What is counted while a server runs, by one worker and by several, `api/http/metrics.py`."""

from __future__ import annotations

import math
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from aidre.api.http.metrics import BUCKET_BOUNDS, STATUSES
from tests.api.counts import CODES, ROUTES, answered, counted, counting

# -- counting --------------------------------------------------------------------------------------------------------


def test_requests_are_counted_by_route_and_status() -> None:
    metrics = counting()
    for status in (200, 200, 404, 418, 0):
        answered(metrics, "/search", status)
    answered(metrics, "/admin", 404)
    found = counted(metrics)
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
    found = counted(metrics)
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
    found = counted(metrics)
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
    found = counted(metrics)
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
    found = counted(metrics)
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
    found = counted(metrics)
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
            found = counted(asked)
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
        assert counted(one)["aidre_requests_total{route=/search,status=200}"] == 1
        assert counted(one)["aidre_requests_in_flight"] == 0
        assert [worker.is_alive for worker in one.workers()] == [True, False]
        with closing(counting(tmp_path)) as successor:
            answered(successor, "/search", 200)
            assert counted(one)["aidre_requests_total{route=/search,status=200}"] == 2
            assert counted(one)["aidre_requests_in_flight"] == 0
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


@pytest.mark.process
def test_a_worker_that_is_killed_leaves_its_counts(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False).returncode == -9
    with closing(counting(tmp_path)) as metrics:
        assert counted(metrics)["aidre_requests_total{route=/search,status=200}"] == 1
        assert len(list(tmp_path.iterdir())) == 1


def test_files_of_others_are_passed_over_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "metrics-0").write_bytes(b"")
    (tmp_path / "metrics").write_bytes(bytes(10_000))
    (tmp_path / "other").write_bytes(b"x")
    with closing(counting(tmp_path)) as metrics:
        answered(metrics, "/search", 200)
        assert counted(metrics)["aidre_requests_total{route=/search,status=200}"] == 1
        assert len(metrics.workers()) == 1
    assert (tmp_path / "metrics").read_bytes() == bytes(10_000)


def test_a_worker_that_can_share_nothing_counts_alone(tmp_path: Path) -> None:
    (tmp_path / "metrics-0").mkdir()
    with closing(counting(tmp_path)) as one, closing(counting(tmp_path)) as other:
        answered(one, "/search", 200)
        assert counted(one)["aidre_requests_total{route=/search,status=200}"] == 1
        assert "aidre_requests_total{route=/search,status=200}" not in counted(other)
        assert len(other.workers()) == 1


def test_a_worker_that_is_closed_still_counts_for_itself(tmp_path: Path) -> None:
    metrics = counting(tmp_path)
    metrics.close()
    answered(metrics, "/search", 200)
    answered(metrics, "/admin", 404)
    assert counted(metrics)["aidre_requests_total{route=/search,status=200}"] == 1
    assert counted(metrics)["aidre_requests_total{route=other,status=404}"] == 1
