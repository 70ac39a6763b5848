"""The report of the benchmarks: figures from raw samples, one page, the same plots from the same results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.report import pages, readme, results as report


def test_the_readme_gets_the_main_comparison_and_keeps_the_rest(measured: Path) -> None:
    report.write(measured / "results", measured)
    written = (measured / "README.md").read_text()
    assert written.startswith("# a\n<!-- difference -->\n") and written.endswith("<!-- /figures -->\nend\n")
    assert "| engine | at .95 | at .99 | build | bytes |\n|---|---|---|---|---|\n" in written
    assert "| aidre | misses it | misses it | 5.00 s | " in written
    assert "| graph | " in written and "old" not in written and "at 0." not in written


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


REPORT = """# Benchmark report

## Comparison with other engines at three recalls, 60,000 rows

| engine | index | questions, recall ≥ 0.99 | questions, recall ≥ 0.95 | build | bytes |
|---|---|---|---|---|---|
| aidre 0.1.0 at 2d45a2549 | scan | 1 = 64.5 µs at 0.9980 | 1 = 31.5 µs at 0.9610 | 1 = 2.89 s | 1 = 832 a row |
| aidre previous 0.1.0 at 44ecfdbf2 | scan | 2.99 (2.98 to 3.01) at 0.9997 | 6.1 (6.0 to 6.2) at 0.9997 | 0.656 | 1.02 |
| hnswlib 0.8.0 | graph | misses it: 0.9750 | 2.86 (2.78 to 2.98) at 0.9533 | 1.89 | 2.03 |
| lancedb 0.40.0 | lists | 29.6 (29.0 to 30.1) at 0.9993 | 59.1 (58 to 60.2) at 0.9530 | 2.25 | 2.55 |
| chromadb 1.5.9 | graph | 10.2 (10.0 to 10.3) at 0.9907 | 20.3 (20.0 to 20.6) at 0.9907 | 6.89 | 2.61 |
| valkey 9.1.2, redisearch 2.10.5 | graph | - | - | 4.86 | 4.80 |
| zvec 0.8.0 | graph | 2.48 (2.44 to 2.52) at 0.9930 | 4.8 (4.7 to 4.9) at 0.9530 | 2.80 | 2.25 |

## `bench_quality`

| figure | value |
|---|---|
| lexical mean nDCG@10 | 0.5741 |
| dense mean nDCG@10 | 0.6134 |
| hybrid mean nDCG@10 | 0.6556 |
"""


def test_the_table_of_the_readme_fits_a_phone() -> None:
    lines = list(readme.table(REPORT))
    assert lines[2:] == [
        "| aidre | 31.5 µs | 64.5 µs | 2.89 s | 832 a row |",
        "| previous release | 6.1 | 2.99 | 0.656 | 1.02 |",
        "| chromadb | 20.3 | 10.2 | 6.89 | 2.61 |",
        "| lancedb | 59.1 | 29.6 | 2.25 | 2.55 |",
        "| hnswlib | 2.86 | misses it | 1.89 | 2.03 |",
        "| valkey | - | - | 4.86 | 4.80 |",
        "",
        "Measured on aidre 0.1.0 at 2d45a2549.",
    ]
    assert list(readme.table("# nothing")) == []


def test_what_is_different_is_said_with_figures_of_the_report_and_nothing_without() -> None:
    quality, fast = readme.difference(REPORT)
    assert "0.6556 over nine test sets, 0.6134 by vectors alone, 0.5741 by words alone" in quality
    assert "takes 31.5 µs at a recall of .95; chromadb takes 20.3 times as long, lancedb 59.1 times" in fast
    assert list(readme.difference("# nothing")) == []
