"""Parses untrusted documents in a child process, with limits on time, memory and answer size.

It knows no format; the child's program (`child`) has the table of parsers. A document that crashes its parser is an
InvalidDocument, and the next one gets a new child; `details["memory"]` marks a lack of memory.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from types import TracebackType
from typing import Self

import orjson

from aidre.engine.checkout import child_environment
from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.sandbox.child import ANSWER, DONE, FAULT, INVALID, LACKING, MAX_REASON_CHARS, PART, READY, REQUEST
from aidre.ingest.sandbox.walls import set_dumpable

PROGRAM = ("-m", "aidre.ingest.sandbox.child")
PARSE_SECONDS = 30.0
START_SECONDS = 60.0
"""Limit on the start of the child and the import of a parser; the time of a document counts after it."""

_INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE",
)  # fmt: skip
"""Environment variables that Python needs to find its libraries; all others, which may hold secrets, are removed."""

_BLOCK = 1 << 20
_MEMORY_SIGNALS = frozenset({signal.SIGABRT, signal.SIGKILL, signal.SIGTRAP, signal.SIGILL})
"""Signals that end a program whose request for memory fails, or that the kernel kills when memory runs out."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits per document: seconds of wall clock, bytes of address space (`memory`), bytes of the answer. A child is
    replaced after `documents`, or when it still holds `held` MiB after one."""

    seconds: float = PARSE_SECONDS
    memory: int = 1 << 30
    answer: int = 16 << 20
    documents: int = 500
    held: int = 256


class Sandbox:
    """A child process, started for the first document and kept for further ones; shared by threads.

    After `close` a further document starts a new child. With `requires_walls` no document is parsed on a system that
    lacks a wall (`walls`).
    """

    def __init__(self, limits: SandboxLimits | None = None, program: Sequence[str] = PROGRAM) -> None:
        self.limits = limits or SandboxLimits()
        self.requires_walls = False
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
        """End the child and all children with an open stream."""
        with self._lock:
            self._end()
            for child in self._streaming:
                child.kill()

    def parse(
        self, kind: str, content: bytes, options: Mapping[str, Json] | None = None, *, file: int | None = None
    ) -> Json:
        """Parse a document of a kind; returns the parser's JSON. Raises InvalidDocument with the reason.

        `file` is the descriptor of an open file for a parser that reads one itself.
        """
        limits = self.limits
        header = self._header(kind, options)
        with self._lock:
            child = self._ready_child()
            try:
                what, answer = child.ask(header, content, limits, file)
                result = orjson.loads(answer) if what == DONE else answer.decode("utf-8", "replace")
            except orjson.JSONDecodeError:
                self._end()
                raise InvalidDocument("cannot be read: the parser gave an invalid answer") from None
            except BaseException:  # also KeyboardInterrupt: the answer may still arrive
                self._end()
                raise
            if what in (FAULT, LACKING) or child.is_worn(limits):
                self._end()
        if what != DONE:
            raise _invalid(what, result)
        return result

    def stream(
        self, kind: str, content: bytes, options: Mapping[str, Json] | None = None, *, file: int | None = None
    ) -> Iterator[memoryview[int]]:
        """Parse a (small) document of a kind part by part; raises InvalidDocument.

        The limits on time and size apply to each part. The child serves no other document until the stream ends.
        """
        limits = self.limits
        with self._lock:
            child, self._child = self._ready_child(), None
            self._streaming.add(child)
        is_reusable = False
        try:
            header = self._header(kind, options, is_stream=True)
            what, reason = yield from child.stream(header, content, limits, file)
            is_reusable = what in (DONE, INVALID) and not child.is_worn(limits)
        finally:
            with self._lock:
                self._streaming.remove(child)
                if is_reusable and self._child is None:
                    self._child = child
                else:
                    child.end()
        if what != DONE:
            raise _invalid(what, reason)

    def _header(self, kind: str, options: Mapping[str, Json] | None, *, is_stream: bool = False) -> bytes:
        return orjson.dumps(
            {
                "kind": kind,
                "options": dict(options or {}),
                "seconds": self.limits.seconds,
                "memory": self.limits.memory,
                "answer": self.limits.answer,
                "stream": is_stream,
                "walls": self.requires_walls,
            }
        )

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


class _ClosedMemory:
    """While a child lives, memory and environment of this process are closed to others of its user (proc(5))."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children = 0
        self._was_dumpable = True

    def enter(self) -> None:
        with self._lock:
            self._children += 1
            if self._children == 1:
                self._was_dumpable = set_dumpable(is_dumpable=False)

    def leave(self) -> None:
        with self._lock:
            self._children -= 1
            if self._children == 0 and self._was_dumpable:
                set_dumpable(is_dumpable=True)


