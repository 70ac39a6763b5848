"""The table of promises on disk: what it holds and how long, its bounds, damage, and workers that begin together."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aidre.api.access.caller import ANONYMOUS, Caller
from aidre.api.protocols.nlweb import promise_table
from aidre.api.protocols.nlweb.promise_table import PromiseTable
from aidre.api.protocols.nlweb.promises import PROMISES_FILE, RESULT_SECONDS
from tests.api.protocols.nlweb.promises import Gate, cancelled, failed, kept, promised, rendered, settled, worker
from tests.support.clocks import Clock, until_in_loop

SECRET = "the words of a result that nobody else may keep"


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob(f"{PROMISES_FILE}*")))


def test_work_within_its_budget_is_no_promise_and_touches_no_disk(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as promises:
            gate = Gate()
            gate.opened.set()
            assert await promises.run_or_promise(ANONYMOUS, gate, rendered, 60.0) == "done"
        assert not list(tmp_path.iterdir())

    asyncio.run(run())


def test_the_file_holds_no_token_and_after_expiry_no_result(tmp_path: Path) -> None:
    clock = Clock()

    async def run() -> None:
        async with worker(tmp_path, clock=clock) as promises:
            gate = Gate(SECRET)
            gate.opened.set()
            token = await promised(promises, gate)
            await settled(promises, token)
            assert SECRET.encode() in on_disk(tmp_path)
            assert token.encode() not in on_disk(tmp_path)
            assert stat.S_IMODE((tmp_path / PROMISES_FILE).stat().st_mode) == 0o600
            clock.now += RESULT_SECONDS + 1
            assert (await failed(promises, token)).failure_code == "UNKNOWN_PROMISE"
            assert await cancelled(promises, token) == "UNKNOWN_PROMISE"
        async with worker(tmp_path, clock=clock) as later:
            await later.open()
            await until_in_loop(lambda: SECRET.encode() not in on_disk(tmp_path))

    asyncio.run(run())


def test_a_cancelled_result_leaves_the_disk(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as promises:
            gate = Gate(SECRET)
            gate.opened.set()
            token = await promised(promises, gate)
            await settled(promises, token)
            await cancelled(promises, token)
            assert SECRET.encode() not in on_disk(tmp_path)

    asyncio.run(run())


def test_a_result_outlives_its_worker(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path) as first:
            gate = Gate()
            gate.opened.set()
            token = await promised(first, gate)
            await settled(first, token)
        async with worker(tmp_path) as second:
            assert await second.checkin(ANONYMOUS, token) == rendered("done")

    asyncio.run(run())


def test_where_a_caller_has_its_share_of_the_table_work_is_waited_for(tmp_path: Path) -> None:
    clock = Clock()

    async def run() -> None:
        async with worker(tmp_path, max_promises=2 * promise_table.ACCOUNT_SHARE, clock=clock) as promises:
            gates = [Gate(), Gate()]
            tokens = [await promised(promises, gate) for gate in gates]
            quick = Gate("direct")
            quick.opened.set()
            assert await promises.run_or_promise(ANONYMOUS, quick, rendered, 0.0) == "direct"
            other = Caller("partner", frozenset(), vectors=False)
            await settled(promises, await promised(promises, quick, other), other)
            for gate, token in zip(gates, tokens, strict=True):
                gate.opened.set()
                await settled(promises, token)
            clock.now += RESULT_SECONDS + 1
            await promised(promises, quick)

    asyncio.run(run())


def test_where_the_table_is_full_nobody_gets_a_promise() -> None:
    table = PromiseTable(None, max_promises=4)
    added = [table.add(bytes([place]), b"owner", bytes([place]), 0.0, 10.0) for place in range(5)]
    assert added == [True] * 4 + [False]


def test_results_have_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promise_table, "MAX_RESULT_BYTES", 100)
    table = PromiseTable(None)
    assert table.add(b"1", b"owner", b"account", 0.0, 10.0)
    table.finish(b"1", b"x" * 99, 10.0)
    assert table.add(b"2", b"owner", b"account", 0.0, 10.0)
    table.finish(b"2", b"x", 10.0)
    assert not table.add(b"3", b"owner", b"account", 0.0, 10.0)
    assert table.cancel(b"1", b"owner", 0.0)
    assert table.add(b"3", b"owner", b"account", 0.0, 10.0)
    table.close()


def test_without_a_place_on_disk_promises_stay_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "file"
    folder.write_text("no folder")

    async def run() -> None:
        async with worker(folder) as first, worker(folder) as second:
            gate = Gate()
            gate.opened.set()
            token = await promised(first, gate)
            assert await settled(first, token) == rendered("done")
            assert (await failed(second, token)).failure_code == "UNKNOWN_PROMISE"

    with caplog.at_level(logging.WARNING, "aidre"):
        asyncio.run(run())
    assert "end with this process" in caplog.text


def test_a_damaged_table_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / PROMISES_FILE).write_bytes(b"no database at all" * 100)

    async def run() -> None:
        async with worker(tmp_path) as first, worker(tmp_path) as second:
            await first.open()
            gate = Gate()
            gate.opened.set()
            assert await settled(second, await promised(first, gate)) == rendered("done")

    asyncio.run(run())


def test_a_table_of_another_version_is_made_anew(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / PROMISES_FILE) as connection:
        connection.execute("CREATE TABLE promises (other TEXT)")
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert kept(tmp_path) == rendered("done")


def test_workers_that_begin_together_share_one_table(tmp_path: Path) -> None:
    def begin(number: int) -> bool:
        table = PromiseTable(tmp_path / PROMISES_FILE)
        added = table.add(bytes([number]), b"owner", b"account", 0.0, 10.0)
        table.close()
        return added

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(begin, range(32)))
    table = PromiseTable(tmp_path / PROMISES_FILE)
    assert all(table.read(bytes([number]), b"owner", 1.0) for number in range(32))
    table.close()


def test_the_table_lies_where_no_collection_can(tmp_path: Path) -> None:
    async def run() -> None:
        async with worker(tmp_path / ".log") as promises:
            await promised(promises, Gate())

    asyncio.run(run())
    assert [path.name for path in tmp_path.iterdir()] == [".log"]
    assert all(not path.name.endswith(("-wal", "-shm")) for path in (tmp_path / ".log").iterdir())
