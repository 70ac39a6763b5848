"""The limits of a connection: its time, each pause, all bytes that are read; and addresses that are refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch import connection
from aidre.ingest.fetch.connection import Deadline, Stream, checked_addresses
from aidre.ingest.fetch.urls import read_url


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(connection, "monotonic", clock)
    return clock


def test_what_is_left_is_the_shorter_of_the_pause_and_the_rest(clock: Clock) -> None:
    deadline = Deadline(10.0, 4.0)
    left = []
    for clock.now in (100.0, 105.0, 107.0, 109.5):
        left.append(deadline.left())
    assert left == [4.0, 4.0, 3.0, 0.5]
    for clock.now in (110.0, 111.0):
        with pytest.raises(FetchFailed, match="not done after 10 seconds") as caught:
            deadline.left()
        assert caught.value.details["down"] is True


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_as_many_bytes_as_the_limit_are_read_and_no_more(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stream = Stream(ours, Deadline(60.0, 60.0), 10)
    reader = stream.makefile("rb")
    theirs.sendall(b"x" * 10)
    assert reader.read1(6) + reader.read1(6) == b"x" * 10
    theirs.sendall(b"x")
    with pytest.raises(FetchFailed, match="sends more bytes than a document may have"):
        reader.read1(6)


def test_every_read_waits_for_as_long_as_is_left(clock: Clock, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stream = Stream(ours, Deadline(10.0, 4.0), 100)
    waits = []
    for clock.now in (100.0, 108.0):
        theirs.sendall(b"x")
        assert stream.receive(memoryview(bytearray(1))) == 1
        stream.sendall(b"y")
        waits.append(ours.gettimeout())
    assert waits == [4.0, 2.0]


class Silent:
    """A socket whose peer sends nothing, so that a read takes all the time that it may."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._seconds = clock, 0.0

    def settimeout(self, seconds: float) -> None:
        self._seconds = seconds

    def recv_into(self, _: memoryview) -> int:
        self._clock.now += self._seconds
        raise TimeoutError


@pytest.mark.parametrize(("pause", "error"), [(4.0, TimeoutError), (10.0, FetchFailed)])
def test_a_silent_peer_is_out_of_time_by_a_pause_or_by_all_of_it(
    clock: Clock, pause: float, error: type[Exception]
) -> None:
    stream = Stream(Silent(clock), Deadline(10.0, pause), 100)  # type: ignore[arg-type]
    with pytest.raises(error):
        stream.receive(memoryview(bytearray(1)))


@pytest.mark.parametrize(
    ("host", "addresses", "said"),
    [
        ("10.0.0.1", [], r"refused: 10\.0\.0\.1 is private; \[sources\]"),
        (
            "a.example",
            ["93.184.216.34", "10.0.0.1"],
            r"refused: a\.example has the address 10\.0\.0\.1, which is private",
        ),
        ("a.example", ["::1"], r"refused: a\.example has the address ::1, which is loopback"),
        ("a.example", ["nonsense"], r"refused: a\.example has the address nonsense, which is unreadable"),
    ],
)
def test_one_address_that_is_not_public_refuses_all(host: str, addresses: list[str], said: str) -> None:
    url = read_url(f"http://{host}/")
    with pytest.raises(FetchFailed, match=said):
        checked_addresses(url, private=False, seconds=60.0, resolve=lambda *_: addresses)
    assert checked_addresses(url, private=True, seconds=60.0, resolve=lambda *_: addresses) == (addresses or [host])