_CLOSED_MEMORY = _ClosedMemory()


class _Child:
    """One child process, which handles one request at a time."""

    def __init__(self, program: Sequence[str]) -> None:
        self._owner = os.getpid()
        self.documents = self.held = 0
        self._is_ended = False
        self._requests, child_end = socket.socketpair()
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-P", *program],
                stdin=child_end.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                close_fds=True,
                start_new_session=True,
                env=reduced_environment(),
            )
        _CLOSED_MEMORY.enter()
        assert self._process.stdout is not None
        self._to, self._from = self._requests.fileno(), self._process.stdout.fileno()
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BLOCK)
        self._requests.setblocking(False)
        with suppress(OSError, AttributeError):  # F_SETPIPE_SZ exists on Linux only
            fcntl.fcntl(self._from, fcntl.F_SETPIPE_SZ, _BLOCK)

    def is_usable(self) -> bool:
        """False after the child has ended, and in a forked process, which does not own the pipes."""
        return self._owner == os.getpid() and self._process.poll() is None

    def is_worn(self, limits: SandboxLimits) -> bool:
        return self.documents >= limits.documents or self.held >= limits.held

    def ask(self, header: bytes, content: bytes, limits: SandboxLimits, file: int | None) -> tuple[bytes, bytes]:
        """Send a request; returns the kind and the bytes of the answer. Raises InvalidDocument."""
        self.documents += 1
        unsent = self._send_head(header, content, file)
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
            if self._to in events and not self._send(unsent):
                poll.unregister(self._to)
            if self._from in events:
                block = os.read(self._from, _BLOCK)
                if not block:
                    raise self._failure(limits)
                received += block
                if not is_ready and received[:1] == READY and len(received) >= ANSWER.size:
                    del received[: ANSWER.size]
                    deadline, is_ready = monotonic() + limits.seconds, True
                if (answer := self._complete(received, limits)) is not None:
                    return answer

    def stream(
        self, header: bytes, content: bytes, limits: SandboxLimits, file: int | None
    ) -> Generator[memoryview[int], None, tuple[bytes, str]]:
        """Yield the parts; returns the kind of the end and its reason. Raises InvalidDocument."""
        self.documents += 1
        self._send_all(self._send_head(header, content, file), monotonic() + START_SECONDS)
        seconds = START_SECONDS
        while True:
            deadline = monotonic() + seconds
            what, self.held, size = ANSWER.unpack(self._read(ANSWER.size, deadline, limits))
            if what not in (READY, PART, DONE, INVALID, FAULT, LACKING) or size > limits.answer:
                raise InvalidDocument("cannot be read: the parser gave an invalid answer")
            seconds = limits.seconds
            part = self._read(size, deadline, limits)
            if what == PART:
                yield part
            elif what != READY:
                return what, bytes(part[: 4 * MAX_REASON_CHARS]).decode("utf-8", "replace")

    def _read(self, size: int, deadline: float, limits: SandboxLimits) -> memoryview[int]:
        """Exactly `size` bytes."""
        import numpy as np  # in the parent alone: parsers import this module, too

        received = np.empty(size, np.uint8).data
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        rest = received
        while rest:
            if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
                raise InvalidDocument(_too_long(limits.seconds))
            count = os.readv(self._from, [rest])
            if not count:
                raise self._failure(limits)
            rest = rest[count:]
        return received

    def _send_head(self, header: bytes, content: bytes, file: int | None) -> list[memoryview]:
        """Send the lengths, with the descriptor of a file; returns what is unsent."""
        head = memoryview(REQUEST.pack(len(header), len(content)) + header)
        sent = 0
        with suppress(BlockingIOError, ConnectionError):
            sent = socket.send_fds(self._requests, [head], [] if file is None else [file])
        return [part for part in (head[sent:], memoryview(content)) if part]

    def _send_all(self, unsent: list[memoryview], deadline: float) -> None:
        poll = select.poll()
        poll.register(self._to, select.POLLOUT)
        while unsent and self._send(unsent):
            if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
                raise InvalidDocument("cannot be read: no parser started")

    def _send(self, unsent: list[memoryview]) -> bool:
        """Send what the socket takes; returns whether more is unsent.

        A child that stopped reading is detected by its answer.
        """
        try:
            while unsent:
                unsent[0] = unsent[0][os.write(self._to, unsent[0][:_BLOCK]) :]
                if not unsent[0]:
                    del unsent[0]
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        return False

    def _complete(self, received: bytearray, limits: SandboxLimits) -> tuple[bytes, bytes] | None:
        """The answer, or None while it is incomplete."""
        if len(received) < ANSWER.size:
            return None
        what, held, size = ANSWER.unpack_from(received)
        max_size = limits.answer if what == DONE else 4 * MAX_REASON_CHARS
        if what not in (DONE, INVALID, FAULT, LACKING) or size > max_size or len(received) > ANSWER.size + size:
            raise InvalidDocument("cannot be read: the parser gave an invalid answer")
        if len(received) < ANSWER.size + size:
            return None
        self.held = held
        with memoryview(received) as view:
            return what, bytes(view[ANSWER.size :])

    def _failure(self, limits: SandboxLimits) -> InvalidDocument:
        """The error for a child that ended without an answer."""
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return InvalidDocument("cannot be read: the parser ended early")
        if code == -signal.SIGXCPU:
            return InvalidDocument(_too_long(limits.seconds))
        if code == -signal.SIGSYS:
            return InvalidDocument("cannot be read: it made its parser do what no parser may (SIGSYS)")
        if code >= 0:
            return InvalidDocument(f"cannot be read: the parser ended early (status {code})")
        names = {number.value: number.name for number in signal.Signals}
        crash = f"cannot be read: the parser crashed ({names.get(-code, -code)})"
        if -code in _MEMORY_SIGNALS:
            return InvalidDocument(f"{crash}, perhaps for lack of memory", memory=True)
        return InvalidDocument(crash)

    def end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            _CLOSED_MEMORY.leave()
        self._requests.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.kill()

    def kill(self) -> None:
        """Kill the process; a pending read then sees its end."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()


def _invalid(what: bytes, reason: str) -> InvalidDocument:
    return InvalidDocument(reason, memory=True) if what == LACKING else InvalidDocument(reason)


def reduced_environment() -> dict[str, str]:
    """The environment of a child of the sandbox: what Python needs to find its libraries, and no secrets."""
    present = child_environment()
    inherited = {name: present[name] for name in _INHERITED if name in present}
    # Few arenas and no threads: reserved address space counts against the limit.
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return inherited | one_thread | {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def _too_long(seconds: float) -> str:
    return f"took longer than {seconds:g} s to read: split it, or raise sources.parse_timeout"


SHARED = Sandbox()
"""The sandbox of all formats of documents; its child starts with the first document that needs one."""

TABLES = Sandbox(SandboxLimits(memory=3 << 29, answer=96 << 20))
"""The sandbox of columnar files. Its child has Arrow and more memory: Arrow reserves a quarter of a GiB of address
space, and a file of whole books may have pages of half a GiB."""


def set_rules(*, requires_walls: bool, seconds: float = PARSE_SECONDS) -> None:
    """For both sandboxes: whether they refuse to parse on a system that lacks a wall, and the time of a document."""
    for sandbox in (SHARED, TABLES):
        sandbox.requires_walls = requires_walls
        # A number of the configuration has a class of its own, which orjson does not write.
        sandbox.limits = replace(sandbox.limits, seconds=float(seconds))
