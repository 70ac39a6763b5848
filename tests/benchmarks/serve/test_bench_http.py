"""Figures of the serving path, from samples and facts of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.model import Query
from aidre.engine.segment import TopK
from benchmarks.harness import data
from benchmarks.harness.load import Samples
from benchmarks.peers.aidre import SPACE, build, number
from benchmarks.serve import bench_http
from benchmarks.serve.bench_http import Runs, figures


def samples(milliseconds: float, count: int = 1_000) -> Samples:
    """One slow answer in a hundred."""
    latencies = np.full(count, milliseconds / 1e3)
    latencies[::100] *= 10
    return Samples(latencies, np.full(count, 200, np.int16), count * milliseconds / 1e3, late=np.full(count, 1e-5))


@pytest.fixture
def runs() -> Runs:
    found = Runs()
    for name, value in {"rows": 5_000, "loop ns": 50, "first answer seconds": 1.0}.items():
        found.note(name, value)
    for series in bench_http.VECTOR.values():
        found.note(f"recall {series}", 0.995)
        found.note(f"search {series} processor us", 120.0)
        found.note(f"scan {series} processor us", 100.0)
        found.add(f"search {series}", 0, samples(0.1))
        for connections in bench_http.BESIDE:
            found.add(series, connections, samples(0.2))
            found.note(f"{series} {connections} processor us", 150.0 + connections)
            for side, milliseconds in (("valkey", 0.4), ("beside valkey", 0.2)):
                found.add(f"{side}: {series}", connections, samples(milliseconds))
                found.note(f"{side}: {series} {connections} processor us", 1e3 * milliseconds)
    for connections in bench_http.BESIDE:
        found.add("echo", connections, samples(0.1))
        found.note(f"echo {connections} processor us", 20.0)
    found.note("recall valkey: vector", 0.97)
    found.note("setting valkey: vector", 1024)
    found.note("recall valkey: vector of a passage", 0.991)
    found.note("setting valkey: vector of a passage", 80)
    for due in ("evenly", "at random"):
        found.add(f"half the rate, due {due}", 64, samples(0.2))
        found.add(f"echo, half the rate, due {due}", 64, samples(0.1))
    return found


def test_what_a_request_costs_beyond_the_scan_is_told_by_connections(runs: Runs) -> None:
    beyond = figures(runs)["request_minus_raw_scan"]
    assert {f"{series}, {number}" for series in bench_http.VECTOR.values() for number in (1, 8, 64)} == beyond.keys()
    assert beyond["vector, 8"] == {
        "request us": 158.0,
        "search us": 120.0,
        "raw scan us": 100.0,
        "beyond us": 58.0,
        "echo us": 20.0,
    }


def test_a_peer_that_misses_the_recall_is_named_as_missing_it(runs: Runs) -> None:
    beside = figures(runs)["beside"]
    assert beside["valkey: vector"]["recall"] == "0.9700, misses 0.99"
    assert beside["valkey: vector of a passage"]["recall"] == "0.9910"
    assert beside["valkey: vector"]["times the rate, 8"].startswith("2.00 ")
    assert (beside["valkey: vector"]["processor us, 8"], beside["valkey: vector"]["of aidre, 8"]) == (400.0, 200.0)


def test_a_peer_that_gave_no_answer_in_time_has_no_ratio(runs: Runs) -> None:
    nothing = Samples(np.empty(0), np.empty(0, np.int16), 1.0)
    runs.samples["valkey: vector", 8, 0] = nothing
    assert figures(runs)["beside"]["valkey: vector"]["times the rate, 8"] == "-"


def test_slow_answers_at_half_the_rate_are_told_against_the_median(runs: Runs) -> None:
    found = figures(runs)
    assert found["half_rate_due_at_random_p999_over_p50"].startswith("10.0 ")
    assert found["half_rate_due_at_random_p999_over_p50_of_one_connection"].startswith("10.0 ")
    assert found["half_rate_due_at_random_p999_over_that_of_echo"].startswith("2.00 ")
    assert found["half_rate_due_evenly_late_p99_ms"] == 0.01
    assert set(found["connections"]).isdisjoint(found["connections_beside"])


def test_figures_are_computed_again_from_stored_samples(runs: Runs, tmp_path: Path) -> None:
    runs.save(tmp_path / "raw" / "samples.npz")
    again, before = figures(Runs.load(tmp_path / "raw" / "samples.npz")), figures(runs)
    assert again["request_minus_raw_scan"] == before["request_minus_raw_scan"]
    assert again["beside"] == before["beside"]
    assert again["connections"].keys() == before["connections"].keys() >= {"vector", "echo"}


@pytest.mark.slow
def test_the_raw_scan_finds_what_a_search_finds(tmp_path: Path) -> None:
    snapshot = build(tmp_path, data.vectors(6_000, 384))
    calibration = snapshot.space(SPACE).calibration
    assert calibration and calibration.kind == "scan"
    queries = data.queries(5, 384)
    for query, scan in zip(queries, bench_http.raw_scans(snapshot, SPACE, queries), strict=True):
        rows = [number(hit.chunk.document_id) for hit in snapshot.search(Query(query, SPACE, 10))]
        found: Any = scan()
        if not isinstance(found, TopK):  # of the kernel: columns, rows and scores of each query
            [((_, scanned, _), _)] = found
            assert np.frombuffer(scanned, np.int64).tolist() == rows
        else:
            assert found.rows.tolist() == rows
