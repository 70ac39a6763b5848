"""Slots of the concurrency limit: each counts once, whatever is repeated, and others do not shorten its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Message

from aidre.api.access.limits.concurrency import CHECKS_PER_DEADLINE, ConcurrencyLimit
from aidre.api.http.http_errors import Overloaded

Scene = Callable[[ConcurrencyLimit], Awaitable[None]]


def play(scene: Scene, most: int = 3) -> None:
    async def run() -> None:
        await scene(ConcurrencyLimit(most, 3_600))

    asyncio.run(run())


async def whole() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def test_a_slot_that_is_left_twice_counts_once() -> None:
    async def scene(limit: ConcurrencyLimit) -> None:
        first, _ = limit.enter(whole), limit.enter(whole)
        for _ in range(2):
            limit.leave(first)
            assert limit.count == 1

    play(scene)


def test_a_wait_that_ends_after_its_slot_was_left_does_not_take_it_again() -> None:
    async def scene(limit: ConcurrencyLimit) -> None:
        comes = asyncio.Event()

        async def receive() -> Message:
            await comes.wait()
            return await whole()

        slot = limit.enter(receive)
        waiting = asyncio.create_task(slot())
        await asyncio.sleep(0)
        assert limit.count == 0
        limit.leave(slot)
        comes.set()
        await waiting
        assert limit.count == 0 and not slot.occupied

    play(scene)


def test_as_many_as_the_limit_are_let_in_and_one_who_leaves_makes_room() -> None:
    async def scene(limit: ConcurrencyLimit) -> None:
        slots = [limit.enter(whole) for _ in range(3)]
        with pytest.raises(Overloaded):
            limit.enter(whole)
        assert limit.count == 3
        limit.leave(slots[0])
        limit.enter(whole)

    play(scene)


def test_requests_that_come_and_go_take_no_time_from_the_others() -> None:
    async def scene(limit: ConcurrencyLimit) -> None:
        slot = limit.enter(whole)
        for _ in range(5 * CHECKS_PER_DEADLINE):
            limit.leave(limit.enter(whole))
        assert not slot.cancelled and limit.ticks == 1

    play(scene)
