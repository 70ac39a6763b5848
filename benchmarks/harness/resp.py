"""RESP, the protocol of Valkey: writes commands and reads replies. Imports only the standard library."""

from __future__ import annotations

import socket
from typing import Any

_LINE = b"\r\n"
_READ = 1 << 18


def command(*words: bytes | str | float) -> bytes:
    """The bytes of a command."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def reply_length(data: bytes) -> int:
    """The length of the first reply, 0 while it is incomplete."""
    at, left = 0, 1
    while left:
        end = data.find(_LINE, at)
        if end < 0:
            return 0
        kind, left = data[at], left - 1
        length = int(data[at + 1 : end]) if kind in b"$*" else 0
        at = end + 2
        if kind == 42:  # *
            left += max(0, length)
        elif kind == 36 and length >= 0:  # $
            at += length + 2
    return at if at <= len(data) else 0


def value(data: bytes) -> Any:
    """The first reply: bytes, an integer, None, or a list. Raises ValueError for an error."""
    return _value(data, 0)[0]


def _value(data: bytes, at: int) -> tuple[Any, int]:
    end = data.index(_LINE, at)
    kind, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"-":
        raise ValueError(line.decode("utf-8", "replace"))
    if kind == b"+":
        return line, at
    number = int(line)
    if kind == b":":
        return number, at
    if number < 0:
        return None, at
    if kind == b"$":
        return data[at : at + number], at + number + 2
    items = []
    for _ in range(number):
        item, at = _value(data, at)
        items.append(item)
    return items, at


class Connection:
    """A blocking connection with one pending command or pipeline."""

    def __init__(self, port: int, seconds: float | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def ask(self, content: bytes, replies: int = 1) -> list[bytes]:
        """Sends commands; returns the bytes of their replies."""
        self._socket.sendall(content)
        found: list[bytes] = []
        while len(found) < replies:
            while not (length := reply_length(self._rest)):
                part = self._socket.recv(_READ)
                if not part:
                    raise ConnectionError("the server closed the connection")
                self._rest += part
            found.append(self._rest[:length])
            self._rest = self._rest[length:]
        return found

    def run(self, *words: bytes | str | float) -> Any:
        """Runs one command. Raises ValueError with the error of the server."""
        return value(self.ask(command(*words))[0])

    def close(self) -> None:
        self._socket.close()
