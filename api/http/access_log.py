"""The access log, and the formats of the program's own messages.

With `server.log = "requests"` each request is one line of JSON. Requests that the connection itself rejects at the
concurrency limit share one line per second, which has their count.

A line holds nothing that a caller sent: the declared route instead of the path (paths contain ids and names of
collections), no query, no header, no address. An unexpected error is logged by its class and location without its
message, which may repeat what a caller sent. A slow reader of the log never blocks a request: lines beyond
`MAX_PENDING_LINES` are dropped and counted.
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
REJECTED_SECONDS = 1.0
"""Interval of the lines that count rejected requests."""
MAX_PENDING_LINES = 20_000
"""Lines kept for a slow reader."""
PIPE_BYTES = 4_096
"""PIPE_BUF: a pipe takes this much atomically, also from several workers."""
WRITE_MILLISECONDS = 1_000
"""Time-out for the reader of a full pipe."""


class AccessLog:
    """Collects lines and writes them to a descriptor in a thread. Call it in an event loop.

    `dropped` is called with the number of lines that were lost.
    """

    def __init__(
        self, descriptor: int, dropped: Callable[[int], None], *, flush_seconds: float = FLUSH_SECONDS
    ) -> None:
        self._descriptor = descriptor
        self._dropped = dropped
        self._flush_seconds = flush_seconds
        self._pending: list[bytes] = []
        self._flushing: asyncio.Task[None] | None = None
        self._rejected = 0

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
        """Logs a request. `caller` is `Caller.logged`, `identifier` the server's own request id, `size` is in bytes."""
        if len(self._pending) >= MAX_PENDING_LINES:
            self._dropped(1)
            return
        members = _shared_members(method if method in METHODS else "other", route, status, code)
        line = (
            f'{{"time":"{utc_timestamp(time.time())}","request_id":"{identifier}",{members}'
            f',"ms":{round(seconds * 1_000, 3)!r},"bytes":{size},"caller":{_caller_json(caller)}}}\n'
        )
        self._append(line.encode())

    def count_rejected(self) -> None:
        """Counts a request that was rejected before the application; a line each would cost more than the answer."""
        self._rejected += 1
        if self._rejected == 1:
            asyncio.get_running_loop().call_later(REJECTED_SECONDS, self._write_rejected)

    def _write_rejected(self) -> None:
        count, self._rejected = self._rejected, 0
        if not count:
            return
        message = "requests were rejected at the concurrency limit"
        members = {"time": utc_timestamp(time.time()), "level": "warning", "message": message, "turned_away": count}
        self._append(orjson.dumps(members) + b"\n")

    def _append(self, line: bytes) -> None:
        self._pending.append(line)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        while self._pending:
            await asyncio.sleep(self._flush_seconds)  # under load, too: a thread for each line would cost a search
            lines, self._pending = self._pending, []
            lost = await asyncio.to_thread(write_lines, self._descriptor, lines)
            if lost:
                self._dropped(lost)
        self._flushing = None

    async def close(self) -> None:
        """Writes the pending lines."""
        self._write_rejected()
        if self._flushing is not None:
            await self._flushing


def write_lines(descriptor: int, lines: Sequence[bytes]) -> int:
    """Writes whole lines in pieces of at most `PIPE_BYTES`; returns the number of lines lost."""
    written, piece, piece_lines = 0, b"", 0
    for line in (*lines, b""):
        if piece and (not line or len(piece) + len(line) > PIPE_BYTES):
            if not _write_piece(descriptor, piece):
                break
            written, piece, piece_lines = written + piece_lines, b"", 0
        piece, piece_lines = piece + line, piece_lines + 1
    return len(lines) - written


def _write_piece(descriptor: int, piece: bytes) -> bool:
    """False if the reader is gone or too slow, or the disk is full."""
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    try:
        while piece:
            if not ready.poll(WRITE_MILLISECONDS):
                return False
            piece = piece[os.write(descriptor, piece) :]
    except OSError:
        return False
    return True


class JsonFormatter(logging.Formatter):
    """Formats the program's own messages as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, str | list[str]] = {
            "time": utc_timestamp(record.created),
            "level": record.levelname.lower(),
            "message": message_of(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            members |= {"error": record.exc_info[0].__name__, "where": trace_locations(record.exc_info[2])}
        return orjson.dumps(members, default=str).decode()


class TextFormatter(logging.Formatter):
    """Formats the same as one line of text without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        line = message_of(record)
        if record.exc_info and record.exc_info[0] is not None:
            locations = " < ".join(reversed(trace_locations(record.exc_info[2])))
            line += f": {record.exc_info[0].__name__} at {locations}; AIDRE_TRACEBACK=1 shows more"
        return "".join(letter if letter.isprintable() else " " for letter in line)


def message_of(record: logging.LogRecord) -> str:
    """The message of a record. asyncio's later lines repeat the error with its message, so only the first is kept."""
    message = record.getMessage().strip()
    return message.partition("\n")[0] if record.name == "asyncio" else message


def trace_locations(trace: TracebackType | None) -> list[str]:
    """The frames of a traceback as "folder/file:line function", outermost first, without values."""
    frames = traceback.extract_tb(trace)
    return [f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}" for frame in frames]


def configure_logging(structured: bool) -> None:
    """Sends the messages of aidre, uvicorn and asyncio to standard error, as JSON if `structured`."""
    handler = logging.StreamHandler()
    if not os.environ.get("AIDRE_TRACEBACK"):
        handler.setFormatter(JsonFormatter() if structured else TextFormatter())
    for name in ("aidre", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False


def utc_timestamp(moment: float) -> str:
    """Unix time as RFC 3339 in UTC, cut to milliseconds."""
    milliseconds = int(moment * 1_000)
    return f"{_utc_second(milliseconds // 1_000)}.{milliseconds % 1_000:03d}Z"


@lru_cache(maxsize=1_024)
def _shared_members(method: str, route: str, status: int, code: str | None) -> str:
    """The JSON members that many lines share, without braces."""
    return orjson.dumps({"method": method, "route": route, "status": status, "code": code}).decode()[1:-1]


@lru_cache(maxsize=1_024)
def _caller_json(caller: str) -> str:
    return orjson.dumps(caller or None).decode()


@lru_cache(maxsize=4)
def _utc_second(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")
