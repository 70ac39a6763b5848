"""What a server writes while it runs: one JSON object a line for each request, where that is switched on; of those
that were turned away at the door, one a second which says how many.

A line never holds what was asked: the route stands there as it is declared, not the path, since ids and names of
collections are in paths; no query, no header, no address. Of a defect its kind and its place are written, not its
message, which may repeat what a caller sent. A slow reader of the log stops no request: lines that wait too long are
dropped, and counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import TracebackType

import orjson

METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE"})
FLUSH_SECONDS = 0.2
TELL_SECONDS = 1.0
"""How long those who are turned away are counted, until one line tells of them."""
LINES_MOST = 20_000
"""Of lines that wait for a slow reader."""
PIPE_BYTES = 4_096
"""What a pipe takes as one piece, also where several workers write into it."""
WAIT_MILLISECONDS = 1_000
"""For whoever reads."""


class RequestLog:
    """Writes lines to a descriptor, together and from a thread. Call it in an event loop; `dropped` counts."""

    def __init__(
        self, descriptor: int, dropped: Callable[[int], None], *, flush_seconds: float = FLUSH_SECONDS
    ) -> None:
        self._descriptor = descriptor
        self._dropped = dropped
        self._flush_seconds = flush_seconds
        self._waiting: list[bytes] = []
        self._flushing: asyncio.Task[None] | None = None
        self._turned_away = 0

    def write(
        self,
        *,
        identifier: str,
        method: str,
        route: str,
        status: int,
        code: str | None,
        seconds: float,
        size: int,
        caller: str,
    ) -> None:
        """One request. `caller` is what may be said of who sent it, `identifier` one that was made here."""
        if len(self._waiting) >= LINES_MOST:
            self._dropped(1)
            return
        kind, who = _kind(method if method in METHODS else "other", route, status, code), _who(caller)
        line = (
            f'{{"time":"{stamp(time.time())}","request_id":"{identifier}",{kind}'
            f',"ms":{round(seconds * 1_000, 3)!r},"bytes":{size},"caller":{who}}}\n'
        )
        self._waiting.append(line.encode())
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    def turned_away(self) -> None:
        """One request that was answered before it was let in: a line of its own would cost more than that answer."""
        self._turned_away += 1
        if self._turned_away == 1:
            asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell)

    def _tell(self) -> None:
        count, self._turned_away = self._turned_away, 0
        if not count:
            return
        message = "all places were taken: so many requests were turned away"
        said = {"time": stamp(time.time()), "level": "warning", "message": message, "turned_away": count}
        self._waiting.append(orjson.dumps(said) + b"\n")
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        await asyncio.sleep(self._flush_seconds)
        while self._waiting:
            lines, self._waiting = self._waiting, []
            lost = await asyncio.to_thread(write_lines, self._descriptor, lines)
            if lost:
                self._dropped(lost)
        self._flushing = None

    async def close(self) -> None:
        """Writes what waits."""
        self._tell()
        if self._flushing is not None:
            await self._flushing


def write_lines(descriptor: int, lines: Sequence[bytes]) -> int:
    """Writes whole lines in as few pieces as a pipe takes whole; how many were lost."""
    written, piece, held = 0, b"", 0
    for line in (*lines, b""):
        if piece and (not line or len(piece) + len(line) > PIPE_BYTES):
            if not _take(descriptor, piece):
                break
            written, piece, held = written + held, b"", 0
        piece, held = piece + line, held + 1
    return len(lines) - written


def _take(descriptor: int, piece: bytes) -> bool:
    """Whether it could be written soon: nobody may read any more, or not for now, or the disk is full."""
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    try:
        while piece:
            if not ready.poll(WAIT_MILLISECONDS):
                return False
            piece = piece[os.write(descriptor, piece) :]
    except OSError:
        return False
    return True


class JsonLines(logging.Formatter):
    """Messages of the program itself, each as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, str | list[str]] = {
            "time": stamp(record.created),
            "level": record.levelname.lower(),
            "message": message_of(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            said |= {"error": record.exc_info[0].__name__, "where": place_of(record.exc_info[2])}
        return orjson.dumps(said, default=str).decode()


class Lines(logging.Formatter):
    """The same as a line for people."""

    def format(self, record: logging.LogRecord) -> str:
        said = message_of(record)
        if record.exc_info and record.exc_info[0] is not None:
            places = " < ".join(reversed(place_of(record.exc_info[2])))
            said += f": {record.exc_info[0].__name__} at {places}; AIDRE_TRACEBACK=1 shows more"
        return "".join(letter if letter.isprintable() else " " for letter in said)


def message_of(record: logging.LogRecord) -> str:
    """What a record says. asyncio shows below its first line what it was about: the error, with its message, too."""
    said = record.getMessage().strip()
    return said.partition("\n")[0] if record.name == "asyncio" else said


def place_of(trace: TracebackType | None) -> list[str]:
    """Where something went wrong, outermost first, as file:line function: none of the values that were there."""
    frames = traceback.extract_tb(trace)
    return [f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}" for frame in frames]


def speak(structured: bool) -> None:
    """Has the program's own messages go to standard error, in one of the two forms."""
    handler = logging.StreamHandler()
    if not os.environ.get("AIDRE_TRACEBACK"):
        handler.setFormatter(JsonLines() if structured else Lines())
    for name in ("aidre", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False


def stamp(moment: float) -> str:
    """Unix time in UTC, to the millisecond (RFC 3339)."""
    thousandths = int(moment * 1_000)
    return f"{_second(thousandths // 1_000)}.{thousandths % 1_000:03d}Z"


@lru_cache(maxsize=1_024)
def _kind(method: str, route: str, status: int, code: str | None) -> str:
    """The members that many requests have alike."""
    return orjson.dumps({"method": method, "route": route, "status": status, "code": code}).decode()[1:-1]


@lru_cache(maxsize=1_024)
def _who(caller: str) -> str:
    return orjson.dumps(caller or None).decode()


@lru_cache(maxsize=4)
def _second(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")
