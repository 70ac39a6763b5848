"""Promises (4.1.2, 4.2): work that goes on after its request was answered, and what may be asked about it.

A promise belongs to the caller that got it, and any worker of the store can answer for it: what is known of it stands
in a table on disk (promise_table.py), except the task itself, which lives in the worker that began it. Where the store
cannot be written the table is in memory and ends with the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

import orjson

from aidre.api.access import Caller
from aidre.api.nlweb.envelope import Code, NlwebFailure, Promised, failure_of, invalid
from aidre.api.nlweb.promise_table import MOST, Ended, PromiseTable, Row
from aidre.api.nlweb.request import read_session
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

T = TypeVar("T")
A = TypeVar("A")
Action: TypeAlias = Literal["checkin", "cancel"]

FILE = "nlweb-promises.sqlite"
TOKEN_BYTES = 32
KEPT_SECONDS = 600.0
"""How long a result waits for its caller."""
BEAT_SECONDS = 0.5
"""How often a worker shows that it lives, and hears of what was cancelled elsewhere."""
LOST_SECONDS = 30.0
"""Without a sign for so long a worker is taken for dead; long enough for one that loads a model."""
CLOSING_SECONDS = 5.0
"""How long the end of a process waits for work that does not let itself be cancelled."""
TYPICAL_SECONDS = 5.0
"""What work is taken to need before any has been measured."""
MESSAGE = "The answer is being worked on."


class Progress:
    """What the work says about itself while it goes on. It never goes back."""

    def __init__(self) -> None:
        self.reached = 0.0
        self.message: str | None = None

    def at(self, reached: float, message: str | None = None) -> None:
        """`reached` is between 0 and 1."""
        if not math.isnan(reached):
            self.reached = min(1.0, max(self.reached, reached))
        self.message = message or self.message


@dataclass(eq=False, slots=True)
class _Running:
    """A promise of this worker. `stopped` says that the worker itself has ended the work."""

    task: asyncio.Task[Any]
    progress: Progress
    stopped: bool = False


class Promises:
    """All promises of one store, seen from one process; `timeout` seconds is what any work may take."""

    def __init__(
        self, folder: Path | None, timeout: float, most: int = MOST, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = None if folder is None else folder / FILE
        self._timeout = timeout
        self._most = most
        self._clock = clock
        # One thread, so one connection: SQLite blocks, and the event loop must not.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="promises")
        self._table: PromiseTable | None = None
        self._running: dict[bytes, _Running] = {}
        self._keeping: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._typical = TYPICAL_SECONDS

    async def open(self) -> None:
        """Looks after what an earlier process has left; does nothing where there is nothing."""
        if self._path is not None and self._path.exists():
            self._watch()

    async def close(self) -> None:
        """Ends all work of this process; its promises become failures."""
        deadline = time.monotonic() + CLOSING_SECONDS
        while self._keeping and time.monotonic() < deadline:
            for running in self._running.values():
                running.stopped = True
                running.task.cancel()
            await asyncio.wait(self._keeping, timeout=0.1)
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        if self._table is not None:
            await self._do(PromiseTable.close)
            self._table = None
        self._thread.shutdown(wait=False)

    async def within(
        self,
        caller: Caller,
        work: Callable[[Progress], Awaitable[T]],
        render: Callable[[T], bytes],
        budget: float,
    ) -> T | Promised:
        """What the work comes to, or a promise of it where it takes more than `budget` seconds.

        `render` makes the document that is kept for the caller. Where no promise can be given the work is waited for;
        a caller that goes away meanwhile ends it.
        """
        progress = Progress()
        task = asyncio.create_task(self._timed(work, progress))
        try:
            if budget > 0:
                await asyncio.wait({task}, timeout=budget)
            if not task.done():
                promised = await self._promise(caller, _Running(task, progress), render)
                if promised is not None:
                    return promised
            return await task
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def awaited(self, body: Mapping[str, Any], caller: Caller) -> Promised | bytes:
        """The answer to a request for /await: the promise again, or the document it has come to."""
        token, action, session = read_await(body)
        if action == "cancel":
            await self.cancel(caller, token)
        known = await self.checkin(caller, token)
        if session is not None and isinstance(known, Promised):
            return replace(known, meta={"session_context": session})
        return known

    async def checkin(self, caller: Caller, token: str) -> Promised | bytes:
        """The promise again while the work goes on, then its document; raises NlwebFailure for all that failed."""
        digest, owner = _digest(token), _owner(caller)
        if digest in self._running:
            await self._beat()  # what is told here must not be ahead of what another worker tells next
        row = await self._asked(PromiseTable.read, digest, owner, self._clock())
        if row is None:
            raise _unknown()
        if row.state == "running":
            if self._clock() - row.seen > LOST_SECONDS:
                message = "the worker that had promised this has ended: ask again"
                raise NlwebFailure("INTERNAL_ERROR", message, status=200)
            return self._promised(token, row)
        if row.state == "kept" and row.document is not None:
            return row.document
        if row.state == "cancelled":
            raise _cancelled()
        # The request for it is answered well, whatever the work has come to (7.4).
        raise NlwebFailure(cast(Code, row.code), row.reason or "", status=200)

    async def cancel(self, caller: Caller, token: str) -> None:
        """Ends the work, or forgets its result; always raises NlwebFailure, CANCELLED or UNKNOWN_PROMISE."""
        digest = _digest(token)
        if not await self._asked(PromiseTable.cancel, digest, _owner(caller), self._clock()):
            raise _unknown()
        running = self._running.get(digest)
        if running is not None:
            running.task.cancel()
        raise _cancelled()

    async def _timed(self, work: Callable[[Progress], Awaitable[T]], progress: Progress) -> T:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await work(progress)
        except TimeoutError:
            if not limit.expired():
                raise
            raise NlwebFailure("TIMEOUT", f"this took more than {self._timeout:g} seconds: ask for less") from None

    async def _promise(self, caller: Caller, running: _Running, render: Callable[[T], bytes]) -> Promised | None:
        """None where there is no room for one, or no disk."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        added: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()
        keeping = asyncio.create_task(self._keep(_digest(token), _owner(caller), running, render, added))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        row = await added
        return None if row is None else self._promised(token, row)

    async def _keep(
        self,
        digest: bytes,
        owner: bytes,
        running: _Running,
        render: Callable[[T], bytes],
        added: asyncio.Future[Row | None],
    ) -> None:
        """Stands beside the work from the promise on, and writes down what came of it."""
        now = self._clock()
        expires = now + self._timeout + KEPT_SECONDS
        try:
            room = await self._do(PromiseTable.add, digest, owner, now, expires)
        except (sqlite3.Error, RuntimeError) as error:  # the latter where this process is ending
            logger.warning("a promise could not be given: %s", error)
            room = False
        if room:
            self._running[digest] = running
            self._watch()
        if not added.cancelled():
            reached, message = running.progress.reached, running.progress.message
            added.set_result(Row("running", reached, message, now, now, None, None, None) if room else None)
        if not room:
            return
        await asyncio.wait({running.task})
        if not running.task.cancelled():
            self._typical += 0.2 * (self._clock() - now - self._typical)
        try:
            await self._do(PromiseTable.end, digest, _ended(running, render), self._clock() + KEPT_SECONDS)
        except sqlite3.Error as error:  # it is taken for lost after a while, which it is
            logger.error("the result of a promise could not be kept: %s", error)
        finally:
            del self._running[digest]
            self._woken.set()

    def _promised(self, token: str, row: Row) -> Promised:
        left = self._typical - (self._clock() - row.began)
        return Promised(token, round(row.progress, 3), max(1, math.ceil(left)), row.message or MESSAGE)

    def _watch(self) -> None:
        self._woken.set()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look_after())

    async def _look_after(self) -> None:
        """Goes on while any promise is in the table: shows that its worker lives, removes what expires."""
        while True:
            wait: float | None = BEAT_SECONDS
            try:
                await self._beat()
                following = await self._do(PromiseTable.sweep, self._clock())
                if not self._running:
                    if following is None:
                        return
                    wait = max(BEAT_SECONDS, following - self._clock())
            except sqlite3.Error as error:
                logger.error("the promises cannot be looked after: %s", error)
                wait = LOST_SECONDS / 3
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._pause()

    async def _pause(self) -> None:
        """Until there is more to look after; while work goes on, until the next beat."""
        await self._woken.wait()
        if self._running:
            await asyncio.sleep(BEAT_SECONDS)

    async def _beat(self) -> None:
        reached = {
            digest: (running.progress.reached, running.progress.message) for digest, running in self._running.items()
        }
        if not reached:
            return
        for digest in await self._do(PromiseTable.beat, reached, self._clock()):
            running = self._running.get(digest)
            if running is not None:
                running.task.cancel()

    async def _asked(self, verb: Callable[..., A], *arguments: Any) -> A:
        try:
            return await self._do(verb, *arguments)
        except sqlite3.Error as error:
            logger.error("the promises cannot be read: %s", error)
            raise NlwebFailure("INTERNAL_ERROR", "promises cannot be read at the moment: try again later") from error

    async def _do(self, verb: Callable[..., A], *arguments: Any) -> A:
        """Calls a method of the table, in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._call, verb, *arguments)

    def _call(self, verb: Callable[..., A], *arguments: Any) -> A:
        if self._table is None:
            self._table = self._opened()
        return verb(self._table, *arguments)

    def _opened(self) -> PromiseTable:
        try:
            return PromiseTable(self._path, self._most)
        except (OSError, sqlite3.Error) as error:
            logger.warning("promises end with this process, and no other one knows them: %s", error)
            return PromiseTable(None, self._most)


def read_await(body: Mapping[str, Any]) -> tuple[str, Action, Mapping[str, Any] | None]:
    """The token, the action and the session of a request for /await; raises NlwebFailure."""
    token, action, meta = body.get("promise_token"), body.get("action"), body.get("meta")
    if type(token) is not str or not token.strip():
        raise invalid("promise_token must be the token of a promise")
    if action not in ("checkin", "cancel"):
        raise invalid("action must be checkin or cancel")
    if meta is not None and type(meta) is not dict:
        raise invalid("meta must be an object")
    return token, action, read_session(meta or {})


def _ended(running: _Running, render: Callable[[T], bytes]) -> Ended:
    """What has come of work that is done."""
    try:
        return Ended("kept", render(running.task.result()))
    except asyncio.CancelledError:
        if running.stopped:
            return Ended("failed", code="INTERNAL_ERROR", reason="the server has been stopped: ask again")
        return Ended("cancelled")
    except AidreError as error:
        failure = failure_of(error)
        return Ended("failed", code=failure.failure, reason=failure.message)
    except Exception:  # the outermost handler of this work: its request was answered long ago
        logger.exception("promised work failed")
        return Ended("failed", code="INTERNAL_ERROR", reason="the work failed: ask again")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _owner(caller: Caller) -> bytes:
    """A caller whose grants have changed is another one."""
    facts = orjson.dumps([caller.name, sorted(caller.collections), caller.vectors])
    return hashlib.blake2b(facts, digest_size=16).digest()


def _unknown() -> NlwebFailure:
    return NlwebFailure("UNKNOWN_PROMISE", "there is no such promise, or it has expired: ask again")


def _cancelled() -> NlwebFailure:
    return NlwebFailure("CANCELLED", "this promise was cancelled")
