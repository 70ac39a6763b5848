"""Reports an ingest: JSON lines for programs; for people a progress bar on a terminal, a line every ten seconds in a
log, and a line at the end.

Failures are always named on stderr. Knows no store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress as Bar, SpinnerColumn, TextColumn, TimeElapsedColumn

from aidre.api.cli import console
from aidre.ingest.pipeline import Committed, DocumentProblem, EmbedSummary, Event, Notice, RunProgress, Summary

LOG_SECONDS: Final = 10.0
"""Between two lines of progress where there is no terminal."""


class Reporter:
    """Call it with every event. As a context manager it shows the bar, removes it at the end, and says what an ingest
    has stored that is interrupted; `stores` is False for a dry run and for other commands."""

    def __init__(self, as_json: bool, *, stores: bool = False, clock: Callable[[], float] = monotonic) -> None:
        self._json = as_json
        self._clock = clock
        self._started = self._told = clock()
        self._stores = stores
        self._stored: Committed | None = None
        self._bar = None if as_json or not sys.stderr.isatty() else _bar()
        self._task = self._bar.add_task("ingest", total=None, text="") if self._bar else None
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            Committed: self._committed,
            RunProgress: self._progress,
            DocumentProblem: lambda problem: console.print_message(f"{problem.where}: {problem.reason}"),
            Notice: lambda notice: console.print_message(notice.text),
            Summary: self._summary,
            EmbedSummary: self._embed_summary,
        }

    def __enter__(self) -> Reporter:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if self._stores and isinstance(error, KeyboardInterrupt | SystemExit):
            console.print_message(_kept(self._stored))

    def __call__(self, event: Event) -> None:
        self._handlers[type(event)](event)

    def _committed(self, event: Committed) -> None:
        self._stored = event
        if self._json:
            console.print_json(event.as_json())

    def _progress(self, event: RunProgress) -> None:
        now = self._clock()
        if self._bar and self._task is not None:
            self._bar.update(self._task, text=_state(event, now - self._started))
        elif not self._json and now - self._told >= LOG_SECONDS:
            self._told = now
            console.print_message(_state(event, now - self._started))

    def _summary(self, summary: Summary) -> None:
        if summary.refused:
            console.print_message(summary.refused)
        would = "would be " if summary.dry_run else ""
        documents = console.counted(summary.documents, "document")
        left_out = f"{summary.left_out:,} left out, " if summary.left_out else ""
        counts = (
            f"{documents}: {summary.updated:,} {would}written, {summary.unchanged:,} unchanged, "
            f"{summary.deleted:,} {would}deleted, {summary.skipped:,} without text, {left_out}{summary.failed:,} failed"
        )
        chunks, texts = console.counted(summary.chunks, "chunk"), console.counted(summary.embedded, "text")
        self._print_summary(summary, f"{counts}; {chunks}, {texts} embedded, {summary.seconds:.1f} s")

    def _embed_summary(self, summary: EmbedSummary) -> None:
        self._print_summary(
            summary,
            f"space {console.printable(summary.space)}: {console.counted(summary.chunks, 'chunk')}, "
            f"{console.counted(summary.embedded, 'text')} embedded, generation {summary.generation}, "
            f"{summary.seconds:.1f} s",
        )

    def _print_summary(self, summary: Summary | EmbedSummary, text: str) -> None:
        if self._json:
            console.print_json(summary.as_json())
            return
        if self._bar:
            self._bar.stop()
        console.print_line(text)


def _state(progress: RunProgress, seconds: float) -> str:
    """Counts, rate, and the time left if the other files take as long as those that were read."""
    files, total = progress.files, progress.total_files
    parts = [f"{progress.documents:,} documents", f"{progress.chunks:,} chunks"]
    if total is not None:
        parts.insert(0, f"{files:,} of {total:,} files")
    if progress.documents and seconds > 0:
        parts.append(f"{progress.documents / seconds:,.1f} documents/s")
    if total is not None and 0 < files <= total and progress.documents:
        parts.append(f"{timedelta(seconds=round(seconds * (total - files) / files))} left")
    return ", ".join(parts)


def _kept(stored: Committed | None) -> str:
    if stored is None:
        return "interrupted before the first commit: this run has stored nothing; the next one begins anew"
    documents = f"{stored.documents:,} document{'s' * (stored.documents != 1)}"
    return (
        f"interrupted: {documents} of this run are stored, generation {stored.generation}; the next run skips them and "
        "reads the others"
    )


def _bar() -> Bar:
    return Bar(
        SpinnerColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
