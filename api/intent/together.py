"""What waits together goes to disk together: one turn for all who came while the last one ran."""

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

Entry: TypeAlias = "tuple[T, asyncio.Future[R]]"


class Together(Generic[T, R]):
    """Hands items over in order, in a thread of its own, and gives each sender its result. `after` a turn, when the
    results are on their way, is time for what nobody waits for."""

    def __init__(
        self, turn: Callable[[Sequence[T]], Sequence[R]], name: str, after: Callable[[], None] | None = None
    ) -> None:
        self._turn = turn
        self._after = after
        self._waiting: SimpleQueue[Entry[T, R] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    async def through(self, item: T) -> R:
        """The result of an item; raises what its turn raised. A sender that goes away takes nothing from the others."""
        if self._thread.ident is None:
            self._thread.start()
        elif not self._thread.is_alive():
            raise RuntimeError("it was closed: nobody would serve this")
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.put((item, done))
        return await done

    def _work(self) -> None:
        going_on = True
        while going_on:
            entries = [self._waiting.get()]
            while not self._waiting.empty():
                entries.append(self._waiting.get())
            batch = [entry for entry in entries if entry is not None]
            going_on = len(batch) == len(entries)
            if batch:
                self._serve(batch)

    def _serve(self, batch: Sequence[Entry[T, R]]) -> None:
        results: Sequence[R] | Exception
        try:
            results = self._turn([item for item, _ in batch])
        except Exception as error:  # the outermost handler of this thread: whoever waits must hear of it
            results = error
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            batch[0][1].get_loop().call_soon_threadsafe(_settle, [done for _, done in batch], results)
        try:
            if self._after is not None:
                self._after()
        except Exception:  # as above, but that nobody waits
            logger.exception("what follows a turn failed")

    def close(self) -> None:
        """Blocks until all that was handed over is through."""
        if self._thread.ident is not None:
            self._waiting.put(None)
            self._thread.join()


def _settle(waiting: Sequence[asyncio.Future[R]], results: Sequence[R] | Exception) -> None:
    for place, done in enumerate(waiting):
        if done.cancelled():
            continue
        if isinstance(results, Exception):
            done.set_exception(results)
        else:
            done.set_result(results[place])
