"""Client of one contender in its own process: starts it, sends commands with a time-out, always ends it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from benchmarks.peers import words
from benchmarks.peers.engines.protocol import ENTRIES
from benchmarks.peers.environments import python

ROOT: Final = Path(__file__).resolve().parents[2]
ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""These thread pools spin while they wait. Builds request both cores, each by the API of its library; other pools are
unchanged and share the one core that a contender is pinned to when it answers."""

START_SECONDS: Final = 120.0
BUILD_SECONDS: Final = 600.0
ANSWER_SECONDS: Final = 60.0
BATCH_SECONDS: Final = 0.6
"""Time limit of one batch of queries."""


class PeerMissing(Exception):
    """A peer did not run; the message gives the reason (not installed, or a failure of the peer)."""


class Running:
    """A contender whose process is running."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.facts: dict[str, Any] = {}
        self._process = process
        self._rest = b""

    def build(self, files: Mapping[str, Any], seconds: float = BUILD_SECONDS) -> dict[str, Any]:
        self.facts = self.ask(seconds, do="build", folder=str(self.folder), **files)
        return self.facts

    def search(
        self, kind: str, setting: int, k: int, first: int, count: int, *, only: tuple[str, float] | None = None
    ) -> dict[str, Any]:
        """Runs single queries of one kind, for at most BATCH_SECONDS; returns latencies, rows and processor time."""
        asked = {"kind": kind, "setting": setting, "k": k, "first": first, "count": count, "only": only}
        return self.ask(ANSWER_SECONDS, do="search", seconds=BATCH_SECONDS, **asked)

    def batch(self, kind: str, setting: int, k: int, size: int) -> dict[str, Any]:
        """Runs queries one by one and in batches; returns the processor time of both, and the rows."""
        return self.ask(ANSWER_SECONDS, do="batch", kind=kind, setting=setting, k=k, size=size, seconds=2.0)

    def pin(self, core: int) -> None:
        self.ask(ANSWER_SECONDS, do="pin", core=core)

    def ask(self, seconds: float, /, **command: Any) -> dict[str, Any]:
        pipe = _pipe(self._process.stdin)
        try:
            pipe.write(json.dumps(command).encode() + b"\n")
            pipe.flush()
        except OSError:
            raise PeerMissing(f"its process ended with status {self._process.wait()}") from None
        return self.heard(seconds)

    def heard(self, seconds: float) -> dict[str, Any]:
        pipe, end = _pipe(self._process.stdout), time.monotonic() + seconds
        while b"\n" not in self._rest:
            waiting = select.poll()
            waiting.register(pipe, select.POLLIN)
            if not waiting.poll(max(0.0, end - time.monotonic()) * 1_000):
                raise PeerMissing(f"no answer within {seconds:.0f} seconds")
            part = os.read(pipe.fileno(), 1 << 20)
            if not part:
                raise PeerMissing(f"its process ended with status {self._process.wait()}")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        if "problem" in found:
            raise PeerMissing(found["problem"])
        return found


@contextmanager
def running(name: str, folder: Path | None = None, program: Path | None = None) -> Iterator[Running]:
    """Starts a contender in a temporary folder, and ends it afterwards. Raises PeerMissing.

    `program` is the interpreter of another environment than that of the entry. The process finds `benchmarks` in its
    folder: the packages beside it in this checkout stay out of the way of an installed release.
    """
    program = program or python(next(one for one in (*ENTRIES, *words.ENTRIES) if one.name == name))
    if not program.exists():
        raise PeerMissing("not installed: python -m benchmarks.peers install")
    environment = {**os.environ, **ONE_THREAD, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(dir=folder and folder.resolve(), ignore_cleanup_errors=True) as scratch:
        (Path(scratch) / "benchmarks").symlink_to(ROOT / "benchmarks")
        with (Path(scratch) / "said.txt").open("wb") as said:
            process = subprocess.Popen(
                [program, "-m", "benchmarks.peers.worker", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                cwd=scratch,
                env=environment,
                start_new_session=True,
            )
        found = Running(name, process, Path(scratch))
        try:
            found.heard(START_SECONDS)
            yield found
            with suppress(PeerMissing):
                found.ask(ANSWER_SECONDS, do="close")
        finally:
            _end(process, scratch)


def _end(process: subprocess.Popen[bytes], scratch: str) -> None:
    """Ends the process, its session, and daemons that left the session but name the scratch folder in their command."""
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(OSError):
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if scratch.encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise PeerMissing("it has no pipe")
    return pipe
