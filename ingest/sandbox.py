"""Reads documents that nobody vouches for in a child process, under limits of time, memory and answer.

Knows no format: what a kind of document is made of, the child's program (sandboxed.py) knows. A document that
breaks its parser is an InvalidDocument, and the next one gets a new child; `details["memory"]` says that it lacked
memory.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Self

import numpy as np
import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.sandboxed import (
    ANSWER,
    DONE,
    FAULT,
    INVALID,
    LACKING,
    LONGEST_REASON,
    PART,
    READY,
    REQUEST,
)

PROGRAM = ("-m", "aidre.ingest.sandboxed")
START_SECONDS = 60.0
"""For the child to start and to import a parser; the clock of a document begins after it."""

_INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE",
)  # fmt: skip
"""What Python needs to find itself and its libraries; secrets of the operator stand in other variables."""

_PIECE = 1 << 20
_WANT = frozenset({signal.SIGABRT, signal.SIGKILL, signal.SIGTRAP, signal.SIGILL})
"""How programs end that are refused memory, or that the system picks when it has none left."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may cost (seconds by the clock, bytes of address space, bytes of the answer), and when a
    child is replaced: after some documents, or when it does not give its memory back and holds so many MiB."""

    seconds: float = 30.0
    memory: int = 1 << 30
    answer: int = 16 << 20
    documents: int = 500
    held: int = 256


class Sandbox:
    """A child process that is started for the first document and kept for those that follow. Shared by threads.

    After `close` a further document starts a new child.
    """

    def __init__(self, limits: Limits | None = None, program: Sequence[str] = PROGRAM) -> None:
        self.limits = limits or Limits()
        self._program = tuple(program)
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._streaming: set[_Child] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child, if there is one, and those that are in the middle of a stream."""
        with self._lock:
            self._end()
            for child in self._streaming:
                child.kill()

    def parse(self, kind: str, content: bytes, options: Mapping[str, Json] | None = None) -> Json:
        """What the parser of this kind makes of a document, as JSON; raises InvalidDocument with the reason."""
        limits = self.limits
        header = _header(kind, options, limits)
        with self._lock:
            child = self._ready_child()
            try:
                what, answer = child.ask(header, content, limits)
                found = orjson.loads(answer) if what == DONE else answer.decode("utf-8", "replace")
            except orjson.JSONDecodeError:
                self._end()
                raise InvalidDocument("cannot be read: the parser gave no answer that makes sense") from None
            except BaseException:  # also an interrupt: the answer may still be on its way
                self._end()
                raise
            if what in (FAULT, LACKING) or child.is_worn(limits):
                self._end()
        if what != DONE:
            raise _invalid(what, found)
        return found

    def stream(self, kind: str, content: bytes, options: Mapping[str, Json] | None = None) -> Iterator[memoryview[int]]:
        """What the parser of this kind makes of a (small) document, part by part; raises InvalidDocument.

        Time and answer are limited for each part. The child reads ahead, and nothing else until the end.
        """
        limits = self.limits
        with self._lock:
            child, self._child = self._ready_child(), None
            self._streaming.add(child)
        is_fit = False
        try:
            what, reason = yield from child.stream(_header(kind, options, limits, is_stream=True), content, limits)
            is_fit = what in (DONE, INVALID) and not child.is_worn(limits)
        finally:
            with self._lock:
                self._streaming.remove(child)
                if is_fit and self._child is None:
                    self._child = child
                else:
                    child.end()
        if what != DONE:
            raise _invalid(what, reason)

    def _ready_child(self) -> _Child:
        if self._child is not None and not self._child.is_usable():
            self._end()
        if self._child is None:
            self._child = _Child(self._program)
            atexit.register(self.close)
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()
            if not self._streaming:
                atexit.unregister(self.close)


