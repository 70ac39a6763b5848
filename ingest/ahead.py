"""Reads ahead: an iterator runs in a thread of its own while its items are used. Pays where reading leaves the GIL."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
_PATIENCE = 0.1


@dataclass(frozen=True, slots=True)
class _End(Generic[T]):
    """After the last item; `error` is what ended the reading, if anything did."""

    error: BaseException | None


def ahead(items: Iterable[T], room: int, stop: Callable[[], None] | None = None) -> Generator[T]:
    """The same items in order, up to `room` of them read before they are asked for; errors come where they arose.

    The thread ends when the items do, or soon after the consumer lets go; `stop` then ends what it may wait for.
    """
    waiting: queue.Queue[T | _End[T]] = queue.Queue(room)
    abandoned = threading.Event()

    def put(item: T | _End[T]) -> bool:
        while not abandoned.is_set():
            try:
                waiting.put(item, timeout=_PATIENCE)
            except queue.Full:
                continue
            return True
        return False

    def run() -> None:
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:  # whatever it is, it belongs to the consumer
            put(_End(error))
        else:
            put(_End(None))

    thread = threading.Thread(target=run, name="read-ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := waiting.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        abandoned.set()
        if stop is not None:
            stop()
        thread.join()
