"""The load generator against servers that do what servers may: it counts answers, and never what was not asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from benchmarks.harness.load import Load, arrivals, http_frame, request, resp_frame
from benchmarks.harness.resp import command
from tests.support.clocks import WAIT_SECONDS

GET = request("GET", "/")
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@contextmanager
def serving(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port; each connection to it is talked to in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            if ended.is_set():
                connection.close()
                return
            threads.append(threading.Thread(target=talk, args=(connection,)))
            threads[-1].start()

    threads: list[threading.Thread] = []
    accepting = threading.Thread(target=accept)
    accepting.start()
    yield listener.getsockname()[1]
    ended.set()
    socket.create_connection(listener.getsockname()).close()
    for thread in (accepting, *threads):
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
    listener.close()


class OneAnswer:
    """Answers once on each connection, and ends it, with some last words, when it is told to."""

    def __init__(self, last: bytes) -> None:
        self._last = last
        self._told = threading.Semaphore(0)
        self._over = threading.Semaphore(0)

    def __call__(self, connection: socket.socket) -> None:
        with connection:
            if connection.recv(65_536):
                connection.sendall(ANSWER)
                self._told.acquire(timeout=WAIT_SECONDS)
                connection.sendall(self._last)
        self._over.release()

    def end(self, connections: int) -> None:
        for _ in range(connections):
            self._told.release()
        for _ in range(connections):
            assert self._over.acquire(timeout=WAIT_SECONDS)


@pytest.mark.parametrize("last", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
@pytest.mark.parametrize("way", ["closed", "open"])
def test_a_connection_that_is_ended_between_two_runs_is_made_again_and_is_no_answer(last: bytes, way: str) -> None:
    server = OneAnswer(last)
    with serving(server) as port, Load(port, 3) as load:
        for reconnected in (0, 3, 3):
            if way == "closed":
                samples = load.closed([GET], 0.0)
                assert len(samples.statuses) == 0
            else:
                samples = load.open([GET], 0.003, 1_000.0)
                assert samples.statuses.tolist() == [200] * 3
            assert (samples.reconnected, samples.figures()["errors"]) == (reconnected, 0)
            server.end(3)


def test_a_connection_that_is_ended_before_its_answer_is_an_error() -> None:
    def talk(connection: socket.socket) -> None:
        with connection:
            connection.recv(65_536)

    with serving(talk) as port, Load(port, 1) as load:
        samples = load.open([GET], 0.005, 1_000.0)
    assert samples.statuses.tolist() == [0] * 5
    assert (samples.figures()["errors"], samples.reconnected) == (5, 0)


class Stalled:
    """Answers nothing until it is told to, or some seconds after the first request, then everything."""

    def __init__(self, seconds: float = WAIT_SECONDS) -> None:
        self.told = threading.Event()
        self._seconds = seconds

    def __call__(self, connection: socket.socket) -> None:
        with connection:
            while connection.recv(65_536):
                if not self.told.wait(self._seconds):
                    self.told.set()
                connection.sendall(ANSWER)


@pytest.mark.parametrize("random", [False, True])
def test_a_stalled_server_is_charged_for_what_should_have_been_sent_meanwhile(random: bool) -> None:
    stall = 0.2
    with serving(Stalled(stall)) as port, Load(port, 1) as load:
        samples = load.open([GET], 0.1, 200.0, random=random)
    due = arrivals(20, 200.0, random=random)
    assert samples.statuses.tolist() == [200] * 20
    assert (samples.latencies >= stall - due).all()
    waits = samples.latencies - samples.late  # a wait for the only connection is not the generator's lateness
    assert (waits >= stall - due).all()


def test_requests_are_due_at_the_rate_evenly_or_at_random() -> None:
    even, random = (arrivals(20_000, 1_000.0, random=each) for each in (False, True))
    assert np.allclose(np.diff(even), 0.001)
    gaps = np.diff(random)
    assert gaps.min() >= 0 and gaps.mean() == pytest.approx(0.001, rel=0.05)
    assert gaps.std() == pytest.approx(0.001, rel=0.05)  # exponential: as wide as its mean


def test_replies_of_resp_are_read_whole_and_errors_count_as_such() -> None:
    replies = [b"*2\r\n$3\r\na\r\n\r\n:1\r\n", b"-ERR no\r\n"]

    def talk(connection: socket.socket) -> None:
        with connection:
            for reply in replies:
                if connection.recv(65_536):
                    for byte in range(len(reply)):
                        connection.sendall(reply[byte : byte + 1])
            connection.recv(65_536)

    with serving(talk) as port, Load(port, 1, resp_frame) as load:
        samples = load.open([command("PING")], 0.002, 1_000.0)
    assert samples.statuses.tolist() == [200, 500]


def test_an_answer_in_chunks_ends_with_the_empty_one() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    assert http_frame(head[:-2]) == (0, 0)
    assert http_frame(head + b"2\r\nok\r\n") == (-1, 200)
    assert http_frame(ANSWER) == (len(ANSWER), 200)
