"""Tells an ingest: JSON lines for programs; for people a progress bar on a terminal and a line at the end.

What failed is always named on stderr. Knows no store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from aidre.api import console
from aidre.ingest.progress import Committed, EmbedSummary, Event, Notice, Problem, Progress, Summary


class Reporter:
    """Call it with every event; as a context manager it takes the bar away at the end."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._bar = None if as_json or not sys.stderr.isatty() else _bar()
        self._task = self._bar.add_task("ingest", total=None, chunks=0) if self._bar else None
        self._tell: dict[type[Any], Callable[[Any], None]] = {
            Committed: self._committed,
            Progress: self._progress,
            Problem: lambda problem: console.say(f"{problem.where}: {problem.reason}"),
            Notice: lambda notice: console.say(notice.text),
            Summary: self._summary,
            EmbedSummary: self._embedded,
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

    def __call__(self, event: Event) -> None:
        self._tell[type(event)](event)

    def _committed(self, event: Committed) -> None:
        if self._json:
            console.emit(event.as_json())

    def _progress(self, event: Progress) -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=event.documents, chunks=event.chunks)

    def _summary(self, summary: Summary) -> None:
        if summary.refused:
            console.say(summary.refused)
        if self._json:
            console.emit(summary.as_json())
            return
        if self._bar:
            self._bar.stop()
        would = "would be " if summary.dry_run else ""
        console.show(
            f"{summary.documents:,} documents: {summary.updated:,} {would}written, {summary.unchanged:,} unchanged, "
            f"{summary.deleted:,} {would}deleted, {summary.skipped:,} without text, {summary.failed:,} failed; "
            f"{summary.chunks:,} chunks, {summary.embedded:,} texts embedded, {summary.seconds:.1f} s"
        )

    def _embedded(self, summary: EmbedSummary) -> None:
        if self._json:
            console.emit(summary.as_json())
            return
        if self._bar:
            self._bar.stop()
        console.show(
            f"space {console.plain(summary.space)}: {summary.chunks:,} chunks, {summary.embedded:,} texts embedded, "
            f"generation {summary.generation}, {summary.seconds:.1f} s"
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
