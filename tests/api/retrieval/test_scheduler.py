"""Searches that are made together: who shares a batch with whom, and that nobody suffers from the others."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from aidre.api.http.http_errors import Overloaded
from aidre.api.retrieval import scheduler as scheduling
from aidre.api.retrieval.scheduler import INLINE_SECONDS, MAX_BATCH, TURN_SECONDS, Scheduler
from tests.support.clocks import WAIT_SECONDS, until_in_loop

SHORT, LONG = 0.001, 0.01
"""Estimates in seconds."""


class Doubling:
    """Work that notes its batches, and fails for negative items. While it is shut it does not end."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: list[bool] = []
        self.open = threading.Event()
        self.open.set()
        self._here = threading.get_ident()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        self.threads.append(threading.get_ident() == self._here)
        assert self.open.wait(WAIT_SECONDS)
        if min(items) < 0:
            raise ValueError(f"{min(items)} is negative")
        return [2 * item for item in items]


def told(
    story: Callable[[Scheduler, Doubling], Coroutine[Any, Any, None]],
    *,
    cores: int = 1,
    wait: float = 60,
    seconds: float = 0.0,
) -> None:
    """Runs a story with a scheduler of so many cores; by the clock all work in the event loop takes so long."""

    async def run() -> None:
        scheduler = Scheduler(wait)
        try:
            await asyncio.wait_for(story(scheduler, Doubling()), WAIT_SECONDS)
        finally:
            scheduler.close()

    moments = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduling, "available_cores", lambda: cores)
        patch.setattr(scheduling, "perf_counter", lambda: next(moments) * seconds)
        asyncio.run(run())


