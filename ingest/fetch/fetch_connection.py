"""The connection of one HTTP request, for httpcore: time is limited, and so are all bytes that are read. No proxies.

The socket comes from the fetcher, which dials a checked address. TLS verifies the host name all the same.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, TypeAlias

import httpcore2

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.urls import Url
from aidre.ingest.records import escape_unprintable


class FetchDeadline:
    """A time limit: `seconds` from now, and at most `pause` seconds without progress."""

    def __init__(self, seconds: float, pause: float) -> None:
        self._end, self._seconds, self._pause = monotonic() + seconds, seconds, pause

    def left(self) -> float:
        """Seconds until progress is required; raises FetchFailed if the time is over."""
        seconds = self._end - monotonic()
        if seconds <= 0:
            raise FetchFailed(f"not done after {self._seconds:g} seconds", down=True)
        return min(seconds, self._pause)


Dial: TypeAlias = Callable[[str, int], socket.socket]


class FetchConnection(httpcore2.NetworkBackend, httpcore2.NetworkStream):
    """One socket, dialled when the request is sent. httpcore's own time-outs are not used: the deadline is stricter."""

    def __init__(
        self, dial: Dial, deadline: FetchDeadline, max_bytes: int, context: ssl.SSLContext | None = None
    ) -> None:
        self._dial, self._deadline, self._remaining, self._context = dial, deadline, max_bytes, context
        self._sock: socket.socket | None = None
        self._is_aborted = False

    @contextmanager
    def send(
        self, method: str, url: Url, headers: Mapping[str, str], content: bytes | None = None
    ) -> Iterator[httpcore2.Response]:
        """Send a request and yield the response, its body unread. Raises FetchFailed, with the error as its cause."""
        answered = False
        fields = [("Host", url.authority), *headers.items()]
        target = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        connection = httpcore2.HTTPConnection(target.origin, self._context, network_backend=self)
        try:
            with connection.stream(method, target, headers=fields, content=content) as response:
                answered = True
                yield response
        except TimeoutError as error:
            raise FetchFailed("no answer in time", down=True) from error
        except ssl.SSLCertVerificationError as error:
            raise FetchFailed(f"its certificate is not accepted: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise FetchFailed(f"TLS failed: {error.reason or 'the connection was closed'}", down=True) from error
        except (httpcore2.ProtocolError, ValueError) as error:
            reason = "the answer ends early" if answered else f"the answer is not HTTP: {_one_line(error)}"
            raise FetchFailed(reason) from error
        except OSError as error:
            raise FetchFailed(f"the connection failed: {error.strerror or _one_line(error)}", down=True) from error
        finally:
            self.close()

    def abort(self) -> None:
        """Shut the socket down, which ends a read in another thread; the request fails if it has none yet."""
        self._is_aborted = True
        if self._sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> FetchConnection:
        self._sock = self._dial(host, port)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> FetchConnection:
        # A body without a length that ends without TLS's closing alert was cut off.
        self._sock = ssl_context.wrap_socket(self._ready(), server_hostname=server_hostname, suppress_ragged_eofs=False)
        return self

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            data = self._ready().recv(max_bytes)
        except TimeoutError:
            self._deadline.left()  # raises FetchFailed if the whole time is over
            raise
        self._remaining -= len(data)
        if self._remaining < 0:
            raise FetchFailed("sends more bytes than a document may have")
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._ready().sendall(buffer)

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()

    def _ready(self) -> socket.socket:
        """The socket, which waits no longer than the deadline says."""
        if self._sock is None or self._is_aborted:
            raise FetchFailed("not fetched: the run ends")
        self._sock.settimeout(self._deadline.left())
        return self._sock


def _one_line(error: Exception) -> str:
    return escape_unprintable((str(error) or type(error).__name__)[:200])
