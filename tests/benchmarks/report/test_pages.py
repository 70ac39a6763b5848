"""The page of all results: tables of peers, of growth, and of what servers answer."""

from __future__ import annotations

from pathlib import Path

from benchmarks.report import pages
from tests.benchmarks.measurements import written


def test_the_page_tells_each_peer_as_a_ratio_with_its_spread(measured: Path) -> None:
    text = written(measured)
    passages, questions = "3.50 (3.00 to 4.00) at 1.0000", "misses it: 0.9667"
    assert f"| graph 2.1 | graph M=16 | {passages} | {questions} | 3.10 (3.00 to 3.20) at 0.9667 |" in text
    assert "| aidre 1 | scan | 1 = 100 µs at 0.9833, misses 0.99 | 1 = 200 µs at 0.9667, misses 0.99 |" in text
    assert "| 1 = 40.0 µs at 0.9000 | 1 = 80.0 µs at 0.9000 | 1 = 5.00 s |" in text
    assert "| 3.80 | 2.00 |" in text  # build by processor time, bytes
    assert "absent was not measured: not installed." in text
    assert "| 1 % random | passages | 100, 1.000 | 5.00 (5.00 to 5.00), 1.000 |" in text
    assert "| aidre | 990 | questions | 64 | 95.0 | 42.5 | 2.25 (2.00 to 2.50) | 0.9950 |" in text


def test_the_page_tells_growth_connections_and_figures(measured: Path) -> None:
    text = written(measured)
    assert "time 0.50, memory 1.00, time to build 0.50" in text
    assert "| 1,000,000 | questions | scan | 0.9500 | 5.00 (5.00 to 5.00) |" in text
    assert "| non search us | 31.4 |" in text
    assert "| aidre vector, 8 | 8,000 | 0.9 | 1.5 | 7,900 to 8,100 |" in text


def test_without_results_there_is_a_page_without_tables(tmp_path: Path) -> None:
    pages.write(pages.read(tmp_path), tmp_path)
    assert "Benchmark report" in (tmp_path / "REPORT.md").read_text()
