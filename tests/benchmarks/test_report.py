"""The report of the benchmarks: figures from raw samples, one page, the same plots from the same results."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import report


def test_the_readme_gets_the_main_table_and_keeps_the_rest(measured: Path) -> None:
    report.write(measured / "results", measured)
    readme = (measured / "README.md").read_text()
    assert readme.startswith("# a\n<!-- figures -->\n") and readme.endswith("<!-- /figures -->\nend\n")
    assert "| graph 2.1 |" in readme and "old" not in readme


def test_without_its_results_the_main_table_of_an_earlier_run_stays(measured: Path) -> None:
    before = (measured / "README.md").read_bytes()
    for path in (measured / "results" / "raw").glob("peers_*"):
        path.unlink()
    report.write(measured / "results", measured)
    assert (measured / "README.md").read_bytes() == before


def test_samples_lie_apart_from_figures(measured: Path) -> None:
    raw = json.loads((measured / "results" / "raw" / "bench_http.json").read_bytes())
    assert raw["samples"] == [1, 2] and raw["machine"]
    assert "samples" not in json.loads((measured / "results" / "bench_http.json").read_bytes())