async def turns(count: int = 20) -> None:
    """Lets the event loop turn: what is ready is begun."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("estimate", [SHORT, INLINE_SECONDS])
@pytest.mark.parametrize("together", [True, False])
def test_what_is_short_by_its_estimate_is_done_at_once(together: bool, estimate: float) -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        one = scheduler.run_batched(estimate, "like", 1, work) if together else scheduler.run(estimate, lambda: 2)
        with pytest.raises(StopIteration) as ended:  # without waiting for anything
            one.send(None)
        assert ended.value.value == 2
        assert work.threads == [True] * together

    told(story)


@pytest.mark.parametrize("together", [True, False])
def test_what_is_long_by_its_estimate_is_done_in_a_thread(together: bool) -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        estimate = INLINE_SECONDS * 1.01
        if together:
            assert await scheduler.run_batched(estimate, "like", 1, work) == 2
        else:
            assert await scheduler.run(estimate, lambda: work([1])) == [2]
        assert await scheduler.run_in_thread(lambda: work([1])) == [2]
        assert work.threads == [False, False]

    told(story)


def test_short_ones_that_wait_for_a_turn_are_made_together() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        found = await asyncio.gather(*(scheduler.run_batched(SHORT, "like", item, work) for item in range(6)))
        assert found == [0, 2, 4, 6, 8, 10]
        assert work.batches == [[0], [1, 2, 3, 4, 5]]
        assert all(work.threads)

    told(story, seconds=TURN_SECONDS)


def test_where_several_come_in_a_turn_those_of_the_next_are_made_together() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        for _ in range(2):
            found = await asyncio.gather(*(scheduler.run_batched(SHORT, "like", item, work) for item in range(3)))
            assert found == [0, 2, 4]
        assert work.batches == [[0], [1], [2], [0, 1, 2]]
        await turns()
        assert await scheduler.run_batched(SHORT, "like", 7, work) == 14
        one = scheduler.run_batched(SHORT, "like", 8, work)
        with pytest.raises(StopIteration):  # nobody else came, so it waits for nobody
            one.send(None)

    told(story)


def test_what_is_not_alike_is_not_made_together() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        asked = [scheduler.run_batched(SHORT, item % 2, item, work) for item in range(5)]
        assert await asyncio.gather(*asked) == [0, 2, 4, 6, 8]
        assert work.batches == [[0], [1, 3], [2, 4]]

    told(story, seconds=TURN_SECONDS)


def test_more_than_fit_are_made_in_several_batches_and_others_come_in_between() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        many = 2 * MAX_BATCH + 2
        done: list[int] = []

        async def ask(item: int) -> None:
            await scheduler.run_batched(SHORT, "like", item, work)
            done.append(len(work.batches))

        await asyncio.gather(*map(ask, range(many)))
        assert [len(batch) for batch in work.batches] == [1, MAX_BATCH, MAX_BATCH, 1]
        assert done == sorted(done)
        assert done.count(2) == MAX_BATCH, "the first are answered before the next are begun"

    told(story, seconds=TURN_SECONDS)


def test_long_ones_gather_while_all_threads_are_busy() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        work.open.clear()
        first = asyncio.create_task(scheduler.run_batched(LONG, "like", 1, work))
        await until_in_loop(lambda: bool(work.batches))
        rest = [asyncio.create_task(scheduler.run_batched(LONG, "like", item, work)) for item in (2, 3)]
        await turns()
        rest.append(asyncio.create_task(scheduler.run_batched(LONG, "like", 4, work)))
        await turns()
        assert work.batches == [[1]]
        work.open.set()
        assert await asyncio.gather(first, *rest) == [2, 4, 6, 8]
        assert work.batches == [[1], [2, 3, 4]]
        assert work.threads == [False, False]

    told(story)


def test_a_long_one_does_not_wait_for_company_while_a_thread_is_free() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        work.open.clear()
        tasks = []
        for count, item in enumerate((1, 2), 1):
            tasks.append(asyncio.create_task(scheduler.run_batched(LONG, "like", item, work)))
            await until_in_loop(lambda count=count: len(work.batches) == count)  # type: ignore[misc]
        assert work.batches == [[1], [2]]
        work.open.set()
        assert await asyncio.gather(*tasks) == [2, 4]

    told(story, cores=2)


@pytest.mark.parametrize("estimate", [SHORT, LONG])
def test_an_error_is_told_to_the_one_that_caused_it(estimate: float) -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        asked = [scheduler.run_batched(estimate, "like", item, work) for item in (1, 2, -1, 3)]
        one, two, wrong, three = await asyncio.gather(*asked, return_exceptions=True)
        assert (one, two, three) == (2, 4, 6)
        assert str(wrong) == "-1 is negative"

    told(story, seconds=TURN_SECONDS)


def test_who_has_gone_is_passed_over() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        work.open.clear()
        first = asyncio.create_task(scheduler.run_batched(LONG, "like", 1, work))
        await until_in_loop(lambda: bool(work.batches))
        gone = asyncio.create_task(scheduler.run_batched(LONG, "like", 2, work))
        await turns()
        gone.cancel()
        work.open.set()
        assert await first == 2
        assert await scheduler.run_batched(LONG, "like", 3, work) == 6

    told(story)


def test_who_would_wait_too_long_is_refused_and_the_next_is_not() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        work.open.clear()
        waiting = [asyncio.create_task(scheduler.run_batched(LONG, "like", item, work)) for item in range(1, 5)]
        await turns()
        refused = [task for task in waiting if task.done()]
        assert refused == waiting[2:]
        assert all(isinstance(task.exception(), Overloaded) for task in refused)
        work.open.set()
        for task in waiting:
            if task not in refused:
                assert await task
        assert await scheduler.run_batched(LONG, "like", 9, work) == 18

    told(story, wait=0.015)


class Ticking:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.turns = 0
        self._tick()

    def _tick(self) -> None:
        self.turns += 1
        asyncio.get_running_loop().call_soon(self._tick)


Asking = Callable[[Scheduler], Coroutine[Any, Any, int]]


async def alone(scheduler: Scheduler) -> int:
    return await scheduler.run(SHORT, lambda: 1)


async def together(scheduler: Scheduler) -> int:
    return await scheduler.run_batched(SHORT, "like", 1, lambda items: [1] * len(items))


@pytest.mark.parametrize("ask", [alone, together])
def test_many_short_ones_leave_turns_to_others_and_come_in_order(ask: Asking) -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        ticking, done = Ticking(), list[tuple[int, int]]()

        async def asked(number: int) -> None:
            assert await ask(scheduler) == 1
            done.append((ticking.turns, number))

        await asyncio.gather(*map(asked, range(40)))
        assert [number for _, number in done] == list(range(40))
        in_one_turn = Counter(turn for turn, _ in done)
        assert len(in_one_turn) >= 40 // MAX_BATCH, "the loop hears of nothing else meanwhile"

    told(story, seconds=0.001)


@pytest.mark.parametrize("ask", [alone, together])
def test_short_ones_that_would_wait_too_long_are_refused_before_the_others_are_made(ask: Asking) -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        heard: list[str] = []

        async def asked() -> None:
            try:
                await ask(scheduler)
            except Overloaded as refusal:
                heard.append(refusal.headers["Retry-After"])
            else:
                heard.append("made")

        await asyncio.gather(*(asked() for _ in range(100)))
        made = heard.count("made")
        assert 10 <= made < 60
        assert heard.count("1") == 100 - made
        begun = 1 + TURN_SECONDS / 0.001  # in the turn in which all of them came
        assert heard[: 100 - made].count("made") <= begun, "who is refused waits for nobody"
        heard.clear()
        await asked()
        assert heard == ["made"], "the next one is not refused"

    told(story, wait=0.02, seconds=0.001)


def test_a_short_one_whose_caller_has_gone_takes_nobodys_place() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        waiting = [asyncio.create_task(alone(scheduler)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in waiting[10:]:
            task.cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert found[:10] == [1] * 10
        assert all(isinstance(one, asyncio.CancelledError) for one in found[10:])
        assert await alone(scheduler) == 1
        await turns()
        assert scheduler._loop_budget._waiting_seconds == pytest.approx(0)
        assert not scheduler._loop_budget.is_spent

    told(story, seconds=0.001)
