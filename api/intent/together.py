"""What waits together goes to disk together: one write and one fsync for all who asked while the last one ran."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Together(Generic[T]):
    """Hands items over in order, in a thread of its own, and tells each sender when its own are through."""

    def __init__(self, flush: Callable[[Sequence[T]], None], name: str) -> None:
        self._flush = flush
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting: list[tuple[T, asyncio.Future[None]]] = []
        self._draining: asyncio.Task[None] | None = None

    async def through(self, item: T) -> None:
        """Returns when the item was flushed; raises what flushing it raised."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_retrieved)
        self._waiting.append((item, done))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        await asyncio.shield(done)  # a sender that goes away takes nothing from the others

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            failure: Exception | None = None
            try:
                await loop.run_in_executor(self._thread, self._flush, [item for item, _ in batch])
            except Exception as error:  # the outermost handler of this task: whoever waits must hear of it
                failure = error
            for _, done in batch:
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
        self._draining = None

    def close(self) -> None:
        self._thread.shutdown(wait=True)


def _retrieved(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()  # asyncio complains of exceptions that nobody looked at
