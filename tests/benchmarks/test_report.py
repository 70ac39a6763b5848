"""The report of the benchmarks: figures from raw samples, one page, the same plots from the same results."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import pages, plots, report
from benchmarks.metrics import Ratio, cheapest, exponent, figure, growth, points, ratio
from benchmarks.truth import truth


def run(contender: str, setting: int, turn: int, times: list[float], found: list[int]) -> dict[str, Any]:
    return {
        "contender": contender,
        "setting": setting,
        "turn": turn,
        "possible": 10,
        "microseconds": times,
        "found": found,
        "anchor": [100.0, 100.0 + turn, 100.0],
        "anchor_found": [10, 10, 10],
    }


CONTENDERS = {
    "aidre": {"index": "scan", "version": "1", "seconds": 4.0, "index_seconds": 0.5, "bytes": 48_000_000},
    "graph": {"index": "graph M=16", "version": "2.1", "seconds": 10.0, "bytes": 96_000_000},
    "absent": {"problem": "not installed"},
}
RUNS = [
    run("aidre", 0, 0, [100.0, 101.0, 99.0], [10, 10, 10]),
    run("aidre", 0, 1, [100.0, 102.0, 99.0], [10, 10, 9]),
    run("graph", 32, 0, [150.0, 150.0, 900.0], [9, 10, 10]),
    run("graph", 32, 1, [160.0, 150.0, 170.0], [9, 10, 10]),
    run("graph", 128, 0, [300.0, 310.0, 290.0], [10, 10, 10]),
    run("graph", 128, 1, [400.0, 410.0, 390.0], [10, 10, 10]),
]
CONTEST = {
    "machine": "2 cores",
    "rows": 60_000,
    "dimensions": 384,
    "k": 10,
    "contenders": CONTENDERS,
    "runs": RUNS,
    "filtered": [{**run("graph", 64, 0, [500.0, 500.0, 500.0], [10, 10, 10]), "field": "random", "share": 0.01}],
}


def case(group: str, label: str, rows: int, scale: float) -> dict[str, Any]:
    return {
        "group": group,
        "label": label,
        "rows": rows,
        "dimensions": 384,
        "segments": 1,
        "kind": "scan",
        "seconds": 2.0 * scale,
        "open_seconds": 0.01,
        "bytes": 800 * rows,
        "private_bytes": 0,
        "possible": 10,
        "found": [10, 9],
        "microseconds": [[50.0 * scale, 50.0 * scale, 60.0 * scale]] * 2,
        "base": [[100.0, 100.0, 100.0]] * 2,
    }


CURVES = {
    "machine": "2 cores",
    "k": 10,
    "base": {"rows": 60_000, "dimensions": 384},
    "cases": [
        case("sizes", "10,000", 10_000, 1),
        case("sizes", "1,000,000", 1_000_000, 10),
        case("segments", "5", 1, 2),
    ],
}
SERVED = {
    "non_search_us": 31.4,
    "connections": {
        "aidre vector": {
            "1": {"rate": 4_000.0, "p50_ms": 0.2, "p99_ms": 0.5, "spread": [3_900.0, 4_100.0]},
            "8": {"rate": 8_000.0, "p50_ms": 0.9, "p99_ms": 1.5, "spread": [7_900.0, 8_100.0]},
        },
        "chroma": {"8": {"rate": 800.0, "p50_ms": 9.0, "p99_ms": 12.0, "spread": [790.0, 810.0]}},
    },
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Canned results, and a README to write into; drawing is for the test that looks at the plots."""
    monkeypatch.setattr(plots, "available", lambda: False)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    report.keep("peers_60000", CONTEST)
    report.keep("index_sizes", CURVES)
    report.record("bench_http", SERVED, raw={"samples": [1, 2]})
    readme = "# a\n<!-- figures -->\nold\n<!-- /figures -->\n"
    (tmp_path / "README.md").write_text(readme + "end\n")
    return tmp_path


def written(results: Path) -> str:
    report.write(results / "results", results)
    return (results / "benchmarks" / "REPORT.md").read_text()


def test_the_page_tells_each_peer_as_a_ratio_with_its_spread(results: Path) -> None:
    text = written(results)
    assert "| graph 2.1 | graph M=16 | 3.50 (3.00 to 4.00) at 1.0000 | 1.55 (1.50 to 1.60) at 0.9667 |" in text
    assert "| aidre 1 | scan | 1 = 100 µs at 0.9833 |" in text
    assert "| 20.0 | 2.50 | 2.00 |" in text  # build against the index, against the store, bytes
    assert "absent was not measured: not installed." in text
    assert "| 1 % random | 100, 1.000 | 5.00 (5.00 to 5.00), 1.000 |" in text


