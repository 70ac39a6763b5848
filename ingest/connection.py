"""A connection to an address that was checked: names are resolved here, every answer is looked at, and the socket goes
to the address itself, so that a second answer of the name server changes nothing. No proxies. Knows no HTTP."""

from __future__ import annotations

import io
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, TypeAlias

from aidre.engine.errors import FetchFailed
from aidre.ingest.addresses import read_address, special
from aidre.ingest.urls import PORTS, Url

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
Connect: TypeAlias = Callable[[str, int, float], socket.socket]

MOST_ADDRESSES = 8
"""Addresses of one name that are tried."""


class Deadline:
    """How long something may still take: until `seconds` from now, and never more than `pause` without a sign."""

    def __init__(self, seconds: float, pause: float) -> None:
        self._end, self._seconds, self._pause = monotonic() + seconds, seconds, pause

    def left(self) -> float:
        """Seconds until the next sign must have come; raises FetchFailed when there are none."""
        left = self._end - monotonic()
        if left <= 0:
            raise FetchFailed(f"not done after {self._seconds:g} seconds", down=True)
        return min(left, self._pause)


class Stream:
    """The socket as http.client uses one. Every read has the time that is left, and all of them a limit of bytes."""

    def __init__(self, sock: socket.socket, deadline: Deadline, most: int) -> None:
        self._sock, self._deadline, self._most = sock, deadline, most

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._deadline.left())
        self._sock.sendall(data)

    def makefile(self, mode: str, *_: Any) -> io.BufferedReader:
        """http.client reads from this and closes it, while the socket stays its own."""
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """Nothing: http.client closes as soon as it has read the headers, while the body is still to come."""

    def end(self) -> None:
        self._sock.close()

    def break_off(self) -> None:
        """From another thread: whoever waits for an answer gets the end of it."""
        with suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def receive(self, buffer: memoryview) -> int:
        self._sock.settimeout(self._deadline.left())
        try:
            count = self._sock.recv_into(buffer)
        except TimeoutError:
            self._deadline.left()  # says so where it is the whole time that is over
            raise
        self._most -= count
        if self._most < 0:
            raise FetchFailed("sends more bytes than a document may have")
        return count


class _Reader(io.RawIOBase):
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._stream.receive(memoryview(buffer))


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, from the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def dial(address: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection to an address in numbers."""
    return socket.create_connection((address, port), timeout=seconds)


def checked_addresses(url: Url, *, private: bool, seconds: float, resolve: Resolve) -> list[str]:
    """Where a URL's host may be reached; FetchFailed unless every one of its addresses is public or `private` is."""
    if read_address(url.host) is not None:
        found: Sequence[str] = [url.host]
    else:
        found = _resolved(url, seconds, resolve)
    if not private:
        for text in found:
            address = read_address(text)
            kind = "unreadable" if address is None else special(address)
            if kind is not None:
                where = url.host if text == url.host else f"{url.host} has the address {text[:80]}, which"
                raise FetchFailed(f"refused: {where} is {kind}; [sources] allow_private_addresses lets it pass")
    return list(found[:MOST_ADDRESSES])


def open_stream(
    url: Url, addresses: Sequence[str], *, deadline: Deadline, most: int, connect: Connect, context: ssl.SSLContext
) -> Stream:
    """A connection to the first of these addresses that answers, with TLS under the host's name for https."""
    fault: Exception | None = None
    for address in addresses:
        try:
            sock = connect(address, url.port, deadline.left())
        except OSError as error:
            fault = error
            continue
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if url.scheme == "https":
                sock.settimeout(deadline.left())
                sock = context.wrap_socket(sock, server_hostname=url.host, suppress_ragged_eofs=False)
        except BaseException:
            sock.close()
            raise
        return Stream(sock, deadline, most)
    raise fault or FetchFailed("its host has no address")


def is_usual_port(port: int) -> bool:
    return port in PORTS.values()


def _resolved(url: Url, seconds: float, resolve: Resolve) -> Sequence[str]:
    """In a thread of its own: the system's resolver knows no time-out."""
    answer: list[Sequence[str] | Exception] = []

    def run() -> None:
        try:
            answer.append(resolve(url.host, url.port))
        except Exception as error:
            answer.append(error)

    thread = threading.Thread(target=run, name="resolver", daemon=True)
    thread.start()
    thread.join(seconds)
    found = answer[0] if answer else TimeoutError()
    if isinstance(found, (OSError, UnicodeError)):
        reason = "no answer in time" if isinstance(found, TimeoutError) else getattr(found, "strerror", None)
        raise FetchFailed(f"the name {url.host} cannot be resolved: {reason or 'no such name'}", down=True)
    if isinstance(found, Exception):
        raise found
    if not found:
        raise FetchFailed(f"the name {url.host} cannot be resolved: it has no address")
    return found
