"""Applications behind real connections, in a thread of this process: what a client over TCP sees of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from msgspec.structs import replace

from aidre.api.app import create_app
from aidre.api.config.settings import Settings, parse_settings
from aidre.api.server.connection import ServerConnection
from aidre.engine.collection.store import Store
from tests.support.clocks import WAIT_SECONDS, until

GRACE_SECONDS = 5
"""After which what a failed test left under way is cancelled, when its server ends."""
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class CountingConnection(ServerConnection):
    """A connection that says how much has come from its client."""

    taken = 0
    """Bytes."""

    @property
    def is_taking(self) -> bool:
        """Whether the connection still reads."""
        return self._is_reading

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.taken += len(data)


class Server:
    """One that listens on a port of its own."""

    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        application: Any,
        protocol: type[ServerConnection] = ServerConnection,
        loop_factory: LoopFactory | None = None,
        **options: Any,
    ) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self.listener.getsockname()[1]
        config = uvicorn.Config(
            application,
            interface="asgi3",
            http=protocol,
            log_level="critical",
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_SECONDS,
            **options,
        )
        self.server = uvicorn.Server(config)
        loop_factory = loop_factory or config.get_loop_factory()
        self.thread = threading.Thread(target=self._serve, args=(loop_factory,), daemon=True)

    def _serve(self, loop_factory: LoopFactory | None) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            self.loop = runner.get_loop()
            runner.run(self.server.serve([self.listener]))

    @property
    def open(self) -> int:
        """How many connections are."""
        return len(self.server.server_state.connections)

    def rest(self) -> None:
        """Waits until nobody is connected and nothing runs."""
        state = self.server.server_state
        until(lambda: not state.connections and not state.tasks, "the server does not come to rest")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)

    def connection(self, client: socket.socket) -> CountingConnection | None:
        """The other end of a client; None before it is accepted and after it is gone."""
        address = client.getsockname()
        connections = list(self.server.server_state.connections)
        return next((one for one in connections if isinstance(one, CountingConnection) and one.client == address), None)

    def holds(self, client: socket.socket) -> bool:
        """Whether the connection is open on this side."""
        return self.connection(client) is not None

    def accepted(self, client: socket.socket) -> CountingConnection:
        """The other end of a client, as soon as it is there."""
        until(lambda: self.holds(client), "the connection is not accepted")
        connection = self.connection(client)
        assert connection is not None
        return connection

    def take(self, client: socket.socket, content: bytes) -> None:
        """Sends on an open connection, and waits until the server has taken it or ended the connection."""
        connection = self.accepted(client)
        total = connection.taken + len(content)
        client.sendall(content)
        until(lambda: connection.taken >= total or not self.holds(client), "the server does not read")

    def turn(self) -> None:
        """Lets the loop turn so often that a request that waits for nothing is answered."""

        async def turns() -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(turns(), self.loop).result(WAIT_SECONDS)

    def say(self, content: bytes) -> bytes:
        """All that comes back for these bytes until the connection ends."""
        with closing(self.connect()) as client:
            client.sendall(content)
            return until_closed(client)

    @contextmanager
    def run(self) -> Iterator[None]:
        self.thread.start()
        try:
            until(lambda: self.server.started or not self.thread.is_alive())
            assert self.thread.is_alive()
            yield
        finally:
            self.server.should_exit = True
            self.thread.join(WAIT_SECONDS)
            self.listener.close()
            assert not self.thread.is_alive()


@contextmanager
def running(application: Any, protocol: type[ServerConnection] = ServerConnection) -> Iterator[Server]:
    """A server of an application that knows no lifespan."""
    server = Server(application, protocol, lifespan="off")
    with server.run():
        yield server


def until_closed(client: socket.socket) -> bytes:
    """All that comes until the server ends the connection; TimeoutError where it does not."""
    received = b""
    try:
        while part := client.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return received


def _open_to_pages(settings: Settings) -> Settings:
    """As a server with a public `base_url`: pages of every origin may ask. `x` is the host of the raw requests."""
    server = replace(settings.server, hosts=("x", *settings.server.hosts))
    if server.cors_origins is None:
        server = replace(server, cors_origins=("*",))
    return replace(settings, server=server)


class Served(Server):
    """The whole of aidre over a store, which says how many requests went the general way."""

    def __init__(self, store: Path, configuration: str, protocol: type[ServerConnection] = ServerConnection) -> None:
        self.app = create_app(Store(store), _open_to_pages(parse_settings(configuration)))
        self.running = self.app.state.guard.running
        self.asked = 0
        super().__init__(self._counted, protocol)

    async def _counted(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += scope["type"] == "http"
        await self.app(scope, receive, send)

    @contextmanager
    def full(self) -> Iterator[None]:
        """While all places are taken."""
        self.running.count += self.running.most
        try:
            yield
        finally:
            self.running.count -= self.running.most


@contextmanager
def served(store: Path, configuration: str = "") -> Iterator[tuple[Served, httpx.Client]]:
    one = Served(store, configuration)
    with one.run(), httpx.Client(base_url=f"http://127.0.0.1:{one.port}", timeout=WAIT_SECONDS) as client:
        yield one, client
