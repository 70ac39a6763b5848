"""Searches that are made together: who shares a batch with whom, and that nobody suffers from the others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from aidre.api.http.errors import Overloaded
from aidre.api.retrieval import scheduler as scheduling
from aidre.api.retrieval.loop_budget import TURN_SECONDS
from aidre.api.retrieval.scheduler import DOUBTS_BEFORE_INLINE, MAX_BATCH, MAX_KINDS, Scheduler
from tests.support.clocks import WAIT_SECONDS, until_in_loop


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
    seconds: float | None = None,
) -> None:
    """Runs a story with a scheduler of so many cores; with `seconds` all work takes so long by its clock."""

    async def run() -> None:
        scheduler = Scheduler(wait)
        try:
            await story(scheduler, Doubling())
        finally:
            scheduler.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduling, "available_cores", lambda: cores)
        if seconds is not None:
            patch.setattr(scheduling, "_timed", lambda work: (work(), seconds))
        asyncio.run(run())


async def turns(count: int = 20) -> None:
    """Lets the event loop turn: what is ready is begun."""
    for _ in range(count):
        await asyncio.sleep(0)


async def short(scheduler: Scheduler, seconds: float = 0.000_01) -> None:
    """Have the scheduler learn that what is of kind "k" is short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduling, "_timed", lambda work: (work(), seconds))
        for _ in range(2):
            await scheduler.run_batched("k", "learning", 1, Doubling())


def test_what_comes_in_one_turn_is_made_together_in_the_event_loop() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        await short(scheduler)
        found = await asyncio.gather(*(scheduler.run_batched("k", "like", item, work) for item in range(5)))
        assert found == [0, 2, 4, 6, 8]
        assert await scheduler.run_batched("k", "like", 7, work) == 14
        assert work.batches == [[0, 1, 2, 3, 4], [7]]
        assert work.threads == [True, True]

    told(story)


def test_a_kind_in_use_is_not_forgotten_for_many_that_are_not() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        await short(scheduler)
        for other in range(2 * MAX_KINDS):
            await scheduler.run_batched(f"other {other}", "other", 1, Doubling())
            await scheduler.run_batched("k", "like", 1, work)
        assert all(work.threads), "it would go through a thread again"

    told(story)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("in_the_loop", "worked", "tried", "stays"),
    [(0.000_1, 0.000_1, True, True), (0.05, 0.000_1, True, False), (0.000_1, 0.05, False, False)],
    ids=["short", "waits for the disk", "works long"],
)
def test_what_seemed_long_beside_a_busy_loop_comes_back_where_it_is_short(
    monkeypatch: pytest.MonkeyPatch, together: bool, in_the_loop: float, worked: float, tried: bool, stays: bool
) -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        here = threading.get_ident()

        def timed(work: Callable[[], Any]) -> tuple[Any, float]:
            return work(), in_the_loop if threading.get_ident() == here else 0.02

        processor: dict[int, float] = {}

        def thread_time() -> float:
            processor[threading.get_ident()] = processor.get(threading.get_ident(), 0.0) + worked
            return processor[threading.get_ident()]

        monkeypatch.setattr(scheduling, "_timed", timed)
        monkeypatch.setattr(time, "thread_time", thread_time)
        for _ in range(3 * DOUBTS_BEFORE_INLINE):
            if together:
                await scheduler.run_batched("k", "like", 1, work)
            else:
                await scheduler.run("k", lambda: work([1]))
        assert any(work.threads) == tried
        assert (sum(work.threads) > DOUBTS_BEFORE_INLINE) == stays
        assert work.threads[-1] == stays

    told(story)


def test_what_is_not_alike_is_not_made_together() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        await short(scheduler)
        asked = [scheduler.run_batched("k", item % 2, item, work) for item in range(4)]
        assert await asyncio.gather(*asked) == [0, 2, 4, 6]
        assert sorted(work.batches) == [[0, 2], [1, 3]]

    told(story)


