"""The progress of an ingest, `api/cli/progress.py`, for programs, for people, and on a terminal."""

from __future__ import annotations

import sys

import pytest

from aidre.api.cli.progress import Reporter
from aidre.ingest.pipeline.run_events import Committed, DocumentProblem, Notice, RunProgress, Summary

SUMMARY = Summary(
    documents=1200, chunks=3400, embedded=9, updated=9, unchanged=1190, deleted=0, failed=1, skipped=0, seconds=2.0
)


def test_an_ingest_names_what_failed_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(as_json=True) as report:
        for event in (
            DocumentProblem("a.jsonl:3", "is not an object"),
            Notice("two files left out"),
            Committed(1, 2, 3),
        ):
            report(event)
    printed = capsys.readouterr()
    assert printed.err == "aidre: a.jsonl:3: is not an object\naidre: two files left out\n"
    assert printed.out == '{"event":"commit","generation":1,"documents":2,"chunks":3}\n'


def test_a_terminal_shows_progress_and_others_do_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[str, str]:
        with Reporter(as_json=False) as report:
            report(RunProgress(1200, 3400))
            report(SUMMARY)
        printed = capsys.readouterr()
        return printed.out, printed.err

    out, err = told()
    assert out.startswith("1,200 documents: 9 written, 1,190 unchanged")
    assert err == ""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    out, err = told()
    assert out.startswith("1,200 documents: 9 written")
    assert "3,400 chunks" in err


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(143)], ids=["interrupt", "terminate"])
@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], "interrupted before the first commit: this run has stored nothing; the next one begins anew"),
        ([Committed(7, 1200, 3400), RunProgress(1300, 3500)],
         "interrupted: 1,200 documents of this run are stored, generation 7; the next run skips them and reads the "
         "others"),
    ],
    ids=["nothing", "some"],
)  # fmt: skip
def test_an_interrupted_ingest_says_what_it_has_stored(
    capsys: pytest.CaptureFixture[str], end: BaseException, events: list[Committed | RunProgress], said: str
) -> None:
    with pytest.raises(type(end)), Reporter(as_json=False, stores=True) as report:
        for event in events:
            report(event)
        raise end
    assert capsys.readouterr().err == f"aidre: {said}\n"
    with pytest.raises(type(end)), Reporter(as_json=False):
        raise end
    assert capsys.readouterr().err == ""


def test_a_log_gets_totals_rate_and_time_left_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = [0.0]
    with Reporter(as_json=False, clock=lambda: seconds[0]) as report:
        for seconds[0], event in (
            (0.1, RunProgress(0, 0, 0, 1200)),
            (9.0, RunProgress(200, 500, 250, 1200)),
            (20.0, RunProgress(400, 1000, 300, 1200)),
            (29.0, RunProgress(500, 1250, 400, 1200)),
            (30.0, RunProgress(600, 1500, 0, None)),
        ):
            report(event)
    assert capsys.readouterr().err.splitlines() == [
        "aidre: 300 of 1,200 files, 400 documents, 1,000 chunks, 20.0 documents/s, 0:01:00 left",
        "aidre: 600 documents, 1,500 chunks, 20.0 documents/s",
    ]


def test_a_terminal_shows_the_total_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Reporter(as_json=False) as report:
        report(RunProgress(0, 0, 0, 1200))
    assert "0 of 1,200 files" in capsys.readouterr().err
