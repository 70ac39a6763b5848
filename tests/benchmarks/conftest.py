"""Benchmarks write into a temporary folder and give their cores back; canned results for what is made of results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.report import plots, results as report
from tests.benchmarks.measurements import CONTEST, CURVES, SERVED


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is written beside the code, and the cores are given back."""
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    cores = os.sched_getaffinity(0)
    yield tmp_path / "results"
    os.sched_setaffinity(0, cores)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of canned results and of a README to write into; drawing is for the test that looks at the plots."""
    monkeypatch.setattr(plots, "available", lambda: False)
    report.keep("peers_60000", CONTEST)
    report.keep("index_sizes", CURVES)
    report.record("bench_http", SERVED, raw={"samples": [1, 2]})
    readme = "# a\n<!-- difference -->\n<!-- /difference -->\n<!-- figures -->\nold\n<!-- /figures -->\n"
    (tmp_path / "README.md").write_text(readme + "end\n")
    return tmp_path
