"""Promises (4.1.2, 4.2): work that continues after its request was answered, and check-in and cancellation by token.

A promise belongs to the caller that received it, and any worker of the store can answer for it: its state is in a table
on disk (`promise_table.py`), while its task runs in the worker that started it. If the store cannot be written, the
table is in the folder that the workers of a server share; without one, in memory, and ends with the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import orjson

from aidre.api.access import Caller
from aidre.api.http import read_message
from aidre.api.protocols.nlweb.ask_messages import AwaitMeta, AwaitRequest, PromiseState
from aidre.api.protocols.nlweb.nlweb_envelope import Code, NlwebFailure, PromiseResponse, to_failure
from aidre.api.protocols.nlweb.promise_table import MAX_PROMISES, PromiseResult, PromiseTable
from aidre.api.protocols.nlweb.query.ask import check_session_context, refuse_member
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

T = TypeVar("T")
A = TypeVar("A")

PROMISES_FILE = "nlweb-promises.sqlite"
TOKEN_BYTES = 32
RESULT_SECONDS = 600.0
"""How long a result is stored after the work has ended."""
HEARTBEAT_SECONDS = 0.5
"""Interval at which a worker stores progress and reads cancellations of other workers."""
WORKER_TIMEOUT_SECONDS = 30.0
"""Time without a heartbeat after which a worker counts as dead; longer than it takes to load a model."""
SHUTDOWN_SECONDS = 5.0
"""How long a closing process waits for work that ignores its cancellation."""
INITIAL_ESTIMATE_SECONDS = 5.0
"""Estimated duration of work before any has been measured."""
ESTIMATE_WEIGHT = 0.2
"""Weight of the latest duration in the moving average."""
_CANCELLED: Final[tuple[Code, str]] = ("CANCELLED", "this promise was cancelled")
DEFAULT_MESSAGE = "The answer is being worked on."


class PromiseProgress:
    """The progress that work reports about itself; it never decreases."""

    def __init__(self) -> None:
        self.fraction = 0.0
        self.message: str | None = None

    @property
    def state(self) -> tuple[float, str | None]:
        return self.fraction, self.message

    def advance(self, fraction: float, message: str | None = None) -> None:
        """`fraction` is between 0 and 1; values outside are clamped, NaN is ignored."""
        if not math.isnan(fraction):
            self.fraction = min(1.0, max(self.fraction, fraction))
        self.message = message or self.message


@dataclass(eq=False, slots=True)
class _PromiseJob:
    """A promise that runs in this worker. `stopped` is set if this worker is closing and ends the work itself."""

    task: asyncio.Task[Any]
    progress: PromiseProgress
    began: float
    stopped: bool = False


class Promises:
    """All promises of one store, as seen by one process. `timeout` bounds any work, in seconds.

    The table is in the first of `folders` that can be written, which must be the same for all workers.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        timeout: float,
        max_promises: int = MAX_PROMISES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._paths = [folder / PROMISES_FILE for folder in folders]
        self._timeout = timeout
        self._max_promises = max_promises
        self._clock = clock
        # SQLite blocks, and the event loop must not. One thread, so that one connection is enough.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="promises")
        self._table: PromiseTable | None = None
        self._jobs: dict[bytes, _PromiseJob] = {}
        self._recorders: set[asyncio.Task[None]] = set()
        self._maintenance: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._average_seconds = INITIAL_ESTIMATE_SECONDS

    async def open(self) -> None:
        """Starts the maintenance of promises of an earlier process, if there is a table."""
        if any(map(_exists, self._paths)):
            self._start_maintenance()

    async def close(self) -> None:
        """Cancels all work of this process; its promises become failures."""
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        while self._recorders and time.monotonic() < deadline:
            for job in self._jobs.values():
                job.stopped = True
                job.task.cancel()
            await asyncio.wait(self._recorders, timeout=0.1)
        if self._maintenance is not None:
            self._maintenance.cancel()
            with suppress(asyncio.CancelledError):
                await self._maintenance
        if self._table is not None:
            await self._in_thread(PromiseTable.close)
            self._table = None
        self._thread.shutdown(wait=False)

    async def run_or_promise(
        self,
        caller: Caller,
        work: Callable[[PromiseProgress], Awaitable[T]],
        render: Callable[[T], bytes],
        budget: float,
    ) -> T | PromiseResponse:
        """The result of the work, or a promise if it takes more than `budget` seconds.

        `render` makes the document that is stored for the caller. If no promise can be added, this waits for the work;
        a caller that disconnects meanwhile cancels it.
        """
        progress = PromiseProgress()
        task = asyncio.create_task(self._run(work, progress))
        try:
            if budget > 0:
                await asyncio.wait({task}, timeout=budget)
            if not task.done():
                promise = await self._promise(caller, _PromiseJob(task, progress, self._clock()), render)
                if promise is not None:
                    return promise
            return await task
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def handle_await(self, body: Mapping[str, Any], caller: Caller) -> PromiseResponse | bytes:
        """The response to a request to /await: the promise while the work runs, then its document."""
        request = read_message(body, AwaitRequest, refuse_member)
        session = check_session_context((request.meta or AwaitMeta()).session_context)
        token = str(request.promise_token)
        if request.action == "cancel":
            await self.cancel(caller, token)
        outcome = await self.checkin(caller, token)
        if session is not None and isinstance(outcome, PromiseResponse):
            return replace(outcome, meta={"session_context": session})
        return outcome

    async def checkin(self, caller: Caller, token: str) -> PromiseResponse | bytes:
        """The promise while the work runs, then its document; raises NlwebFailure for any other state."""
        digest, owner = _digest(token), _owner(caller)
        if digest in self._jobs:
            await self._heartbeat()  # so that another worker does not report less progress at the next check-in
        row = await self._query(PromiseTable.read, digest, owner, self._clock())
        if row is None:
            raise _unknown_promise()
        if row.state == "running":
            if self._clock() - row.seen > WORKER_TIMEOUT_SECONDS:
                message = "the worker that had promised this has ended: ask again"
                raise NlwebFailure("INTERNAL_ERROR", message, status=200)
            return self._promise_response(token, row.began, row.progress, row.message)
        if row.state == "kept" and row.document is not None:
            return row.document
        if row.state == "cancelled":
            raise NlwebFailure(*_CANCELLED)
        # The check-in itself succeeded even if the work failed, so the status is 200 (7.4).
        raise NlwebFailure(cast(Code, row.code), row.reason or "", status=200)

    async def cancel(self, caller: Caller, token: str) -> None:
        """Cancels the work or deletes its result; always raises NlwebFailure, CANCELLED or UNKNOWN_PROMISE."""
        digest = _digest(token)
        if not await self._query(PromiseTable.cancel, digest, _owner(caller), self._clock()):
            raise _unknown_promise()
        job = self._jobs.get(digest)
        if job is not None:
            job.task.cancel()
        raise NlwebFailure(*_CANCELLED)

    # -- jobs of this worker -----------------------------------------------------------------------------------

    async def _run(self, work: Callable[[PromiseProgress], Awaitable[T]], progress: PromiseProgress) -> T:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await work(progress)
        except TimeoutError:
            if not limit.expired():
                raise
            raise NlwebFailure("TIMEOUT", f"this took more than {self._timeout:g} seconds: ask for less") from None

    async def _promise(self, caller: Caller, job: _PromiseJob, render: Callable[[T], bytes]) -> PromiseResponse | None:
        """Adds a promise for a job; None if the table is full or cannot be written."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        added: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        recorder = asyncio.create_task(self._record(_digest(token), caller, job, render, added))
        self._recorders.add(recorder)
        recorder.add_done_callback(self._recorders.discard)
        return self._promise_response(token, job.began, *job.progress.state) if await added else None

    async def _record(
        self,
        digest: bytes,
        caller: Caller,
        job: _PromiseJob,
        render: Callable[[T], bytes],
        added: asyncio.Future[bool],
    ) -> None:
        """Adds a promise, waits for its work and stores the result. It outlives the request."""
        has_room = await self._add(digest, caller, job.began)
        if has_room:
            self._jobs[digest] = job
            self._start_maintenance()
        if not added.cancelled():
            added.set_result(has_room)
        if not has_room:
            return
        await asyncio.wait({job.task})
        if not job.task.cancelled():
            self._average_seconds += ESTIMATE_WEIGHT * (self._clock() - job.began - self._average_seconds)
        try:
            await self._in_thread(PromiseTable.finish, digest, _result_of(job, render), self._clock() + RESULT_SECONDS)
        except sqlite3.Error as error:  # without heartbeats it will count as lost
            logger.error("the result of a promise could not be stored: %s", error)
        finally:
            del self._jobs[digest]
            self._wake.set()

    async def _add(self, digest: bytes, caller: Caller, now: float) -> bool:
        account = _digest(caller.account or caller.name)
        expires = now + self._timeout + RESULT_SECONDS
        try:
            return await self._in_thread(PromiseTable.add, digest, _owner(caller), account, now, expires)
        except (sqlite3.Error, RuntimeError) as error:  # RuntimeError: the thread pool is closing
            logger.warning("a promise could not be added: %s", error)
            return False

    def _promise_response(self, token: str, began: float, progress: float, message: str | None) -> PromiseResponse:
        estimate = max(1, math.ceil(self._average_seconds - (self._clock() - began)))
        return PromiseResponse(
            PromiseState(
                token=token,
                estimated_time=estimate,
                message=message or DEFAULT_MESSAGE,
                progress=round(progress, 3),
            )
        )

    # -- maintenance -------------------------------------------------------------------------------------------

    def _start_maintenance(self) -> None:
        self._wake.set()
        if self._maintenance is None or self._maintenance.done():
            self._maintenance = asyncio.create_task(self._maintain())

    async def _maintain(self) -> None:
        """Sends heartbeats and deletes expired promises, as long as the table has any."""
        while True:
            wait: float | None = HEARTBEAT_SECONDS
            try:
                await self._heartbeat()
                next_expiry = await self._in_thread(PromiseTable.delete_expired, self._clock())
                if not self._jobs:
                    if next_expiry is None:
                        return
                    wait = max(HEARTBEAT_SECONDS, next_expiry - self._clock())
            except sqlite3.Error as error:
                logger.error("the table of promises cannot be updated: %s", error)
                wait = WORKER_TIMEOUT_SECONDS / 3
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._pause()

    async def _pause(self) -> None:
        """Waits for a wake-up; while jobs run, for the next heartbeat as well."""
        await self._wake.wait()
        if self._jobs:
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _heartbeat(self) -> None:
        """Stores the progress of all jobs and cancels those that were cancelled by another worker."""
        progress = {digest: job.progress.state for digest, job in self._jobs.items()}
        if not progress:
            return
        for digest in await self._in_thread(PromiseTable.record_heartbeats, progress, self._clock()):
            job = self._jobs.get(digest)
            if job is not None:
                job.task.cancel()

    # -- table -------------------------------------------------------------------------------------------------

    async def _query(self, method: Callable[..., A], *arguments: Any) -> A:
        """Calls a method of the table for a request; raises NlwebFailure if the table cannot be read."""
        try:
            return await self._in_thread(method, *arguments)
        except sqlite3.Error as error:
            logger.error("the table of promises cannot be read: %s", error)
            raise NlwebFailure("INTERNAL_ERROR", "promises cannot be read at the moment: try again later") from error

    async def _in_thread(self, method: Callable[..., A], *arguments: Any) -> A:
        """Calls a method of the table in its thread; raises sqlite3.Error."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._call, method, *arguments)

    def _call(self, method: Callable[..., A], *arguments: Any) -> A:
        if self._table is None:
            self._table = self._open_table()
        return method(self._table, *arguments)

    def _open_table(self) -> PromiseTable:
        for path in self._paths:
            try:
                return PromiseTable(path, self._max_promises)
            except (OSError, sqlite3.Error) as error:
                logger.warning("promises cannot be kept in %s: %s", path.parent.name, error)
        logger.warning("promises are in memory only and end with this process")
        return PromiseTable(None, self._max_promises)


def _exists(path: Path) -> bool:
    """Whether there is a table; not where the folder is another user's, which the first promise will report."""
    with suppress(OSError):
        return path.exists()
    return False


def _result_of(job: _PromiseJob, render: Callable[[T], bytes]) -> PromiseResult:
    """The result of a task that is done."""
    try:
        return render(job.task.result())
    except asyncio.CancelledError:
        return ("INTERNAL_ERROR", "the server has been stopped: ask again") if job.stopped else _CANCELLED
    except AidreError as error:
        failure = to_failure(error)
        return failure.failure_code, failure.message
    except Exception:  # the outermost handler of this work: its request has been answered
        logger.exception("promised work failed")
        return "INTERNAL_ERROR", "the work failed: ask again"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _owner(caller: Caller) -> bytes:
    """A digest of the caller and its grants: a caller with other grants cannot read its former promises."""
    identity = orjson.dumps([caller.name, sorted(caller.collections), caller.vectors])
    return hashlib.blake2b(identity, digest_size=16).digest()


def _unknown_promise() -> NlwebFailure:
    return NlwebFailure("UNKNOWN_PROMISE", "there is no such promise, or it has expired: ask again")