class _Child:
    """One process: asked one thing at a time, ended once."""

    def __init__(self, program: Sequence[str]) -> None:
        self._owner = os.getpid()
        self.documents = self.held = 0
        self._process = subprocess.Popen(
            [sys.executable, "-P", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            close_fds=True,
            start_new_session=True,
            env=_environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        with suppress(OSError, AttributeError):  # where pipes have a size, and one may choose it
            fcntl.fcntl(self._from, fcntl.F_SETPIPE_SZ, _PIECE)

    def is_usable(self) -> bool:
        """Not after it has ended, nor in a process that was forked off: its pipes are the other one's."""
        return self._owner == os.getpid() and self._process.poll() is None

    def is_worn(self, limits: Limits) -> bool:
        return self.documents >= limits.documents or self.held >= limits.held

    def ask(self, header: bytes, content: bytes, limits: Limits) -> tuple[bytes, bytes]:
        """What came back, and its bytes; raises InvalidDocument when nothing does that could be trusted."""
        self.documents += 1
        pieces = [memoryview(REQUEST.pack(len(header), len(content)) + header), memoryview(content)]
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        poll.register(self._to, select.POLLOUT)
        received = bytearray()
        deadline = monotonic() + START_SECONDS
        is_ready = False
        while True:
            events = dict(poll.poll(max(0.0, deadline - monotonic()) * 1000))
            if not events:
                raise InvalidDocument(_too_long(limits.seconds) if is_ready else "cannot be read: no parser started")
            if self._to in events and not self._sent(pieces):
                poll.unregister(self._to)
            if self._from in events:
                piece = os.read(self._from, _PIECE)
                if not piece:
                    raise self._ended(limits)
                received += piece
                if not is_ready and received[:1] == READY and len(received) >= ANSWER.size:
                    del received[: ANSWER.size]
                    deadline, is_ready = monotonic() + limits.seconds, True
                if (answer := self._whole(received, limits)) is not None:
                    return answer

    def stream(
        self, header: bytes, content: bytes, limits: Limits
    ) -> Generator[memoryview[int], None, tuple[bytes, str]]:
        """The parts as they come, and what ended them; raises InvalidDocument when that cannot be trusted."""
        self.documents += 1
        with suppress(BrokenPipeError):  # an empty pipe takes it whole
            os.write(self._to, REQUEST.pack(len(header), len(content)) + header + content)
        seconds = START_SECONDS
        while True:
            deadline = monotonic() + seconds
            what, self.held, size = ANSWER.unpack(self._read(ANSWER.size, deadline, limits))
            if what not in (READY, PART, DONE, INVALID, FAULT, LACKING) or size > limits.answer:
                raise InvalidDocument("cannot be read: the parser gave no answer that makes sense")
            seconds = limits.seconds
            part = self._read(size, deadline, limits)
            if what == PART:
                yield part
            elif what != READY:
                return what, bytes(part[: 4 * LONGEST_REASON]).decode("utf-8", "replace")

    def _read(self, size: int, deadline: float, limits: Limits) -> memoryview[int]:
        """The next so many bytes."""
        received = np.empty(size, np.uint8).data
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        rest = received
        while rest:
            if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
                raise InvalidDocument(_too_long(limits.seconds))
            count = os.readv(self._from, [rest])
            if not count:
                raise self._ended(limits)
            rest = rest[count:]
        return received

    def _sent(self, pieces: list[memoryview]) -> bool:
        """Whether there is more to send. A child that no longer listens is found out by what it answers."""
        try:
            pieces[0] = pieces[0][os.write(self._to, pieces[0][:_PIECE]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        while pieces and not pieces[0]:
            del pieces[0]
        return bool(pieces)

    def _whole(self, received: bytearray, limits: Limits) -> tuple[bytes, bytes] | None:
        """The answer, once all of it is there."""
        if len(received) < ANSWER.size:
            return None
        what, held, size = ANSWER.unpack_from(received)
        most = limits.answer if what == DONE else 4 * LONGEST_REASON
        if what not in (DONE, INVALID, FAULT, LACKING) or size > most or len(received) > ANSWER.size + size:
            raise InvalidDocument("cannot be read: the parser gave no answer that makes sense")
        if len(received) < ANSWER.size + size:
            return None
        self.held = held
        with memoryview(received) as view:
            return what, bytes(view[ANSWER.size :])

    def _ended(self, limits: Limits) -> InvalidDocument:
        """Why the child ended without an answer."""
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return InvalidDocument("cannot be read: the parser ended early")
        if code == -signal.SIGXCPU:
            return InvalidDocument(_too_long(limits.seconds))
        if code >= 0:
            return InvalidDocument(f"cannot be read: the parser ended early (status {code})")
        names = {each.value: each.name for each in signal.Signals}
        crash = f"cannot be read: the parser crashed ({names.get(-code, -code)})"
        if -code in _WANT:
            return InvalidDocument(f"{crash}, perhaps for want of memory", memory=True)
        return InvalidDocument(crash)

    def end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self.kill()

    def kill(self) -> None:
        """What still reads from the process finds its end."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()


def _header(kind: str, options: Mapping[str, Json] | None, limits: Limits, *, is_stream: bool = False) -> bytes:
    return orjson.dumps(
        {
            "kind": kind,
            "options": dict(options or {}),
            "seconds": limits.seconds,
            "memory": limits.memory,
            "answer": limits.answer,
            "stream": is_stream,
        }
    )


def _invalid(what: bytes, reason: str) -> InvalidDocument:
    return InvalidDocument(reason, memory=True) if what == LACKING else InvalidDocument(reason)


def _environment() -> dict[str, str]:
    own = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # One arena and no threads: address space that is only reserved counts against the limit.
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return own | one_thread | {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def _too_long(seconds: float) -> str:
    return f"took longer than {seconds:g} s to read"


SHARED = Sandbox()
"""The one that the sources of a run read with; its child starts with the first document that needs one."""

TABLES = Sandbox(Limits(memory=3 << 29, answer=96 << 20))
"""The one for files that hold many documents each, by columns. Its child alone has Arrow, and more memory: Arrow takes
a quarter of a GiB of addresses, and a file of whole books may well have pages of half a GiB."""
