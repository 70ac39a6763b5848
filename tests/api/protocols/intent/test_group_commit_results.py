"""Group commit: each sender gets its own result, all get the error of their commit, and none waits for what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from aidre.api.protocols.intent.group_commit import GroupCommit


def test_each_sender_gets_its_own_result_and_without_more_to_do_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group: GroupCommit[int, int] = GroupCommit(lambda batch: [10 * item for item in batch], "test")

    async def send() -> list[int]:
        return await asyncio.gather(*(group.submit(item) for item in range(20)))

    assert asyncio.run(send()) == [10 * item for item in range(20)]
    group.close()
    assert caplog.records == []


def test_all_senders_of_a_commit_get_its_error_and_the_next_commit_runs() -> None:
    def commit(batch: Sequence[int]) -> list[int]:
        if -1 in batch:
            raise ValueError("it failed")
        return list(batch)

    group: GroupCommit[int, int] = GroupCommit(commit, "test")

    async def send() -> None:
        with pytest.raises(ValueError, match="it failed"):
            await group.submit(-1)
        assert await group.submit(1) == 1

    asyncio.run(send())
    group.close()


def test_what_follows_runs_after_every_commit() -> None:
    steps: list[str] = []

    def commit(batch: Sequence[str]) -> Sequence[str]:
        steps.append("commit")
        return batch

    group: GroupCommit[str, str] = GroupCommit(commit, "test", lambda: steps.append("after"))

    async def send() -> None:
        for name in "ab":
            await group.submit(name)

    asyncio.run(send())
    group.close()
    assert steps == ["commit", "after"] * 2


def test_a_closed_group_takes_nothing_more() -> None:
    group: GroupCommit[int, int] = GroupCommit(list, "test")
    group.close()

    async def send() -> int:
        return await group.submit(1)

    assert asyncio.run(send()) == 1, "a group that has not begun may begin"
    group.close()
    with pytest.raises(RuntimeError, match="the group commit is closed"):
        asyncio.run(send())
