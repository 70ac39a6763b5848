"""Children to be killed: forked by a process that has imported everything, so that one costs milliseconds.

The process that forks runs nothing itself: what began threads cannot be forked. A child tells what it has done over a
socket, outside of every store, by a system call (sendto) that no fault is injected into.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from tests import ROOT

T = TypeVar("T")
Say = Callable[[str], None]
"""What a child acknowledges: one line, received even if the next instruction is its last."""

PRELOADED = ("tests.hostile.warm", "tests.hostile.papers")
FIRST_SECONDS = 0.1
"""About how long a writer takes to open a store and do its first step."""
PATIENCE = 600.0
"""Seconds; a child is heard of long before, unless the machine is stopped."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(PRELOADED))


class Child:
    """A process that runs one function, from `go` on, and what it has said."""

    def __init__(self, process: ForkServerProcess, channel: socket.socket) -> None:
        self.process = process
        self._channel = channel
        self._said = b""
        assert self._line() == "ready"

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def go(self) -> None:
        self._channel.sendall(b"g")

    def stop(self) -> None:
        """Stop it where it is (SIGSTOP), and return when it stands, or has come to its end."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)
        while not _states(self.pid) <= {"T", "Z", "X"}:
            os.sched_yield()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def killed_by(self) -> signal.Signals | None:
        """Waits for its end; the signal that ended it, None where it ended by itself."""
        self.process.join()
        code = self.process.exitcode
        assert code is not None
        return signal.Signals(-code) if code < 0 else None

    def hear(self) -> str:
        """The next line."""
        return self._line()

    def kill_after(self, lines: int, chance: random.Random) -> list[str]:
        """Kill it at a random moment of what follows its so many lines; all that it said."""
        return self._ended(lines, chance, self.kill)

    def stop_after(self, lines: int, chance: random.Random) -> list[str]:
        """The same, but it is stopped and not dead."""
        return self._ended(lines, chance, self.stop)

    def _ended(self, lines: int, chance: random.Random, end: Callable[[], None]) -> list[str]:
        """The moment lies within a step and a half, as long as those before it took: the machine may be slow."""
        began = time.monotonic()
        said: list[str] = []
        with suppress(AssertionError):  # it was done before
            for _ in range(lines):
                said.append(self.hear())
        a_step = (time.monotonic() - began) / lines if lines else FIRST_SECONDS
        time.sleep(chance.uniform(0.0, 1.5 * a_step))
        end()
        return said + self.heard()

    def heard(self) -> list[str]:
        """All that it said and has not been heard; call it when the child stands or is dead."""
        self._channel.setblocking(False)
        try:
            while piece := self._channel.recv(1 << 16):
                self._said += piece
        except (BlockingIOError, ConnectionResetError):
            pass
        finally:
            self._channel.settimeout(PATIENCE)
        *whole, self._said = self._said.split(b"\n")
        return [line.decode() for line in whole]

    def _line(self) -> str:
        while b"\n" not in self._said:
            piece = self._channel.recv(1 << 16)
            if not piece:
                self.process.join(PATIENCE)
                raise AssertionError(f"a child ended, exit status {self.process.exitcode}, and said nothing more")
            self._said += piece
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()


def _states(pid: int) -> set[str]:
    """The states of all threads of a process; a thread that is in the disk stands when it comes out of it."""
    found = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            found.add(thread.read_text(encoding="ascii").rpartition(")")[2].split()[0])
    return found


@contextmanager
def waiting(target: Callable[..., None], *arguments: Any) -> Iterator[Child]:
    """A child that waits for `go`, then calls `target(say, *arguments)`; it ends here at the latest."""
    _ready()
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    process = _context.Process(target=_child, args=(theirs, target, arguments), daemon=True)
    try:
        with theirs:
            process.start()
        yield Child(process, ours)
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
        process.close()
        ours.close()


@contextmanager
def started(target: Callable[..., None], *arguments: Any) -> Iterator[Child]:
    with waiting(target, *arguments) as child:
        child.go()
        yield child


def asked(function: Callable[..., T], *arguments: Any) -> T:
    """What a function gives in a child; AssertionError, with the child's traceback, for whatever goes wrong there."""
    receiving, sending = _context.Pipe(duplex=False)
    with receiving, sending, started(_answer, sending, function, arguments) as child:
        sending.close()
        try:
            result, problem = receiving.recv()
        except EOFError:
            raise AssertionError(f"{function.__name__} ended by {child.killed_by()!r}") from None
        if problem:
            raise AssertionError(problem)
    answer: T = result
    return answer


def _answer(_: Say, sending: Any, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    try:
        answer = function(*arguments), ""
    except BaseException:
        answer = None, traceback.format_exc()
    sending.send(answer)


def _child(channel: socket.socket, target: Callable[..., None], arguments: Sequence[Any]) -> None:
    say = _saying(channel)
    say("ready")
    if channel.recv(1):
        target(say, *arguments)


def _saying(channel: socket.socket) -> Say:
    return lambda line: channel.sendall(f"{line}\n".encode())


def _ready() -> None:
    """Start the process that forks: it must find these modules, and its children share two cores with others."""
    own = str(ROOT)
    path = os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH"))))
    with mock.patch.dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE"):
        forkserver.ensure_running()
