"""The background scrub of a server: one worker reads all files in a thread, and all workers share its findings.

Findings are kept in `scrub.json` beside the logs until the file is restored or no generation names it. Damage to
documents, chunks or vectors is reported and the open snapshot keeps serving. A damaged derived file makes its
collection reopen, which rebuilds or bypasses the file.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from aidre.engine.errors import StorageFailed, Unsupported
from aidre.engine.maintenance import Scrub, ScrubbedFile, ScrubStopped
from aidre.engine.ports import Source
from aidre.engine.storage import replace_file

logger = logging.getLogger("aidre")

FILE, LOCK = "scrub.json", "scrub.lock"
RETRY_SECONDS = 30.0
"""Interval at which the other workers try to take over the scrub."""
RECHECK_SECONDS = 15.0
"""Interval at which known damage is checked again."""
CLOSING_SECONDS = 5.0
"""How long closing waits for the thread."""
LOWEST_PRIORITY = 19
MAX_BYTES = 16 << 20
"""Bytes of the file of findings that are read at most."""

FileStamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RecordedProblem:
    """A file that differs from its manifest. `file` is relative to the store, `found` is Unix time."""

    collection: str
    file: str
    what: str
    derived: bool
    found: float


@dataclass(frozen=True, slots=True)
class Findings:
    """`passed` is the Unix time at which the last complete pass ended, 0 before the first."""

    passed: float = 0.0
    problems: tuple[RecordedProblem, ...] = ()

    def to_bytes(self) -> bytes:
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2)


def read_findings(folder: Path) -> Findings:
    """The findings stored in the folder; none if they cannot be read."""
    try:
        with (folder / FILE).open("rb") as file:
            content = orjson.loads(file.read(MAX_BYTES))
        problems = tuple(RecordedProblem(**problem) for problem in content["problems"])
        return Findings(float(content["passed"]), problems)
    except (OSError, ValueError, TypeError, KeyError):
        return Findings()


class Scrubber:
    """The scrubber of one worker. It scrubs while no other worker does; `findings` are those of the active one.

    A pass over the store takes about `seconds`; 0 disables it, and so does an engine without files of its own. `folder`
    keeps the findings.
    """

    def __init__(self, source: Source, seconds: float, folder: Path) -> None:
        self._source = source
        self._seconds = seconds
        self._folder = folder
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._stamp: FileStamp | None = None
        self.findings = Findings()
        self._reported: set[tuple[str, str]] = set()
        self._rechecked: dict[str, FileStamp | None] = {}

    def open(self) -> None:
        """Start the thread, unless the scrub is disabled."""
        if self._seconds > 0:
            self._thread = threading.Thread(target=self._run, name="scrub", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop the thread; it ends after the current block of a file."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def refresh(self) -> set[str]:
        """Reload the findings; returns the collections with newly damaged derived files, which must be reopened."""
        stamp = _stamp_of(self._folder / FILE)
        if stamp == self._stamp:
            return set()
        self._stamp = stamp
        self.findings = read_findings(self._folder)
        derived = {(problem.collection, problem.file) for problem in self.findings.problems if problem.derived}
        fresh, self._reported = derived - self._reported, derived
        return {collection for collection, _ in fresh}

    @property
    def damaged(self) -> frozenset[str]:
        """The collections with damaged documents, chunks or vectors."""
        return frozenset(problem.collection for problem in self.findings.problems if not problem.derived)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(OSError):  # all other work has priority
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        with suppress(ScrubStopped, Unsupported):
            while True:
                try:
                    self._scrub_exclusively()
                except OSError as error:
                    logger.warning("the store is not scrubbed: %s", error.strerror or error)
                    return
                except (ScrubStopped, Unsupported):
                    raise
                except Exception:  # the outermost handler of this thread
                    logger.exception("the scrub failed and will be retried")
                self._wait(RETRY_SECONDS)

    def _scrub_exclusively(self) -> None:
        """Scrub until the process ends, unless another worker holds the lock. Raises OSError or ScrubStopped."""
        descriptor = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            while True:
                until = time.monotonic() + max(1.0, self._seconds)
                self._scrub_once()
                while (remaining := until - time.monotonic()) > 0:
                    self._wait(min(remaining, RECHECK_SECONDS))
                    self._recheck()
        except BlockingIOError:
            return
        finally:
            os.close(descriptor)

    def _scrub_once(self) -> None:
        former = read_findings(self._folder)
        known = {problem.file: problem for problem in former.problems}
        seen: dict[str, ScrubbedFile] = {}
        checked = time.monotonic()
        for looked in Scrub(self._source, self._seconds, self._stop).one_pass():
            seen[looked.file] = looked
            if known and time.monotonic() - checked > RECHECK_SECONDS:
                self._recheck()
                known = {problem.file: problem for problem in read_findings(self._folder).problems}
                checked = time.monotonic()
            before = known.get(looked.file)
            if looked.problem is None:
                if before is not None:
                    del known[looked.file]
                    self._save(former.passed, known)
            elif before is None or before.what != looked.problem:
                known[looked.file] = _report(looked)
                self._save(former.passed, known)
        self._save(time.time(), {file: problem for file, problem in known.items() if file in seen})

    def _recheck(self) -> None:
        """Drop findings about files that were restored or are no longer named, without waiting for the next pass."""
        findings = read_findings(self._folder)
        scrub = Scrub(self._source, self._seconds, self._stop)
        known: dict[str, RecordedProblem] = {}
        for problem in findings.problems:
            stamp = _stamp_of(self._source.path / problem.file)
            read = self._rechecked.get(problem.file) != stamp  # an untouched file is still damaged
            self._rechecked[problem.file] = stamp
            if scrub.is_damaged(problem.collection, problem.file, read=read):
                known[problem.file] = problem
        if len(known) < len(findings.problems):
            self._save(findings.passed, known)

    def _save(self, passed: float, known: Mapping[str, RecordedProblem]) -> None:
        try:
            replace_file(self._folder / FILE, Findings(passed, tuple(known.values())).to_bytes())
        except StorageFailed as error:
            logger.warning("the findings of the scrub cannot be saved: %s", error)

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise ScrubStopped


def _stamp_of(path: Path) -> FileStamp | None:
    """Inode, modification time and size, which differ after a file was replaced; None for a missing file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _report(looked: ScrubbedFile) -> RecordedProblem:
    what = str(looked.problem)
    level, cure = logging.ERROR, "restore it from a backup"
    if looked.derived:
        level, cure = logging.WARNING, "it is bypassed; `aidre compact` rebuilds it"
    logger.log(level, "scrub: %s %s: %s", looked.file, what, cure)
    return RecordedProblem(looked.collection, looked.file, what, looked.derived, time.time())