def test_more_than_fit_are_made_in_several_batches_and_others_come_in_between() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        await short(scheduler)
        many = 2 * MAX_BATCH + 1
        done: list[int] = []

        async def ask(item: int) -> None:
            await scheduler.run_batched("k", "like", item, work)
            done.append(len(work.batches))

        await asyncio.gather(*map(ask, range(many)))
        assert [len(batch) for batch in work.batches] == [MAX_BATCH, MAX_BATCH, 1]
        assert done == sorted(done)
        assert done.count(1) == MAX_BATCH, "the first are answered before the next are begun"

    told(story)


def test_long_ones_gather_while_all_threads_are_busy() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        work.open.clear()
        first = asyncio.create_task(scheduler.run_batched("k", "like", 1, work))
        await until_in_loop(lambda: bool(work.batches))
        rest = [asyncio.create_task(scheduler.run_batched("k", "like", item, work)) for item in (2, 3)]
        await turns()
        rest.append(asyncio.create_task(scheduler.run_batched("k", "like", 4, work)))
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
            tasks.append(asyncio.create_task(scheduler.run_batched("k", "like", item, work)))
            await until_in_loop(lambda count=count: len(work.batches) == count)  # type: ignore[misc]
        assert work.batches == [[1], [2]]
        work.open.set()
        assert await asyncio.gather(*tasks) == [2, 4]

    told(story, cores=2)


@pytest.mark.parametrize("is_short", [True, False])
def test_an_error_is_told_to_the_one_that_caused_it(is_short: bool) -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        if is_short:
            await short(scheduler)
        asked = [scheduler.run_batched("k", "like", item, work) for item in (1, -1, 2)]
        one, wrong, two = await asyncio.gather(*asked, return_exceptions=True)
        assert (one, two) == (2, 4)
        assert str(wrong) == "-1 is negative"

    told(story)


def test_who_has_gone_is_passed_over() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        work.open.clear()
        first = asyncio.create_task(scheduler.run_batched("k", "like", 1, work))
        await until_in_loop(lambda: bool(work.batches))
        gone = asyncio.create_task(scheduler.run_batched("k", "like", 2, work))
        await turns()
        gone.cancel()
        work.open.set()
        assert await first == 2
        assert await scheduler.run_batched("k", "like", 3, work) == 6

    told(story)


def test_who_would_wait_too_long_is_refused_and_the_next_is_not() -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        work.open.clear()
        waiting = [asyncio.create_task(scheduler.run_batched("k", "like", item, work)) for item in range(1, 5)]
        await turns()
        refused = [task for task in waiting if task.done()]
        assert refused == waiting[2:]
        assert all(isinstance(task.exception(), Overloaded) for task in refused)
        work.open.set()
        for task in waiting:
            if task not in refused:
                assert await task
        assert await scheduler.run_batched("k", "like", 9, work) == 18

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
    return await scheduler.run("k", lambda: 1)


async def together(scheduler: Scheduler) -> int:
    return await scheduler.run_batched("k", "like", 1, lambda items: [1] * len(items))


@pytest.mark.parametrize("ask", [alone, together])
def test_many_short_ones_leave_turns_to_others_and_come_in_order(ask: Asking) -> None:
    async def story(scheduler: Scheduler, work: Doubling) -> None:
        await short(scheduler, 0.001)
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
        await short(scheduler, 0.001)
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
        await short(scheduler)
        waiting = [asyncio.create_task(alone(scheduler)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in waiting[10:]:
            task.cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert found[:10] == [1] * 10
        assert all(isinstance(one, asyncio.CancelledError) for one in found[10:])
        assert await alone(scheduler) == 1
        await turns()
        assert scheduler._loop_budget.waiting_seconds == pytest.approx(0)
        assert not scheduler._loop_budget.is_spent

    told(story, seconds=0.001)
