"""Reports an ingest: JSON lines for programs; for people a progress bar on a terminal, and a line at the end.

Failures are always named on stderr, and what an interrupted run has stored. Knows no store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress as Bar,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from aidre.api.cli import console
from aidre.ingest.pipeline import Committed, EmbedSummary, Event, Notice, Problem, Progress, Summary


class Reporter:
    """Call it with every event. As a context manager it shows the bar, and removes it at the end."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._bar = None if as_json or not sys.stderr.isatty() else _bar()
        self._task = self._bar.add_task("ingest", total=None, chunks=0) if self._bar else None
        self._committed_last: Committed | None = None
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
        if kind is not None and issubclass(kind, KeyboardInterrupt | SystemExit):
            console.print_message(self._describe_interruption())

    def expect(self, count: Callable[[], int | None]) -> None:
        """Show the total that `count` gives, once it has counted beside the ingest; errors of it are not reported."""
        bar, task = self._bar, self._task
        if bar is None or task is None:
            return

        def run() -> None:
            with suppress(Exception):  # a source that cannot be read is reported by the ingest
                bar.update(task, total=count())

        Thread(target=run, name="count", daemon=True).start()

    def _describe_interruption(self) -> str:
        last = self._committed_last
        kept = "nothing of this run" if last is None else f"{last.documents:,} documents, generation {last.generation},"
        return f"interrupted: {kept} {'is' if last is None else 'are'} stored; run the same command again to go on"

    def __call__(self, event: Event) -> None:
        self._handlers[type(event)](event)

    def _committed(self, event: Committed) -> None:
        self._committed_last = event
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


class _DocumentsColumn(ProgressColumn):
    """Documents, of how many if that is known, and how many in a second."""

    def render(self, task: Task) -> Text:
        total = "" if task.total is None else f" of {task.total:,.0f}"
        rate = "" if task.speed is None else f", {task.speed:,.0f}/s"
        return Text(f"{task.completed:,.0f}{total} documents{rate}")


def _bar() -> Bar:
    return Bar(
        SpinnerColumn(),
        _DocumentsColumn(),
        BarColumn(20),
        TextColumn("{task.fields[chunks]:,} chunks"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
