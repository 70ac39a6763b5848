"""Group commit: what senders that wait together get, and what its end leaves undone: nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aidre.api.protocols.intent.group_commit import GroupCommit
from tests.support.clocks import WAIT_SECONDS


def test_a_sender_that_goes_away_takes_nothing_from_the_others() -> None:
    going = threading.Event()
    seen: list[Sequence[int]] = []

    def turn(items: Sequence[int]) -> list[int]:
        assert going.wait(WAIT_SECONDS)
        seen.append(items)
        return [item * 2 for item in items]

    async def senders(doubled: GroupCommit[int, int]) -> Sequence[int | BaseException]:
        tasks = [asyncio.create_task(doubled.submit(n)) for n in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        going.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    together: GroupCommit[int, int] = GroupCommit(turn, "test")
    results = asyncio.run(senders(together))
    together.close()
    assert [results[0], *results[2:]] == [0, 4, 6]
    assert isinstance(results[1], asyncio.CancelledError)
    assert [item for items in seen for item in items] == [0, 1, 2, 3]


def test_what_follows_a_turn_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise ValueError("no")

    together: GroupCommit[int, int] = GroupCommit(lambda items: items, "test", broken)
    assert [asyncio.run(together.submit(n)) for n in range(3)] == [0, 1, 2]
    together.close()
    assert caplog.messages.count("the work after a commit failed") == 3


def test_what_is_handed_over_before_the_end_is_done() -> None:
    done: list[int] = []

    def turn(items: Sequence[int]) -> Sequence[int]:
        done.extend(items)
        return items

    together: GroupCommit[int, int] = GroupCommit(turn, "test")

    async def send(work: Callable[[int], Any]) -> None:
        await asyncio.gather(*(work(n) for n in range(5)))

    asyncio.run(send(together.submit))
    together.close()
    assert done == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(send(together.submit))
    GroupCommit(turn, "never used").close()
