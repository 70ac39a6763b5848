"""The budget of the event loop: what runs at once, what waits for a later turn, and when nobody may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from aidre.api.http import Overloaded
from aidre.api.retrieval.scheduler import TURN_SECONDS, LoopBudget


def told(story: Callable[[LoopBudget], Coroutine[Any, Any, None]], max_wait: float = 60.0) -> None:
    async def run() -> None:
        await story(LoopBudget(max_wait))

    asyncio.run(run())


async def begin(budget: LoopBudget, *works: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    """Tasks that find the turn in which they begin spent."""

    async def spend() -> None:
        budget._spend(TURN_SECONDS)

    first, *tasks = [asyncio.create_task(work) for work in (spend(), *works)]
    await first
    return tasks


def test_a_turn_is_spent_by_the_work_that_reaches_its_end() -> None:
    async def story(budget: LoopBudget) -> None:
        budget._spend(TURN_SECONDS * 0.9)
        assert not budget.is_spent
        budget._spend(TURN_SECONDS * 0.2)
        assert budget.is_spent
        await asyncio.sleep(0)
        assert not budget.is_spent
        budget._spend(TURN_SECONDS * 0.9)
        assert not budget.is_spent, "a turn begins with nothing spent"

    told(story)


def test_what_is_spent_in_several_turns_does_not_add_up() -> None:
    async def story(budget: LoopBudget) -> None:
        for _ in range(5):
            budget._spend(TURN_SECONDS * 0.9)
            assert not budget.is_spent
            await asyncio.sleep(0)

    told(story)


def test_what_waits_begins_in_its_order_as_much_as_fits_into_a_turn() -> None:
    async def story(budget: LoopBudget) -> None:
        begun: list[int] = []

        async def work(number: int) -> None:
            await budget.wait(TURN_SECONDS / 2)
            begun.append(number)

        tasks = await begin(budget, *map(work, range(5)))
        seen = []
        for _ in range(50):
            await asyncio.sleep(0)
            seen.append(len(begun))
        assert begun == list(range(5))
        assert {2, 4} <= set(seen), "the loop turned between them"
        assert not {1, 3} & set(seen), "two fit into a turn"
        await asyncio.gather(*tasks)
        assert budget._waiting_seconds == pytest.approx(0)

    told(story)


def test_who_would_wait_too_long_is_told_when_to_come_back() -> None:
    async def story(budget: LoopBudget) -> None:
        async def refused() -> None:
            with pytest.raises(Overloaded) as refusal:
                await budget.wait(0.001)
            assert refusal.value.headers["Retry-After"] == "3"

        await asyncio.gather(*await begin(budget, budget.wait(2.5), refused()))
        await asyncio.gather(*await begin(budget, budget.wait(2.0), budget.wait(0.001)))

    told(story, max_wait=2.0)


def test_who_has_gone_is_passed_over() -> None:
    async def story(budget: LoopBudget) -> None:
        tasks: list[asyncio.Task[None]] = []

        async def wait() -> None:
            tasks.append(cast("asyncio.Task[None]", asyncio.current_task()))
            await budget.wait(0.001)

        async def leave() -> None:
            tasks[0].cancel()

        await begin(budget, wait(), wait(), leave())
        gone, stays = tasks
        await stays
        assert gone.cancelled()
        assert budget._waiting_seconds == pytest.approx(0)

    told(story)
