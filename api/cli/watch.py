"""`aidre watch`: ingests once, then follows folders and files and ingests what changes.

A thread waits for the operating system to tell of changes (watchfiles); the main thread gets them from a queue, so that
signals end it at once. Single files, and folders that come and go, are looked at once a second.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias

from aidre.engine.errors import ConfigurationError, StorageFailed, StoreLocked
from aidre.ingest.fetch import is_url
from aidre.ingest.pipeline import Committed, DocumentProblem, Event, Notice, Summary
from aidre.ingest.records import escape_unprintable
from aidre.ingest.sources import FileSource, is_ignored, is_readable, locate_sources

if TYPE_CHECKING:
    from aidre.api.cli.ingest import Ingestion

QUIET_SECONDS: Final = 0.5
"""Changes that follow each other within this time are one run ..."""
MAX_DELAY_SECONDS: Final = 5.0
"""... unless they go on for longer than this."""
TICK_SECONDS: Final = 1.0
"""Between two looks at single files and at whether the folders are there."""
RETRY_SECONDS: Final = 5.0
"""Seconds after a run that could not write."""
LOOK_SECONDS: Final = 60.0
"""Between two looks at the clock, while a document is to be published later: the machine may sleep meanwhile."""
READY_SECONDS: Final = 30.0
"""Seconds in which the operating system must have begun to watch all folders."""
_NO_ROOM = "the system follows no more folders: raise fs.inotify.max_user_watches, or set WATCHFILES_FORCE_POLLING=true"

Reporting: TypeAlias = Callable[[], AbstractContextManager[Callable[[Event], None]]]
State: TypeAlias = tuple[int, int, int, int] | None
"""Device, inode, size and time of a change; None for a path that does not exist."""


# -- what has changed ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FileChanges:
    """Tells when something below the folders, or one of the files, has changed. `ignored` is a folder below them."""

    folders: Sequence[Path]
    files: Sequence[Path]
    ignored: Path
    _queue: queue.Queue[bool | Exception] = field(default_factory=queue.Queue)
    """True for a change, False for a tick of the thread, or the error that ended it."""
    _states: dict[Path, State] = field(default_factory=dict)
    _stop: threading.Event | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to follow; what changes after this call is told of. ConfigurationError where the system refuses."""
        self._states = self._look()
        present = [folder for folder in self.folders if folder.is_dir()]
        if not present:
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(present, self._stop), daemon=True)
        self._thread.start()
        self._take(READY_SECONDS)  # its first tick, or a change

    def wait(self, seconds: float | None = None) -> bool:
        """Whether something has changed; waits for it for so long, or without an end."""
        ends = None if seconds is None else monotonic() + seconds
        while ends is None or monotonic() < ends:
            if self._take(TICK_SECONDS):
                return True
            former, self._states = self._states, self._look()
            if former != self._states:
                if any(former[folder] != self._states[folder] for folder in self.folders):
                    self.stop()
                    self.start()  # the system follows a folder, not its name
                return True
        return False

    def stop(self) -> None:
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join()
        self._stop = self._thread = None
        self._queue = queue.Queue()

    def _take(self, seconds: float) -> bool:
        """Whether the thread tells of a change within this time; all that it has told until now counts as one."""
        changed = False
        with_timeout = True
        while True:
            try:
                event = self._queue.get(timeout=seconds) if with_timeout else self._queue.get_nowait()
            except queue.Empty:
                return changed
            if isinstance(event, Exception):
                raise ConfigurationError(_refusal(event))
            changed, with_timeout = changed or event, False

    def _follow(self, folders: Sequence[Path], stop: threading.Event) -> None:
        from watchfiles import watch

        queue = self._queue
        try:
            for changes in watch(
                *folders,
                watch_filter=lambda _, path: self._counts(Path(path)),
                debounce=round(MAX_DELAY_SECONDS * 1_000),
                step=round(QUIET_SECONDS * 1_000),
                rust_timeout=round(TICK_SECONDS * 1_000),
                stop_event=stop,
                yield_on_timeout=True,
                raise_interrupt=False,
            ):
                queue.put(bool(changes))
        except Exception as error:  # of a foreign library: told to the main thread
            queue.put(error)

    def _counts(self, path: Path) -> bool:
        """Whether a change of this path may change a document."""
        if path.is_relative_to(self.ignored):
            return False
        for folder in self.folders:
            if path.is_relative_to(folder) and any(map(is_ignored, path.relative_to(folder).parts)):
                return False
        return is_readable(path.name, code=True, ocr=True) or not path.is_file()

    def _look(self) -> dict[Path, State]:
        """The state of each path; of a folder its identity alone, since changes inside are reported."""
        looked: dict[Path, State] = {}
        for path in (*self.folders, *self.files):
            try:
                status = path.stat()
            except OSError:
                looked[path] = None
                continue
            is_folder = path in self.folders
            detail = (0, 0) if is_folder else (status.st_size, status.st_mtime_ns)
            looked[path] = (status.st_dev, status.st_ino, *detail)
        return looked


