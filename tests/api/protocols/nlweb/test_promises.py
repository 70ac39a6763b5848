"""Promises by themselves: budget, progress, cancelling, owners, several workers, and work and workers that fail."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aidre.api.access.caller import ANONYMOUS, Caller
from aidre.api.protocols.nlweb import promises as module
from aidre.api.protocols.nlweb.nlweb_envelope import NlwebFailure, PromiseResponse
from aidre.api.protocols.nlweb.promise_table import PromiseTable
from aidre.api.protocols.nlweb.promises import WORKER_TIMEOUT_SECONDS, PromiseProgress, Promises
from aidre.engine.errors import InvalidInput
from tests.api.protocols.nlweb.promises import Gate, cancelled, failed, kept, promised, rendered, settled, worker
from tests.support.clocks import WAIT_SECONDS, Clock, until_in_loop

TOKEN_LENGTH = 43


def test_work_beyond_its_budget_goes_on_and_is_fetched(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as promises:
            gate = Gate()
            found = await promises.run_or_promise(ANONYMOUS, gate, rendered, 0.01)
            assert isinstance(found, PromiseResponse)
            assert len(found.promise.token) == TOKEN_LENGTH
            assert isinstance(found.promise.estimated_time, int) and found.promise.estimated_time >= 1
            assert found.promise.progress == 0.0
            assert found.promise.message
            gate.opened.set()
            assert await settled(promises, found.promise.token) == rendered("done")
            assert await promises.checkin(ANONYMOUS, found.promise.token) == rendered("done")

    asyncio.run(run())


def test_a_budget_of_nothing_promises_even_what_is_quick(tmp_path: Path) -> None:
    assert kept(tmp_path) == rendered("done")


def test_a_folder_of_another_user_does_not_keep_the_server_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    async def run() -> None:
        monkeypatch.setattr(Path, "exists", refused)
        async with worker(tmp_path):
            pass

    asyncio.run(run())


def test_progress_never_goes_back_whoever_tells_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as first, worker(tmp_path) as second:
            gate = Gate()
            token = await promised(first, gate)
            await gate.began.wait()
            assert gate.progress is not None
            told: list[object] = []
            for reached in (0.25, 0.1, 7.0, float("nan"), -1.0):
                gate.progress.advance(reached, f"at {reached}")
                for promises in (first, second):
                    known = await promises.checkin(ANONYMOUS, token)
                    assert isinstance(known, PromiseResponse)
                    assert known.promise.message == f"at {reached}"
                    told.append(known.promise.progress)
            assert told == [0.25, 0.25, 0.25, 0.25, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    asyncio.run(run())


def test_what_one_worker_has_promised_another_answers(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as first, worker(tmp_path) as second:
            gate = Gate()
            token = await promised(first, gate)
            assert isinstance(await second.checkin(ANONYMOUS, token), PromiseResponse)
            gate.opened.set()
            assert await settled(second, token) == rendered("done")

    asyncio.run(run())


def test_what_another_worker_cancels_stops_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.01)

    async def run() -> None:
        async with worker(tmp_path) as first, worker(tmp_path) as second:
            gate = Gate()
            token = await promised(first, gate)
            await gate.began.wait()
            assert await cancelled(second, token) == "CANCELLED"
            await asyncio.wait_for(gate.cancelled.wait(), WAIT_SECONDS)
            assert (await failed(first, token)).failure_code == "CANCELLED"

    asyncio.run(run())


def test_cancelling_always_ends_in_cancelled(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as promises:
            gate, finished = Gate(), Gate()
            finished.opened.set()
            running, done = await promised(promises, gate), await promised(promises, finished)
            await gate.began.wait()
            await settled(promises, done)
            for token in (running, done):
                for _ in range(2):
                    assert await cancelled(promises, token) == "CANCELLED"
                assert (await failed(promises, token)).failure_code == "CANCELLED"
            await asyncio.wait_for(gate.cancelled.wait(), WAIT_SECONDS)

    asyncio.run(run())


def test_a_promise_belongs_to_its_caller(tmp_path: Path) -> None:
    owner = Caller("alice", frozenset({"papers"}))
    others = [ANONYMOUS, Caller("bob"), Caller("alice", frozenset()), Caller("alice", frozenset({"papers"}), False)]

    async def run() -> None:
        async with worker(tmp_path) as promises:
            gate = Gate()
            token = await promised(promises, gate, owner)
            for other in others:
                assert (await failed(promises, token, other)).failure_code == "UNKNOWN_PROMISE"
                assert await cancelled(promises, token, other) == "UNKNOWN_PROMISE"
            assert isinstance(await promises.checkin(owner, token), PromiseResponse)
            gate.opened.set()
            assert await settled(promises, token, owner) == rendered("done")

    asyncio.run(run())


@pytest.mark.parametrize("token", ["", "x", "\ud800", "'; DROP TABLE promises; --", "a\x00b", "t" * 1_000_000])
def test_a_token_that_was_never_given_is_unknown(tmp_path: Path, token: str) -> None:
    async def run() -> None:
        async with worker(tmp_path) as promises:
            assert (await failed(promises, token)).failure_code == "UNKNOWN_PROMISE"
            assert await cancelled(promises, token) == "UNKNOWN_PROMISE"

    asyncio.run(run())


def test_a_worker_that_ends_fails_its_promises(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as first:
            gate = Gate()
            token = await promised(first, gate)
            await gate.began.wait()
        assert gate.cancelled.is_set()
        async with worker(tmp_path) as second:
            failure = await failed(second, token)
            assert (failure.failure_code, failure.status) == ("INTERNAL_ERROR", 200)
            assert "stopped" in failure.message

    asyncio.run(run())


def test_a_worker_that_dies_leaves_failures_not_promises_for_ever(tmp_path: Path) -> None:
    clock = Clock()

    async def run() -> None:
        async with worker(tmp_path, clock=clock) as second:
            first = Promises([tmp_path], 60.0, clock=clock)
            token = await promised(first, Gate())
            first._maintenance.cancel()  # type: ignore[union-attr]
            clock.now += WORKER_TIMEOUT_SECONDS - 1
            assert isinstance(await second.checkin(ANONYMOUS, token), PromiseResponse)
            clock.now += 2
            failure = await failed(second, token)
            assert (failure.failure_code, failure.status) == ("INTERNAL_ERROR", 200)
            assert await cancelled(second, token) == "CANCELLED"
            await first.close()

    asyncio.run(run())


def test_a_worker_that_lives_is_not_taken_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.01)
    clock, beats, record = Clock(), set[float](), PromiseTable.record_heartbeats

    def noting(table: PromiseTable, progress: Any, now: float) -> Any:
        cancelled = record(table, progress, now)
        beats.add(now)
        return cancelled

    monkeypatch.setattr(PromiseTable, "record_heartbeats", noting)

    async def run() -> None:
        async with worker(tmp_path, clock=clock) as first, worker(tmp_path, clock=clock) as second:
            token = await promised(first, Gate())
            for _ in range(3):
                clock.now += WORKER_TIMEOUT_SECONDS - 1
                await until_in_loop(lambda: clock.now in beats)
                assert isinstance(await second.checkin(ANONYMOUS, token), PromiseResponse)

    asyncio.run(run())


def test_work_beyond_all_time_is_a_timeout(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path, timeout=0.05) as promises:
            gate = Gate()
            failure = await failed(promises, await promised(promises, gate))
            assert (failure.failure_code, failure.status) == ("TIMEOUT", 200)
            assert gate.cancelled.is_set()
            with pytest.raises(NlwebFailure) as caught:
                await promises.run_or_promise(ANONYMOUS, Gate(), rendered, 60.0)
            assert caught.value.failure_code == "TIMEOUT"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NlwebFailure("TOKEN_LIMIT", "too much"), "TOKEN_LIMIT"),
        (InvalidInput("no such thing"), "INVALID_QUERY"),
        (TimeoutError(), "INTERNAL_ERROR"),
        (RuntimeError("secret detail"), "INTERNAL_ERROR"),
    ],
)
def test_work_that_fails_is_a_failure_for_its_caller(
    tmp_path: Path, error: Exception, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(progress: PromiseProgress) -> str:
        raise error

    async def run() -> None:
        async with worker(tmp_path) as promises:
            failure = await failed(promises, await promised(promises, work))
            assert (failure.failure_code, failure.status) == (code, 200)
            assert "secret detail" not in failure.message
            with pytest.raises(type(error)):
                await promises.run_or_promise(ANONYMOUS, work, rendered, 60.0)

    asyncio.run(run())
    assert ("secret detail" in caplog.text) == ("secret" in str(error))


def test_a_result_that_cannot_be_rendered_is_a_failure(tmp_path: Path) -> None:
    def broken(value: str) -> bytes:
        raise ValueError(value)

    async def run() -> None:
        async with worker(tmp_path) as promises:
            gate = Gate()
            gate.opened.set()
            found = await promises.run_or_promise(ANONYMOUS, gate, broken, 0.0)
            assert isinstance(found, PromiseResponse)
            assert (await failed(promises, found.promise.token)).failure_code == "INTERNAL_ERROR"

    asyncio.run(run())


def test_a_caller_that_goes_away_before_the_promise_ends_the_work(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as promises:
            for budget in (60.0, 0.0):
                gate = Gate()
                work = promises.run_or_promise(ANONYMOUS, gate, rendered, budget)
                asking = asyncio.create_task(work)
                await gate.began.wait()
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
                await asyncio.wait_for(gate.cancelled.wait(), WAIT_SECONDS)

    asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"promise_token": "t"},
        {"action": "checkin"},
        {"promise_token": "", "action": "checkin"},
        {"promise_token": " ", "action": "cancel"},
        {"promise_token": None, "action": "checkin"},
        {"promise_token": ["t"], "action": "checkin"},
        {"promise_token": "t", "action": None},
        {"promise_token": "t", "action": "CHECKIN"},
        {"promise_token": "t", "action": {}},
        {"promise_token": "t", "action": "checkin", "meta": []},
        {"promise_token": "t", "action": "checkin", "meta": {"session_context": "s"}},
    ],
)
def test_a_body_of_another_shape_is_an_invalid_query(body: dict[str, Any]) -> None:
    with pytest.raises(NlwebFailure) as caught:
        asyncio.run(Promises([], 1.0).handle_await(body, ANONYMOUS))
    assert (caught.value.failure_code, caught.value.status) == ("INVALID_QUERY", 400)


def test_tokens_have_256_bits_of_chance(tmp_path: Path) -> None:
    async def run() -> set[str]:
        async with worker(tmp_path) as promises:
            gate = Gate()
            gate.opened.set()
            return {await promised(promises, gate) for _ in range(50)}

    tokens = asyncio.run(run())
    assert len(tokens) == 50
    assert {len(token) for token in tokens} == {TOKEN_LENGTH}
    assert len({token[:4] for token in tokens}) > 40
