"""The server's side of writing: requests go to the writer process, which is started for the first one."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

import msgspec

from aidre.api.config import CollectionSettings, Embedding, Settings, Space, StoreSettings
from aidre.api.http import Unavailable
from aidre.api.writing.write_messages import AnyRequest, WriterReply
from aidre.engine.checkout import child_environment
from aidre.engine.errors import AidreError, ModelUnavailable, StorageFailed, StoreLocked

logger = logging.getLogger("aidre")

MAX_WAITING_BYTES = 128 << 20
"""Bodies of requests that are not answered yet."""
RETRY_SECONDS = 5
RETRY_EMBEDDING_SECONDS = 30
RETRY_FULL_SECONDS = 30
CLOSE_SECONDS = 25.0
"""Time for what was received, when the server ends; then the process is killed."""

MakeRequest: TypeAlias = Callable[..., AnyRequest]
"""A request from its `number` and the time when it `arrived`."""


class Start(msgspec.Struct, frozen=True):
    """The first frame: the store, the process id of the server, and what of its settings concerns writing."""

    store: str
    server: int
    declared_spaces: tuple[Space, ...]
    collections: Mapping[str, CollectionSettings]
    embedding: Embedding
    engine: StoreSettings = StoreSettings()

    @property
    def settings(self) -> Settings:
        return Settings(
            declared_spaces=self.declared_spaces,
            collections=self.collections,
            embedding=self.embedding,
            store=self.engine,
        )


def write_start(start: Start) -> bytes:
    """The first frame; secrets and durations are strings and numbers in it. It goes to the writer process alone."""
    return msgspec.msgpack.encode(
        start, enc_hook=lambda value: float(value) if isinstance(value, float) else str(value)
    )


def read_start(frame: bytes) -> Start:
    return msgspec.msgpack.decode(frame, type=Start, dec_hook=lambda kind, value: kind(value))


class DocumentWrites:
    """One per process. Requests of several server processes meet at the lock of the collection."""

    def __init__(self, store: Path, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._numbers = itertools.count(1)
        self._waiting_bytes = 0
        self._starting = asyncio.Lock()
        self._process: _Process | None = None

    async def write(self, make: MakeRequest, size: int) -> WriterReply:
        """Send a request whose body has `size` bytes; what is answered without an error is durable.

        Raises the errors of the engine, and Unavailable: with nothing kept where another writer holds the lock, the
        texts cannot be embedded, the disk refuses, or too much waits; with an unknown outcome where the writer process
        ended, or the disk or another engine did not confirm a commit.
        """
        if self._waiting_bytes + size > MAX_WAITING_BYTES:
            raise Unavailable("too much is waiting to be written: come back as Retry-After says", retry=RETRY_SECONDS)
        self._waiting_bytes += size
        try:
            process = await self._running()
            answer = await process.ask(make(number=next(self._numbers), arrived=time.monotonic()))
        finally:
            self._waiting_bytes -= size
        if answer.failure is not None:
            error = answer.failure.to_error()
            raise _refusal(error) from error
        return answer

    async def _running(self) -> _Process:
        async with self._starting:
            if self._process is not None and self._process.has_ended:
                await asyncio.to_thread(self._process.close)
                self._process = None
            if self._process is None:
                self._process = await asyncio.to_thread(_Process, self._store, self._settings)
                self._process.follow(asyncio.get_running_loop())
            return self._process

    async def close(self) -> None:
        """Wait until the process has written what it received."""
        if self._process is not None:
            await asyncio.to_thread(self._process.close)


class _Process:
    """A writer process and the requests that it has not answered."""

    def __init__(self, store: Path, settings: Settings) -> None:
        own_end, child_end = socket.socketpair()
        with child_end:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "aidre.api.writing.writer_process", str(child_end.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[child_end.fileno()],
                env=child_environment(),
            )
        self._socket = own_end
        self._connection = Connection(os.dup(own_end.fileno()))
        start = Start(
            str(store),
            os.getpid(),
            settings.declared_spaces,
            collections=settings.collections,
            embedding=settings.embedding,
            engine=settings.store,
        )
        self._connection.send_bytes(write_start(start))
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="to writer")
        self._answers: dict[int, asyncio.Future[WriterReply]] = {}
        self.has_ended = False

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        self._reader = threading.Thread(target=self._read, args=(loop,), name="from writer", daemon=True)
        self._reader.start()

    async def ask(self, request: AnyRequest) -> WriterReply:
        loop = asyncio.get_running_loop()
        answer = self._answers[request.number] = loop.create_future()
        try:
            if self.has_ended:
                raise _ended()
            await loop.run_in_executor(self._sender, self._send, request)
            settled: WriterReply = await answer
            return settled
        finally:
            self._answers.pop(request.number, None)

    def close(self) -> None:
        self._sender.shutdown()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)  # it reads to the end, and answers
        try:
            self._child.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._socket.close()
        self._reader.join()
        self._connection.close()

    def _send(self, request: AnyRequest) -> None:
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(request))
        except OSError as error:
            raise _ended() from error

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: hand each answer to the event loop, until the process ends."""
        try:
            while True:
                answer = msgspec.msgpack.decode(self._connection.recv_bytes(), type=WriterReply)
                loop.call_soon_threadsafe(self._settle, answer)
        except (EOFError, OSError, RuntimeError):  # RuntimeError: the event loop is closed
            self.has_ended = True
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._fail_all)

    def _settle(self, answer: WriterReply) -> None:
        future = self._answers.get(answer.number)
        if future is not None and not future.done():
            future.set_result(answer)

    def _fail_all(self) -> None:
        for future in self._answers.values():
            if not future.done():
                future.set_exception(_ended())


def _refusal(error: AidreError) -> AidreError:
    """What the caller is told, who learns nothing of the operator's disk but that it is full, and of no endpoint."""
    if isinstance(error, StoreLocked):
        return Unavailable(f"nothing was written: {error.message}", retry=RETRY_SECONDS, code=error.code)
    if isinstance(error, ModelUnavailable):
        logger.error("documents are not embedded: %s", error)
        message = "nothing was written, because the texts cannot be embedded: come back as Retry-After says"
        return Unavailable(message, retry=RETRY_EMBEDDING_SECONDS)
    if not isinstance(error, StorageFailed):
        return error
    logger.error("documents are not written: %s", error)
    if "unconfirmed" in error.details:
        return _unknown("the commit was not confirmed")
    if error.details.get("reason") == "full":
        message = "nothing was written, because the disk of the server is full: come back as Retry-After says"
        return Unavailable(message, retry=RETRY_FULL_SECONDS)
    return Unavailable("nothing was written, because the store refuses: come back as Retry-After says")


def _ended() -> Unavailable:
    return _unknown("the writer ended while it worked")


def _unknown(cause: str) -> Unavailable:
    return Unavailable(f"{cause}, so this may be written or not: send it again, it is written once", retry=1)