def test_the_page_tells_growth_connections_and_figures(results: Path) -> None:
    text = written(results)
    assert "time 0.50, memory 1.00, time to build 0.50" in text
    assert "| 1,000,000 | scan | 0.9500 | 5.00 (5.00 to 5.00) |" in text
    assert "| non search us | 31.4 |" in text
    assert "| aidre vector, 8 | 8,000 | 0.9 | 1.5 | 7,900 to 8,100 |" in text


def test_the_readme_gets_the_main_table_and_keeps_the_rest(results: Path) -> None:
    report.write(results / "results", results)
    readme = (results / "README.md").read_text()
    assert readme.startswith("# a\n<!-- figures -->\n") and readme.endswith("<!-- /figures -->\nend\n")
    assert "| graph 2.1 |" in readme and "old" not in readme


def test_the_plots_are_legible_svg_and_the_same_every_time(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(plots, "available", lambda: True)
    text = written(results)
    drawn = {path.name: path.read_bytes() for path in (results / "benchmarks" / "plots").iterdir()}
    assert sorted(drawn) == ["connections_bench_http.svg", "filters_60000.svg", "growth.svg", "recall_60000.svg"]
    for name, content in drawn.items():
        assert f"(plots/{name})" in text
        words = "".join(ElementTree.fromstring(content).itertext())
        assert "aidre" in words
    (name, panels) = next(pages.pictures(pages.read(results / "results")))
    plots.draw(results / "again.svg", panels)
    assert (results / "again.svg").read_bytes() == drawn[f"{name}.svg"]


def test_without_results_there_is_a_page_without_tables(tmp_path: Path) -> None:
    found = pages.read(tmp_path)
    pages.write(found, tmp_path)
    assert "Benchmark report" in (tmp_path / "REPORT.md").read_text()
    assert found.main is None


def test_samples_lie_apart_from_figures(results: Path) -> None:
    raw = json.loads((results / "results" / "raw" / "bench_http.json").read_bytes())
    assert raw["samples"] == [1, 2] and raw["machine"]
    assert "samples" not in json.loads((results / "results" / "bench_http.json").read_bytes())


def test_a_ratio_is_taken_turn_by_turn() -> None:
    assert ratio([10.0, 40.0, 30.0], [10.0, 20.0, 10.0]) == Ratio(2.0, 1.0, 3.0)
    assert str(Ratio(12.345, 0.5, 1234.5)) == "12.3 (0.500 to 1,230)"


def test_the_cheapest_setting_is_the_fastest_that_reaches_the_recall() -> None:
    found = points(RUNS, 10)
    chosen = cheapest(found, "graph", 0.95)
    assert chosen and chosen.setting == 32
    deeper = cheapest(found, "graph", 0.99)
    assert deeper and deeper.setting == 128 and deeper.rate == pytest.approx(1e6 / 350)
    assert cheapest(found, "graph", 1.1) is None and cheapest(found, "nobody", 0.0) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (123456.0, "123,000"), (9.999, "10.0"), (0.0123456, "0.0123"), (1.0, "1.00"), (math.nan, "-")],
)
def test_a_figure_has_three_significant_digits(value: float, shown: str) -> None:
    assert figure(value) == shown


def test_an_exponent_is_that_of_the_power_it_came_from() -> None:
    assert exponent([10.0, 100.0, 1000.0], [3 * size**0.7 for size in (10.0, 100.0, 1000.0)]) == pytest.approx(0.7)
    assert growth([case("sizes", "1", 1, 1)]) == {}


def test_ties_count_as_found_and_rows_that_are_not_allowed_do_not() -> None:
    rows = np.array([[1, 0], [0.8, 0.6], [0.8, 0.6], [0, 1], [-1, 0]], np.float32)
    queries = np.array([[1, 0]], np.float32)
    judged = truth(rows, queries, 2)
    assert judged.found(0, [0, 1]) == judged.found(0, [2, 0]) == 2
    assert judged.found(0, [0, 0]) == 1
    assert judged.found(0, [3, 4, -1, 99]) == 0
    filtered = truth(rows, queries, 2, np.array([False, True, False, True, True]))
    assert filtered.found(0, [0, 1]) == 1 and filtered.found(0, [1, 3]) == 2
    few = truth(rows, queries, 3, np.array([False, False, False, False, True]))
    assert few.count == 1 and few.found(0, [4]) == 1