def _refusal(error: Exception) -> str:
    text = str(error)
    return _NO_ROOM if "os error 28" in text or "limit" in text.lower() else f"the folders cannot be followed: {text}"


# -- what is said of it ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class News:
    """Filters the events of repeated runs: all of the first; later, changes and new problems."""

    report: Callable[[Event], None]
    reported: frozenset[str] = frozenset()
    """Problems and notices of the run before, which are not repeated."""
    is_first: bool = False
    now: set[str] = field(default_factory=set)
    is_news: bool = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, DocumentProblem | Notice):
            text = repr(event)
            self.now.add(text)
            if text in self.reported:
                return
            self.is_news = self.is_news or isinstance(event, DocumentProblem)
        elif isinstance(event, Summary):
            refused = repr(event.refused)
            self.now.add(refused)
            changes = event.updated or event.deleted or self.is_news or refused not in {*self.reported, "None"}
            if not (self.is_first or changes):
                return
        elif not (self.is_first or isinstance(event, Committed)):
            return
        self.report(event)


# -- the loop --------------------------------------------------------------------------------------------------------


def watch(
    ingestion: Ingestion,
    reporting: Reporting,
    say: Callable[[str], None],
    *,
    changes: FileChanges | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Ingest, then again after every change, and when a document is to be published or not any more, until a signal
    raises in the main thread.

    `reporting` makes a context whose value receives the events of one run. A run that finds the collection locked, or
    that cannot write, is repeated; a folder that is missing is waited for. Whatever ends the first run ends this too,
    but another writer's lock.
    """
    followed = changes or follow(ingestion.sources, ingestion.store.path)
    followed.start()
    reported, is_first, problem = frozenset[str](), True, ""
    due: str | None = None
    try:
        while True:
            gone = [] if is_first else [source for source in ingestion.sources if not Path(source).exists()]
            former, problem = problem, _absence(gone)
            try:
                reported, due = _run(_without(ingestion, gone), reporting, reported, is_first=is_first)
                if is_first:
                    say(f"watching {', '.join(escape_unprintable(source) for source in ingestion.sources)}")
                is_first = False
            except (StoreLocked, StorageFailed, ConfigurationError) as error:
                if is_first and not isinstance(error, StoreLocked):
                    raise
                problem = f"{error}; it is tried again"
            if problem and problem != former:
                say(problem)
            if problem:
                followed.wait(RETRY_SECONDS)
            else:
                _wait(followed, due, clock)
    finally:
        followed.stop()


def _wait(followed: FileChanges, due: str | None, clock: Callable[[], datetime]) -> None:
    """Wait for a change, or until a time (RFC 3339)."""
    if due is None:
        followed.wait(None)
        return
    while (left := (datetime.fromisoformat(due) - clock()).total_seconds()) > 0:
        if followed.wait(min(left, LOOK_SECONDS)):
            return


def _absence(gone: Sequence[str]) -> str:
    names = ", ".join(map(escape_unprintable, gone))
    return f"{names}: not there; the documents stay, and the source is followed again when it is back" if gone else ""


def _without(ingestion: Ingestion, gone: Sequence[str]) -> Ingestion:
    return replace(ingestion, sources=[source for source in ingestion.sources if source not in gone])


def _run(
    ingestion: Ingestion, reporting: Reporting, reported: frozenset[str], *, is_first: bool
) -> tuple[frozenset[str], str | None]:
    """One run; returns what it said, and when the next document is to be published or not any more."""
    if not ingestion.sources:
        return reported, None
    with reporting() as report:
        news = News(report, reported, is_first)
        summary = ingestion.run(news)
    return frozenset(news.now), summary.next_change


def follow(sources: Sequence[str], store: Path) -> FileChanges:
    """What tells of changes in these sources. ConfigurationError for an address, or a path that cannot be read."""
    for source in sources:
        if is_url(source):
            raise ConfigurationError(
                f"watch follows files and folders: run `aidre ingest {escape_unprintable(source)}` from a timer instead"
            )
    located = locate_sources(sources)
    for found in located:
        if not isinstance(found, FileSource):
            raise ConfigurationError(
                f"watch follows no sitemap: run `aidre ingest {escape_unprintable(found.root)}` from a timer instead"
            )
    sources_of_files = [source for source in located if isinstance(source, FileSource)]
    folders = [source.root for source in sources_of_files if source.only is None]
    files = [source.root / source.only for source in sources_of_files if source.only is not None]
    return FileChanges(folders, files, store.resolve())
