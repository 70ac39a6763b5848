"""Reading ahead changes nothing but the time at which items are made."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from aidre.ingest.prefetch import prefetch
from tests.support.clocks import WAIT_SECONDS, until


def test_items_come_in_order() -> None:
    assert list(prefetch(range(100), 2)) == list(range(100))


def test_an_error_comes_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    items = prefetch(failing(), 4)
    assert next(items) == 1
    with pytest.raises(ValueError, match="broken"):
        next(items)


def readers() -> list[threading.Thread]:
    """The threads that read ahead."""
    return [thread for thread in threading.enumerate() if thread.name == "read-ahead"]


def test_a_consumer_that_lets_go_ends_the_thread() -> None:
    items = prefetch(iter(int, 1), 2)
    assert next(items) == 0
    (reader,) = readers()
    items.close()
    assert not reader.is_alive()


def test_no_more_than_the_room_is_read_before_it_is_asked_for() -> None:
    made: list[int] = []

    def counted() -> Iterator[int]:
        for number in range(100_000):
            made.append(number)
            yield number

    items = prefetch(counted(), 3)
    assert next(items) == 0
    until(lambda: len(made) >= 5)
    items.close()
    assert len(made) == 1 + 3 + 1  # one was taken, three are in the room, one waits for its place


def test_what_the_reading_waits_for_is_stopped_when_the_consumer_lets_go() -> None:
    released = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        released.wait(WAIT_SECONDS)
        yield 2

    reading = prefetch(items(), 1, released.set)
    assert next(reading) == 1
    reading.close()
    assert released.is_set()
