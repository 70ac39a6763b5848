"""Runs an iterator in a thread of its own, ahead of its consumer. Pays if the iterator releases the GIL."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _End(Generic[T]):
    """Follows the last item; `error` is the exception that ended the iterator, if any."""

    error: BaseException | None


def prefetch(items: Iterable[T], depth: int, stop: Callable[[], None] | None = None) -> Generator[T]:
    """The same items in order, up to `depth` of them made in advance; an error is raised at its place in the order.

    The thread ends with the items, or at most about `_POLL_SECONDS` after the consumer closes the generator. On
    closing, `stop` is called to interrupt an iterator that is blocked.
    """
    items_ready: queue.Queue[T | _End[T]] = queue.Queue(depth)
    closed = threading.Event()

    def put(item: T | _End[T]) -> bool:
        while not closed.is_set():
            try:
                items_ready.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def run() -> None:
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:  # of any kind: the consumer raises it
            put(_End(error))
        else:
            put(_End(None))

    thread = threading.Thread(target=run, name="read-ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := items_ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        closed.set()
        if stop is not None:
            stop()
        thread.join()
