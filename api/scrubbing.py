"""The scrub that runs beside a server: one worker of a store reads, in a thread of its own, and all know what it found.

What it found stands in `STORE/.log/scrub.json` until the file is whole again or no generation names it. Damage to the
truth is told and served on: what was open stays open, as where a newer generation does not open. Something derived that
is damaged is opened anew, and so bypassed.
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

from aidre.engine.durable import replace_file
from aidre.engine.errors import StorageFailed
from aidre.engine.scrub import Looked, Scrub, Stopped
from aidre.engine.store import Store

logger = logging.getLogger("aidre")

FILE, LOCK = "scrub.json", "scrub.lock"
RETRY_SECONDS = 30.0
"""Until a worker asks again whether the one that reads is gone."""
RECHECK_SECONDS = 15.0
"""Between two looks at what was found damaged."""
CLOSING_SECONDS = 5.0
LOWEST_PRIORITY = 19
MOST_BYTES = 16 << 20

Mark = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not as its manifest says. `file` is relative to the store, `found` Unix time."""

    collection: str
    file: str
    what: str
    derived: bool
    found: float


@dataclass(frozen=True, slots=True)
class Findings:
    """`passed` is when all had been read last, in Unix time, 0 before."""

    passed: float = 0.0
    problems: tuple[Problem, ...] = ()

    def to_bytes(self) -> bytes:
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2)


def read_findings(folder: Path) -> Findings:
    """What stands in the folder; nothing where nothing can be read."""
    try:
        with (folder / FILE).open("rb") as file:
            found = orjson.loads(file.read(MOST_BYTES))
        problems = tuple(Problem(**problem) for problem in found["problems"])
        return Findings(float(found["passed"]), problems)
    except (OSError, ValueError, TypeError, KeyError):
        return Findings()


class Scrubber:
    """Of one worker. It reads while no other one does; `findings` are those of the one that reads."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._folder = store.path / ".log"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._mark: Mark | None = None
        self.findings = Findings()
        self._told: set[tuple[str, str]] = set()
        self._reread: dict[str, Mark | None] = {}

    def open(self) -> None:
        """Begins to read, unless that is switched off."""
        if self._seconds > 0:
            self._thread = threading.Thread(target=self._run, name="scrub", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends within one piece of a file."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def refresh(self) -> set[str]:
        """The collections of which something derived has been found damaged since: to be opened anew."""
        mark = _mark_of(self._folder / FILE)
        if mark == self._mark:
            return set()
        self._mark = mark
        self.findings = read_findings(self._folder)
        derived = {(one.collection, one.file) for one in self.findings.problems if one.derived}
        fresh, self._told = derived - self._told, derived
        return {collection for collection, _ in fresh}

    @property
    def damaged(self) -> frozenset[str]:
        """The collections in which something is damaged that holds truth."""
        return frozenset(one.collection for one in self.findings.problems if not one.derived)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(OSError):  # what nobody else does goes before this
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        with suppress(Stopped):
            while True:
                try:
                    self._alone()
                except OSError as error:
                    logger.warning("the store is not scrubbed: %s", error.strerror or error)
                    return
                except Stopped:
                    raise
                except Exception:  # the outermost handler of this thread
                    logger.exception("the scrub broke off")
                self._rest(RETRY_SECONDS)

    def _alone(self) -> None:
        """Reads as long as this process lives, unless another one does; OSError, Stopped."""
        descriptor = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            while True:
                until = time.monotonic() + max(1.0, self._seconds)
                self._pass()
                while (left := until - time.monotonic()) > 0:
                    self._rest(min(left, RECHECK_SECONDS))
                    self._recheck()
        except BlockingIOError:
            return
        finally:
            os.close(descriptor)

    def _pass(self) -> None:
        former = read_findings(self._folder)
        known = {problem.file: problem for problem in former.problems}
        seen: dict[str, Looked] = {}
        checked = time.monotonic()
        for looked in Scrub(self._store, self._seconds, self._stop).one_pass():
            seen[looked.file] = looked
            if known and time.monotonic() - checked > RECHECK_SECONDS:
                self._recheck()
                known = {problem.file: problem for problem in read_findings(self._folder).problems}
                checked = time.monotonic()
            before = known.get(looked.file)
            if looked.problem is None:
                if before is not None:
                    del known[looked.file]
                    self._note(former.passed, known)
            elif before is None or before.what != looked.problem:
                known[looked.file] = _found(looked)
                self._note(former.passed, known)
        self._note(time.time(), {file: problem for file, problem in known.items() if file in seen})

    def _recheck(self) -> None:
        """Forgets what has been restored, or is named by no generation any more: nobody should wait a pass for that."""
        found = read_findings(self._folder)
        scrub = Scrub(self._store, self._seconds, self._stop)
        known: dict[str, Problem] = {}
        for one in found.problems:
            mark = _mark_of(self._store.path / one.file)
            read = self._reread.get(one.file) != mark  # what nobody has touched since is as it was
            self._reread[one.file] = mark
            if scrub.is_damaged(one.collection, one.file, read=read):
                known[one.file] = one
        if len(known) < len(found.problems):
            self._note(found.passed, known)

    def _note(self, passed: float, known: Mapping[str, Problem]) -> None:
        try:
            replace_file(self._folder / FILE, Findings(passed, tuple(known.values())).to_bytes())
        except StorageFailed as error:
            logger.warning("what the scrub found cannot be noted: %s", error)

    def _rest(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped


def _mark_of(path: Path) -> Mark | None:
    """What tells a file from another that took its place, None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _found(looked: Looked) -> Problem:
    what = str(looked.problem)
    level, cure = logging.ERROR, "restore it from a backup"
    if looked.derived:
        level, cure = logging.WARNING, "it is bypassed; `aidre compact` makes it anew"
    logger.log(level, "scrub: %s %s: %s", looked.file, what, cure)
    return Problem(looked.collection, looked.file, what, looked.derived, time.time())
