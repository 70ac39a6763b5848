"""Reports an ingest: JSON lines for programs; for people a progress bar on a terminal, and a line at the end.

Failures are always named on stderr. Knows no store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import Progress as Bar, SpinnerColumn, TextColumn, TimeElapsedColumn

from aidre.api.cli import console
from aidre.ingest.pipeline import Committed, EmbedSummary, Event, Notice, Problem, Progress, Summary


class Reporter:
    """Call it with every event. As a context manager it shows the bar, removes it at the end, and says what an ingest
    has stored that is interrupted; `stores` is False for a dry run and for other commands."""

    def __init__(self, as_json: bool, *, stores: bool = False) -> None:
        self._json = as_json
        self._stores = stores
        self._stored: Committed | None = None
        self._bar = None if as_json or not sys.stderr.isatty() else _bar()
        self._task = self._bar.add_task("ingest", total=None, chunks=0) if self._bar else None
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            Committed: self._committed,
            Progress: self._progress,
            Problem: lambda problem: console.print_message(f"{problem.where}: {problem.reason}"),
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

    def _progress(self, event: Progress) -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=event.documents, chunks=event.chunks)

    def _summary(self, summary: Summary) -> None:
        if summary.refused:
            console.print_message(summary.refused)
        would = "would be " if summary.dry_run else ""
        self._print_summary(
            summary,
            f"{summary.documents:,} documents: {summary.updated:,} {would}written, {summary.unchanged:,} unchanged, "
            f"{summary.deleted:,} {would}deleted, {summary.skipped:,} without text, {summary.failed:,} failed; "
            f"{summary.chunks:,} chunks, {summary.embedded:,} texts embedded, {summary.seconds:.1f} s",
        )

    def _embed_summary(self, summary: EmbedSummary) -> None:
        self._print_summary(
            summary,
            f"space {console.printable(summary.space)}: {summary.chunks:,} chunks, "
            f"{summary.embedded:,} texts embedded, generation {summary.generation}, {summary.seconds:.1f} s",
        )

    def _print_summary(self, summary: Summary | EmbedSummary, text: str) -> None:
        if self._json:
            console.print_json(summary.as_json())
            return
        if self._bar:
            self._bar.stop()
        console.print_line(text)


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
        TextColumn("{task.completed:,.0f} documents"),
        TextColumn("{task.fields[chunks]:,} chunks"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
