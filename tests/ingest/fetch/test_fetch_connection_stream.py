"""The limits of a connection: its time, each pause, and all bytes that are read."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch import fetch_connection
from aidre.ingest.fetch.fetch_connection import FetchConnection, FetchDeadline


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(fetch_connection, "monotonic", clock)
    return clock


def test_what_is_left_is_the_shorter_of_the_pause_and_the_rest(clock: Clock) -> None:
    deadline = FetchDeadline(10.0, 4.0)
    left = []
    for clock.now in (100.0, 105.0, 107.0, 109.5):
        left.append(deadline.left())
    assert left == [4.0, 4.0, 3.0, 0.5]
    for clock.now in (110.0, 111.0):
        with pytest.raises(FetchFailed, match="not done after 10 seconds") as caught:
            deadline.left()
        assert caught.value.details["down"] is True


def connected(sock: socket.socket, deadline: FetchDeadline, max_bytes: int) -> FetchConnection:
    return FetchConnection(lambda *_: sock, deadline, max_bytes).connect_tcp("a.example", 80)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        yield ours, theirs


def test_as_many_bytes_as_the_limit_are_read_and_no_more(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    connection = connected(ours, FetchDeadline(60.0, 60.0), 10)
    theirs.sendall(b"x" * 10)
    assert connection.read(6) + connection.read(6) == b"x" * 10
    theirs.sendall(b"x")
    with pytest.raises(FetchFailed, match="sends more bytes than a document may have"):
        connection.read(6)


def test_every_read_waits_for_as_long_as_is_left(clock: Clock, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    connection = connected(ours, FetchDeadline(10.0, 4.0), 100)
    waits = []
    theirs.sendall(b"xx")
    for clock.now in (100.0, 108.0):
        assert connection.read(1) == b"x"
        waits.append(ours.gettimeout())
    for clock.now in (101.0, 109.0):
        connection.write(b"y")
        waits.append(ours.gettimeout())
    assert waits == [4.0, 2.0, 4.0, 1.0]


def test_an_aborted_request_reads_and_writes_no_more(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    connection = connected(ours, FetchDeadline(60.0, 60.0), 10)
    connection.abort()
    assert theirs.recv(1) == b""
    for step in (lambda: connection.read(1), lambda: connection.write(b"x")):
        with pytest.raises(FetchFailed, match="the run ends"):
            step()


class Silent:
    """A socket whose peer sends nothing, so that a read takes all the time that it may."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._seconds = clock, 0.0

    def setsockopt(self, *_: int) -> None: ...

    def settimeout(self, seconds: float) -> None:
        self._seconds = seconds

    def recv(self, _: int) -> bytes:
        self._clock.now += self._seconds
        raise TimeoutError


@pytest.mark.parametrize(("pause", "error"), [(4.0, TimeoutError), (10.0, FetchFailed)])
def test_a_silent_peer_is_out_of_time_by_a_pause_or_by_all_of_it(
    clock: Clock, pause: float, error: type[Exception]
) -> None:
    connection = connected(Silent(clock), FetchDeadline(10.0, pause), 100)  # type: ignore[arg-type]
    with pytest.raises(error):
        connection.read(1)
