"""Runs the server: the listening socket, the workers, and an end that finishes what is running; or talks to one client.

Everything that can go wrong before it listens is one ConfigurationError with one line.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import gc
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from aidre.api import console
from aidre.api.app import create_app
from aidre.api.chosen import absent_names, check_granted
from aidre.api.connection import Connection, room_for_connections
from aidre.api.cursor import INHERITED_SECRET, SECRET_BYTES
from aidre.api.exposure import check_exposure, private_collections
from aidre.api.guard.guard import check_guard
from aidre.api.logs import speak
from aidre.api.provenance.service import provenance_for
from aidre.api.settings import Settings, load_settings
from aidre.api.shared_folder import shared_folder
from aidre.engine.errors import ConfigurationError
from aidre.engine.store import Store

BACKLOG = 2_048
SEND_BYTES = 262_144
"""What the system holds for one who reads slowly: left to itself it makes room for several megabytes of answers, and
whoever asks for much and reads nothing has them all made."""
SHUTDOWN_SECONDS = 30
PARENT_SECONDS = 0.5
WORKER_SECONDS = 60
"""A worker that does not answer its parent for so long hangs and is replaced. On a busy machine it may take a while."""


def serve(store: Path, settings_path: Path | None, host: str, port: int, workers: int = 1) -> None:
    """Serves until it is interrupted or terminated; raises ConfigurationError."""
    if not store.is_dir():
        raise ConfigurationError(f"there is no store at {store}: make one with `aidre ingest`")
    if workers < 1:
        raise ConfigurationError(f"--workers must be at least 1, not {workers}")
    settings = load_settings(settings_path)
    check_granted(Store(store), settings)
    check_exposure(settings, host, private_collections(Store(store), settings))
    with _listen(host, port) as listener:
        settings = with_base_url(settings, host, listener.getsockname()[1])
        provenance_for(settings)  # what is wrong with keys is said once, and not by every worker
        asyncio.run(check_guard(settings))
        speak(structured=settings.server.log == "requests")
        sys.stderr.write(f"aidre serves {settings.server.base_url}\n")
        sys.stderr.flush()
        _tell_absent(store, settings)
        if workers == 1:
            _serve_alone(create_app(Store(store), settings), listener)
        else:
            _serve_together(store, settings, listener, workers)


def talk(store: Path, settings_path: Path | None) -> None:
    """Answers the one MCP client on standard input and output, until that closes; raises ConfigurationError."""
    settings = load_settings(settings_path)
    check_granted(Store(store), settings)
    _tell_absent(store, settings)
    asyncio.run(_talk(create_app(Store(store), settings)))


def _tell_absent(store: Path, settings: Settings) -> None:
    for absent in absent_names(Store(store), settings):
        console.say(absent)


async def _talk(app: Starlette) -> None:
    async with app.router.lifespan_context(app):
        await app.state.mcp.over_stdio()


def with_base_url(settings: Settings, host: str, port: int) -> Settings:
    """The settings with a base_url on loopback where the configuration has none."""
    if settings.server.base_url is not None:
        return settings
    shown = f"[{host}]" if ":" in host else host
    return replace(settings, server=replace(settings.server, base_url=f"http://{shown}:{port}"))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # IPPROTO_TCP by name: asyncio sets TCP_NODELAY only on sockets that say so, and without it answers wait 40 ms.
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"{host}:{port} is no address to listen on: {_reason(error)}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ConfigurationError(f"port {port} on {host} is in use: choose another with --port") from error
        raise ConfigurationError(f"cannot listen on {host}:{port}: {_reason(error)}") from error
    return listener


def _reason(error: OSError | OverflowError) -> str:
    return str(error.strerror) if isinstance(error, OSError) else str(error)


def _config(app: Starlette | Callable[[], Starlette], workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=not isinstance(app, Starlette),
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan="on",
        workers=workers,
        access_log=False,
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_worker_healthcheck=WORKER_SECONDS,
    )


def _serve_alone(app: Starlette, listener: socket.socket) -> None:
    _make_room()
    _keep_for_good()
    server = uvicorn.Server(_config(app, 1))
    with _quiet_signals():
        server.run(sockets=[listener])
    if not server.started:
        raise _did_not_start()


def _serve_together(store: Path, settings: Settings, listener: socket.socket, workers: int) -> None:
    os.environ[INHERITED_SECRET] = secrets.token_hex(SECRET_BYTES)
    # The settings themselves go to the workers: what one of them reads from the file later may be another file.
    with shared_folder() as run:
        application = functools.partial(worker, store.resolve(), settings, os.getpid(), run)
        supervisor = Multiprocess(_config(application, workers), sockets=[listener])
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise _did_not_start()


def _did_not_start() -> ConfigurationError:
    return ConfigurationError("the server could not start: the messages above say why")


def worker(store: Path, settings: Settings, parent: int, run: Path) -> Starlette:
    """The application of one worker, which ends when its parent does, however that ended. `run` is for what the workers
    of one server share."""
    speak(structured=settings.server.log == "requests")
    threading.Thread(target=_follow_parent, args=(parent,), name="parent", daemon=True).start()
    app = create_app(Store(store), settings, run)
    _make_room()
    _keep_for_good()
    return app


def _make_room() -> None:
    Connection.most = room_for_connections()


def _keep_for_good() -> None:
    """Exempts what stands by now from garbage collection: to go over all modules takes some 20 ms, of some request."""
    gc.collect()
    gc.freeze()


def _follow_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """uvicorn raises the signal that ended it once more, when it is done: a clean end needs no second one."""
    former = {number: signal.signal(number, _ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _ignore(number: int, frame: FrameType | None) -> None:
    """A signal that was already obeyed."""
