"""The progress of an ingest, `api/cli/progress.py`, for programs, for people, and on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest

from aidre.api.cli.progress import Reporter
from aidre.ingest.pipeline.progress import Committed, Event, Notice, Problem, Progress, Summary

SUMMARY = Summary(
    documents=1200, chunks=3400, embedded=9, updated=9, unchanged=1190, deleted=0, failed=1, skipped=0, seconds=2.0
)


def test_an_ingest_names_what_failed_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(as_json=True) as report:
        for event in (Problem("a.jsonl:3", "is no object"), Notice("two files left out"), Committed(1, 2, 3)):
            report(event)
    printed = capsys.readouterr()
    assert printed.err == "aidre: a.jsonl:3: is no object\naidre: two files left out\n"
    assert printed.out == '{"event":"commit","generation":1,"documents":2,"chunks":3}\n'


def test_a_terminal_shows_progress_and_others_do_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[str, str]:
        with Reporter(as_json=False) as report:
            report(Progress(1200, 3400))
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


def shown_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], total: Callable[[], int | None]
) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Reporter(as_json=False) as report:
        report.expect(total)
        for thread in threading.enumerate():
            if thread.name == "count":
                thread.join()
        report(Progress(1200, 3400))
    return capsys.readouterr().err


def test_a_terminal_shows_the_total_and_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = shown_on_a_terminal(monkeypatch, capsys, lambda: 2400)
    assert "0 of 2,400 documents" in shown, "before the first batch"
    assert "1,200 of 2,400 documents" in shown and "left" in shown


@pytest.mark.parametrize("total", [lambda: None, lambda: 1 // 0], ids=["unknown", "failed"])
def test_without_a_total_the_documents_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, total: Callable[[], int | None]
) -> None:
    shown = shown_on_a_terminal(monkeypatch, capsys, total)
    assert "1,200 documents" in shown and " of " not in shown


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(143)])
@pytest.mark.parametrize("as_json", [True, False])
def test_an_interrupted_ingest_says_what_is_stored(
    capsys: pytest.CaptureFixture[str], interruption: BaseException, as_json: bool
) -> None:
    def told(*events: Event) -> str:
        with pytest.raises(type(interruption)), Reporter(as_json) as report:
            for event in events:
                report(event)
            raise interruption
        return capsys.readouterr().err

    again = "run the same command again to go on\n"
    assert told(Progress(5, 9)) == f"aidre: interrupted: nothing of this run is stored; {again}"
    committed = told(Committed(3, 1200, 3400), Committed(4, 2400, 6800), Progress(3000, 9000))
    assert committed == f"aidre: interrupted: 2,400 documents, generation 4, are stored; {again}"


def test_an_error_is_no_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="x"), Reporter(as_json=False) as report:
        report(Committed(3, 1200, 3400))
        raise ValueError("x")
    assert capsys.readouterr().err == ""
