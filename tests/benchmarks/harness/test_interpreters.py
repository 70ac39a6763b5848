"""Benchmarks under another interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import interpreters
from benchmarks.report.results import named
from benchmarks.search import bench_search


def test_the_benchmark_is_run_again_without_the_option_and_under_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "written.py"
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && echo python_9.9.9 && exit\necho "$@" > {written}\nls > {written}.ls\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(interpreters, "environment", lambda chosen: program)
    assert bench_search.main(["--rows", "7", "--python", "/usr/bin/other", "--synthetic"]) == 0
    assert written.read_text().split() == [
        *("-m", "benchmarks.search.bench_search", "--rows", "7", "--synthetic", "--variant", "python_9.9.9")
    ]
    assert (tmp_path / "written.py.ls").read_text().split() == ["benchmarks"]  # nothing else is in the way
    assert interpreters.without_python(["--python=x", "a"]) == ["a"]


def test_figures_of_another_interpreter_stand_beside_the_others() -> None:
    assert named("bench_http", None) == "bench_http"
    assert named("bench_http", "python_3.11.2") == "bench_http_python_3.11.2"
