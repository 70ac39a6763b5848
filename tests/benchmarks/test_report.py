"""The report of the benchmarks: figures from raw samples, one page, the same plots from the same results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import pages, report


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


def test_a_section_of_an_earlier_run_stays_until_it_is_measured_again(measured: Path) -> None:
    report.write(measured / "results", measured)
    page = measured / "benchmarks" / "REPORT.md"
    first = pages.sections(page.read_text())
    (http,) = (title for title in first if "bench_http" in title)
    page.write_text(page.read_text().replace("graph", "older graph") + "\n## `bench_ask`\n\nAnother machine.\n")
    (measured / "results" / "bench_http.json").unlink()
    report.write(measured / "results", measured)
    second = pages.sections(page.read_text())
    assert second.pop("## `bench_ask`") == "## `bench_ask`\n\nAnother machine."
    assert second == first and http in second


def test_samples_lie_apart_from_figures(measured: Path) -> None:
    raw = json.loads((measured / "results" / "raw" / "bench_http.json").read_bytes())
    assert raw["samples"] == [1, 2] and raw["machine"]
    assert "samples" not in json.loads((measured / "results" / "bench_http.json").read_bytes())


def test_figures_are_written_between_the_comments_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- rates -->\nold\n<!-- /rates -->\nafter\n")
    for _ in range(2):
        report.write_between(page, "rates", ["| a |", "|---|"])
        assert page.read_text() == "before\n<!-- rates -->\n\n| a |\n|---|\n\n<!-- /rates -->\nafter\n"
    with pytest.raises(ValueError, match="no comments <!-- other -->"):
        report.write_between(page, "other", [])
