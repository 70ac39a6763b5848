"""The benchmark of main text: how the passages of one set and the runs of words of the other are counted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.ingest import bench_extraction
from benchmarks.ingest.bench_extraction import Extracted, Page, compare_runs, count_passages, without_title

PAGE = "<html><body><h1>Bridge</h1><p>The old bridge was built in 1890.</p><footer>Imprint</footer></body></html>"


def test_passages_are_counted_regardless_of_white_space() -> None:
    pages = [Page(b"", ["old  bridge", "the mill"], ["Imprint"]), Page(b"", ["weir"], ["Menu", "Login"])]
    score = count_passages(pages, ["the old\nbridge, Imprint", "weir"], 1.0)
    assert (score.precision, score.recall) == (2 / 3, 2 / 3)


def test_runs_of_words_are_compared_page_by_page() -> None:
    pages = [Page(b"", article="a b c d e"), Page(b"", article="a b c d")]
    score = compare_runs(pages, ["a b c d x", "a b c d"], 1.0)
    assert (score.precision, score.recall) == (0.75, 0.75)


def test_the_title_at_the_beginning_of_a_text_is_taken_off() -> None:
    assert without_title(Extracted("Bridge", "Bridge\n\nBuilt.", 0.0)) == "\n\nBuilt."
    assert without_title(Extracted("", "Bridge", 0.0)) == "Bridge"


def test_both_sets_are_read_and_shown_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_extraction, "record", lambda name, figures: None)
    (tmp_path / "one" / "tests" / "eval").mkdir(parents=True)
    (tmp_path / "one" / "tests" / "eval" / "a.html").write_text(PAGE)
    item = {"file": "a.html", "with": ["built in 1890"], "without": ["Login"]}
    (tmp_path / "one" / "tests" / "evaldata.json").write_text(json.dumps({"https://x.org/": item}))
    (tmp_path / "two" / "html").mkdir(parents=True)
    (tmp_path / "two" / "html" / "a.html.gz").write_bytes(gzip.compress(PAGE.encode()))
    article = {"articleBody": "The old bridge was built in 1890."}
    (tmp_path / "two" / "ground-truth.json").write_text(json.dumps({"a": article}))
    assert bench_extraction.main(["--sets", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    shown = capsys.readouterr().out
    assert "| one, 1 pages, passages | aidre | 1.000 | 1.000 | 1.000 |" in shown
    assert "| two, 1 pages, runs of words | trafilatura" in shown


def test_a_folder_that_is_neither_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="clone one of the two sets"):
        bench_extraction.main(["--sets", str(tmp_path)])
