"""A server behind a proxy that fails as a test says: it refuses, resets connections, and changes bytes on the way."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.clocks import WAIT_SECONDS

if TYPE_CHECKING:
    from tests.support.servers import Served

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST, and drops what was not sent."""


@dataclass(frozen=True)
class Asked:
    """A request that came to the proxy; `number` counts from 0."""

    number: int
    method: str
    target: str
    head: bytes
    body: bytes


@dataclass(frozen=True)
class Fault:
    """What happens to a request. Without an `answer` of its own the server behind is asked; its answer is changed by
    `change`, and sent up to `cut` bytes, after which the connection is reset."""

    answer: bytes | None = None
    change: Callable[[bytes], bytes] | None = None
    cut: int | None = None


Plan = Callable[[Asked], Fault | None]


def refusal(status: int, **fields: str) -> Fault:
    """An answer with this status and without content that says anything."""
    named = {"Content-Type": "text/plain", "Content-Length": "4", "Connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in fields.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return Fault(f"HTTP/1.1 {status} Refused\r\n{lines}\r\nlate".encode())


def answering(status: int, body: bytes, content_type: str = "application/json", **fields: str) -> Fault:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{more}"
    return Fault(f"{head}Connection: close\r\n\r\n".encode() + body)


RESET_BEFORE = Fault(answer=b"", cut=0)
"""The connection is reset before the server sees the request."""
RESET_AFTER = Fault(cut=0)
"""The server acts on the request, and its answer is lost."""


class FaultyServer:
    """`plan` says what happens to each request; `asked` are those that came."""

    def __init__(self) -> None:
        self.plan: Plan = lambda asked: None
        self.asked: list[Asked] = []
        self.behind: int | None = None
        self._lock = threading.Lock()
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                proxy.handle(self.request)

        class Proxy(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 64

            def shutdown_request(self, request: Any) -> None:
                request.close()  # without a FIN before the RST of a reset

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # the client has gone

        self._server = Proxy(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def handle(self, client: socket.socket) -> None:
        """One request, one answer, one connection."""
        client.settimeout(WAIT_SECONDS)
        head, body = _read_request(client)
        if not head:
            return
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        with self._lock:
            asked = Asked(len(self.asked), method, target, head, body)
            self.asked.append(asked)
        fault = self.plan(asked) or Fault()
        answer = self._forward(head, body) if fault.answer is None else fault.answer
        if fault.change is not None:
            answer = fault.change(answer)
        if fault.cut is None:
            client.sendall(answer)
        else:
            client.sendall(answer[: fault.cut])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)

    def _forward(self, head: bytes, body: bytes) -> bytes:
        assert self.behind is not None
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with socket.create_connection(("127.0.0.1", self.behind), timeout=WAIT_SECONDS) as server:
            server.sendall(b"\r\n".join([lines[0], b"Connection: close", *lines[1:]]) + b"\r\n\r\n" + body)
            received = b""
            while part := server.recv(1 << 16):
                received += part
        return received

    @contextmanager
    def run(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()


def _read_request(client: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        part = client.recv(1 << 16)
        if not part:
            return b"", b""
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < (lengths[0] if lengths else 0):
        body += client.recv(1 << 16)
    return head, body


@contextmanager
def faulty(store: Path, configuration: str = "") -> Iterator[tuple[FaultyServer, Served]]:
    """The whole of aidre over a store, behind the proxy, whose address it takes for its own. `{base}` in the
    configuration stands for that; without a section [server] one is added."""
    proxy = FaultyServer()
    if "[server]" not in configuration:
        configuration = '[server]\nbase_url = "{base}"\n' + configuration
    server = _served(store, configuration.replace("{base}", proxy.url))
    proxy.behind = server.port
    with server.run(), proxy.run():
        yield proxy, server


def _served(store: Path, configuration: str) -> Served:
    """A server in this process, or in another one where the client alone is installed."""
    if find_spec("aidre") is None:
        from tests.support.outside import Outside

        outside: Any = Outside(store, configuration)
        return outside  # type: ignore[no-any-return]
    from tests.support.servers import Served

    return Served(store, configuration)


@contextmanager
def foreign(plan: Plan) -> Iterator[FaultyServer]:
    """A server of somebody else, all of whose answers the plan gives."""
    proxy = FaultyServer()
    proxy.plan = plan
    with proxy.run():
        yield proxy


@dataclass
class Failing:
    """A plan for requests of some paths: each meets all of the faults in turn, and is then forwarded."""

    faults: tuple[Fault, ...]
    prefix: str = ""
    _turns: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def __call__(self, asked: Asked) -> Fault | None:
        if not asked.target.startswith(self.prefix):
            return None
        turn = self._turns.get((asked.target, asked.body), 0)
        self._turns[asked.target, asked.body] = turn + 1
        return self.faults[turn] if turn < len(self.faults) else None
