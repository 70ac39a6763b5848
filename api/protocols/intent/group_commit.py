"""Group commit: items that arrive while a commit runs share the next one, and so one fsync.

It knows nothing of what is committed: the caller passes the function that commits a batch.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

logger = logging.getLogger("aidre")

T = TypeVar("T")
R = TypeVar("R")

Pending: TypeAlias = "tuple[T, asyncio.Future[R]]"


class GroupCommit(Generic[T, R]):
    """Commits items in order of arrival, in one thread of its own, and returns each sender its result.

    `commit` takes a batch and returns one result per item. `after_commit` runs after every commit, once the results
    have been sent: for work that no sender waits for.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[T]], Sequence[R]],
        name: str,
        after_commit: Callable[[], None] | None = None,
    ) -> None:
        self._commit = commit
        self._after_commit = after_commit
        self._queue: SimpleQueue[Pending[T, R] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def submit(self, item: T) -> R:
        """The result of the item; raises what its commit raised. A cancelled sender does not affect the others."""
        if self._thread.ident is None:
            self._thread.start()
        elif not self._thread.is_alive():
            raise RuntimeError("the group commit is closed")
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._queue.put((item, future))
        return await future

    def _run(self) -> None:
        running = True
        while running:
            queued = [self._queue.get()]
            while not self._queue.empty():
                queued.append(self._queue.get())
            batch = [pending for pending in queued if pending is not None]
            running = len(batch) == len(queued)
            if batch:
                self._commit_batch(batch)

    def _commit_batch(self, batch: Sequence[Pending[T, R]]) -> None:
        results: Sequence[R] | Exception
        try:
            results = self._commit([item for item, _ in batch])
        except Exception as error:  # the outermost handler of this thread: every sender has to receive the error
            results = error
        with suppress(RuntimeError):  # the event loop has ended, and the senders with it
            batch[0][1].get_loop().call_soon_threadsafe(_resolve, [future for _, future in batch], results)
        try:
            if self._after_commit is not None:
                self._after_commit()
        except Exception:  # the outermost handler too, but no sender waits for this
            logger.exception("the work after a commit failed")

    def close(self) -> None:
        """Block until every submitted item is committed."""
        if self._thread.ident is not None:
            self._queue.put(None)
            self._thread.join()


def _resolve(futures: Sequence[asyncio.Future[R]], results: Sequence[R] | Exception) -> None:
    for index, future in enumerate(futures):
        if future.cancelled():
            continue
        if isinstance(results, Exception):
            future.set_exception(results)
        else:
            future.set_result(results[index])
