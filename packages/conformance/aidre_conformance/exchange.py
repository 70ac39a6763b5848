"""Sends requests exactly as they are written and keeps what was exchanged.

Not the client of this project, nor a comfortable HTTP library: a kit sends header fields with spaces, paths with
encoded slashes and bodies that are not JSON, follows no redirect and decodes nothing by itself.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import ssl
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aidre_conformance.judging import Failed, shortened

MAX_BODY_BYTES = 32 << 20
"""Of an answer; more is not read."""
MAX_WAITS, MAX_WAIT_SECONDS = 3, 65.0
"""How often and for how long the kit waits for a server that limits its rate."""
SECRET_FIELDS = frozenset({"authorization", "proxy-authorization", "cookie"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as bytes. `problem` says why there is no answer (status 0)."""

    method: str
    url: str
    request_fields: tuple[tuple[str, str], ...]
    request_body: bytes = field(repr=False)
    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    seconds: float
    problem: str | None = None

    def header(self, name: str) -> str | None:
        """The lines of a header field joined by commas; None without one."""
        lines = [value for key, value in self.fields if key.lower() == name]
        return ", ".join(lines) if lines else None

    @property
    def media_type(self) -> str:
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def content(self) -> bytes:
        """The body without its Content-Encoding. Failed where it is not encoded as it says."""
        encoding = (self.header("content-encoding") or "identity").strip().lower()
        try:
            if encoding == "gzip":
                return gzip.decompress(self.body)
            if encoding == "deflate":
                return zlib.decompress(self.body)
        except (OSError, EOFError, zlib.error) as error:
            raise Failed(f"{self.name}: the body is not {encoding}: {error}") from None
        if encoding not in {"identity", ""}:
            raise Failed(f"{self.name}: Content-Encoding {encoding} was not asked for")
        return self.body

    @property
    def json(self) -> Any:
        """The body as a JSON value. Failed where it is none, or not UTF-8."""
        try:
            return json.loads(self.content.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise Failed(f"{self.name}: the body is not JSON in UTF-8: {shortened(str(error))}") from None

    @property
    def object(self) -> dict[str, Any]:
        """The body as a JSON object. Failed where it is none."""
        value = self.json
        if not isinstance(value, dict):
            raise Failed(f"{self.name}: the body is not a JSON object")
        return value

    @property
    def name(self) -> str:
        """For messages: method, target and status."""
        parts = urlsplit(self.url)
        target = shortened(parts.path + (f"?{parts.query}" if parts.query else ""))
        return f"{self.method} {target} answered {self.status}"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


@dataclass(slots=True)
class Sender:
    """Sends requests one after the other over connections that are kept open. `timeout` is in seconds."""

    timeout: float = 15.0
    sleep: Callable[[float], None] = time.sleep
    _connections: dict[tuple[str, str], http.client.HTTPConnection] = field(default_factory=dict, init=False)

    def send(
        self, method: str, url: str, fields: Iterable[tuple[str, str]] = (), body: bytes | None = None
    ) -> Iterable[Exchange]:
        """The exchanges of one request: several where the server asks to wait (429, 503 with Retry-After)."""
        listed = tuple(fields)
        for wait in range(MAX_WAITS + 1):
            exchange = self._exchange(method, url, listed, body)
            yield exchange
            pause = _pause(exchange)
            if pause is None or wait == MAX_WAITS:
                return
            self.sleep(pause)

    def _exchange(self, method: str, url: str, fields: tuple[tuple[str, str], ...], body: bytes | None) -> Exchange:
        started = time.monotonic()
        status, content, problem = 0, b"", None
        answered: list[tuple[str, str]] = []
        for is_last in (False, True):
            connection, is_new = self._connection(url)
            try:
                status, answered, content = self._over(connection, method, url, fields, body)
                break
            except TimeoutError:
                self._forget(url)
                problem = f"no whole answer within {self.timeout:g} s"
                break
            except (OSError, http.client.HTTPException) as error:
                self._forget(url)
                if is_new or is_last:
                    problem = shortened(f"{type(error).__name__}: {error}")
                    break
        shown_fields = tuple((name, "(secret)" if name.lower() in SECRET_FIELDS else value) for name, value in fields)
        seconds = time.monotonic() - started
        return Exchange(method, url, shown_fields, body or b"", status, tuple(answered), content, seconds, problem)

    def _over(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        url: str,
        fields: tuple[tuple[str, str], ...],
        body: bytes | None,
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in fields:
            connection.putheader(name, value.encode("latin-1", errors="replace"))
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before it read all
            connection.endheaders(body)
        response = connection.getresponse()
        content = response.read(MAX_BODY_BYTES)
        if response.length:  # what was announced and did not come, or is too much
            connection.close()
            raise http.client.IncompleteRead(content[:0], response.length)
        if not response.isclosed():
            connection.close()
        return response.status, response.getheaders(), content

    def _connection(self, url: str) -> tuple[http.client.HTTPConnection, bool]:
        parts = urlsplit(url)
        key = (parts.scheme, parts.netloc)
        known = self._connections.get(key)
        if known is not None:
            return known, False
        made: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            made = http.client.HTTPSConnection(parts.netloc, timeout=self.timeout, context=context)
        else:
            made = http.client.HTTPConnection(parts.netloc, timeout=self.timeout)
        self._connections[key] = made
        return made, True

    def _forget(self, url: str) -> None:
        parts = urlsplit(url)
        connection = self._connections.pop((parts.scheme, parts.netloc), None)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def _pause(exchange: Exchange) -> float | None:
    """Seconds that the server asks to wait; None where it asks for none, or for too many."""
    seconds_text = (exchange.header("retry-after") or "").strip()
    if exchange.status not in {429, 503} or not (seconds_text.isascii() and seconds_text.isdigit()):
        return None
    seconds = float(seconds_text[:9])
    return seconds if seconds <= MAX_WAIT_SECONDS else None
