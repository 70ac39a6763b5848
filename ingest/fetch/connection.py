"""A connection to a checked address: the name is resolved once, every address is checked, and the socket connects to
the address itself, which defeats DNS rebinding. No proxies. Knows no HTTP."""

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
from aidre.ingest.fetch.addresses import parse_address, special_kind
from aidre.ingest.fetch.urls import PORTS, Url

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
Connect: TypeAlias = Callable[[str, int, float], socket.socket]

MAX_ADDRESSES = 8
"""Addresses of one name that are tried."""


class Deadline:
    """A time limit: `seconds` from now, and at most `pause` seconds without progress."""

    def __init__(self, seconds: float, pause: float) -> None:
        self._end, self._seconds, self._pause = monotonic() + seconds, seconds, pause

    def left(self) -> float:
        """Seconds until progress is required; raises FetchFailed if the time is over."""
        seconds = self._end - monotonic()
        if seconds <= 0:
            raise FetchFailed(f"not done after {self._seconds:g} seconds", down=True)
        return min(seconds, self._pause)


class Stream:
    """A socket for http.client, with the deadline applied to every read and a limit on all bytes read."""

    def __init__(self, sock: socket.socket, deadline: Deadline, max_bytes: int) -> None:
        self._sock, self._deadline, self._remaining = sock, deadline, max_bytes

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._deadline.left())
        self._sock.sendall(data)

    def makefile(self, mode: str, *_: Any) -> io.BufferedReader:
        """A reader for http.client, which closes it without closing the socket."""
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """Do nothing: http.client calls it after the headers, before the body is read."""

    def end(self) -> None:
        self._sock.close()

    def abort(self) -> None:
        """Shut the socket down, which ends a read in another thread."""
        with suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def receive(self, buffer: memoryview) -> int:
        self._sock.settimeout(self._deadline.left())
        try:
            count = self._sock.recv_into(buffer)
        except TimeoutError:
            self._deadline.left()  # raises FetchFailed if the whole time is over
            raise
        self._remaining -= count
        if self._remaining < 0:
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
    """Resolve a name with the system's resolver."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def dial(address: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection to a numeric address."""
    return socket.create_connection((address, port), timeout=seconds)


def checked_addresses(url: Url, *, private: bool, seconds: float, resolve: Resolve) -> list[str]:
    """The addresses of a URL's host; raises FetchFailed if one of them is not public, unless `private` is true."""
    if parse_address(url.host) is not None:
        addresses: Sequence[str] = [url.host]
    else:
        addresses = _resolve(url, seconds, resolve)
    if not private:
        for text in addresses:
            address = parse_address(text)
            kind = "unreadable" if address is None else special_kind(address)
            if kind is not None:
                where = url.host if text == url.host else f"{url.host} has the address {text[:80]}, which"
                raise FetchFailed(f"refused: {where} is {kind}; [sources] allow_private_addresses permits it")
    return list(addresses[:MAX_ADDRESSES])


def open_stream(
    url: Url,
    addresses: Sequence[str],
    *,
    deadline: Deadline,
    max_bytes: int,
    connect: Connect,
    context: ssl.SSLContext | None,
) -> Stream:
    """Connect to the first address that answers; with a context by TLS, verified against the host name."""
    fault: Exception | None = None
    for address in addresses:
        try:
            sock = connect(address, url.port, deadline.left())
        except OSError as error:
            fault = error
            continue
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                sock.settimeout(deadline.left())
                sock = context.wrap_socket(sock, server_hostname=url.host, suppress_ragged_eofs=False)
        except BaseException:
            sock.close()
            raise
        return Stream(sock, deadline, max_bytes)
    raise fault or FetchFailed("its host has no address")


def is_usual_port(port: int) -> bool:
    return port in PORTS.values()


def _resolve(url: Url, seconds: float, resolve: Resolve) -> Sequence[str]:
    """Resolve in a thread, because the system's resolver has no time-out."""
    answer: list[Sequence[str] | Exception] = []

    def run() -> None:
        try:
            answer.append(resolve(url.host, url.port))
        except Exception as error:
            answer.append(error)

    thread = threading.Thread(target=run, name="resolver", daemon=True)
    thread.start()
    thread.join(seconds)
    result = answer[0] if answer else TimeoutError()
    if isinstance(result, (OSError, UnicodeError)):
        reason = "no answer in time" if isinstance(result, TimeoutError) else getattr(result, "strerror", None)
        raise FetchFailed(f"the name {url.host} cannot be resolved: {reason or 'no such name'}", down=True)
    if isinstance(result, Exception):
        raise result
    if not result:
        raise FetchFailed(f"the name {url.host} cannot be resolved: it has no address")
    return result
