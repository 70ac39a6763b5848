"""Runs the server: the listening socket, the workers and a graceful shutdown; or one MCP client on standard input.

Everything that fails before the server listens is one ConfigurationError with one line. Checks that a configuration
declares TLS and keys before a server listens beyond this machine.

The folder that the workers of one server share, in memory if possible; removes the folders of dead servers.

The process that creates a folder holds a lock on a file in it for its lifetime. The next server that starts removes
every folder without a lock: this works after any signal, and does not depend on process ids, which are reused.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import functools
import gc
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from aidre.api.access import check_guard, visibility_in_force
from aidre.api.app import create_app, of_replica
from aidre.api.cli import console
from aidre.api.cli.models import fetch_served
from aidre.api.cli.publish import publishing, replica_for, replicating, seconds_since_pull
from aidre.api.cli.select import check_granted_collections, missing_collections
from aidre.api.config import Settings, is_loopback, load_settings
from aidre.api.http import configure_logging, count_restart
from aidre.api.protocols.provenance import provenance_for
from aidre.api.retrieval import SECRET_BYTES, SECRET_VARIABLE
from aidre.api.server import ServerConnection, connection_capacity, raise_file_limit
from aidre.engine.errors import AidreError, ConfigurationError
from aidre.engine.ports import Source

MEMORY_FOLDER = Path("/dev/shm")
"""A file system in memory."""

PREFIX = "aidre-run-"
OWNER_FILE = "owner"
GRACE_SECONDS = 60.0
"""A younger folder without a lock may belong to a server that is about to take the lock."""


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder of this process, removed at the end of the context. Abandoned folders are removed at its start."""
    parent = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
    remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    descriptor = os.open(folder / f".{OWNER_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (folder / f".{OWNER_FILE}").rename(folder / OWNER_FILE)  # under this name the file is always locked
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_abandoned(parent: Path) -> None:
    """Remove the folders of servers that have ended, those of other users excepted."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.geteuid():
        return False
    try:
        descriptor = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return status.st_mtime < time.time() - GRACE_SECONDS
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def check_exposure(settings: Settings, host: str, private: Iterable[str]) -> None:
    """Raises ConfigurationError if a host beyond loopback lacks TLS, or a private collection keys and [oauth].

    `private` are the names of the private collections. One that an editorial domain or an intake opens needs no key.
    """
    if is_loopback(host):
        return
    base_url = settings.server.base_url
    if base_url is None or not base_url.lower().startswith("https://"):
        problem = "is missing" if base_url is None else f"is {base_url}"
        raise ConfigurationError(
            f"server.base_url {problem}: to listen on {host}, set it to the https:// address that callers use"
        )
    if settings.server.tls != "proxy":
        raise ConfigurationError(
            f'to listen on {host}, put a proxy that speaks TLS in front and declare it with server.tls = "proxy"'
        )
    granted = {domain.collection for domain in settings.intent.editorial_domains.values()}
    granted |= {intake.collection for intake in settings.intakes if intake.collection is not None}
    unreachable = sorted(set(private) - granted)
    if unreachable and not settings.keys and settings.oauth is None:
        raise ConfigurationError(
            f"collection {unreachable[0]!r} is private, but no key opens it: make one with `aidre keys new`, "
            "or use [oauth]"
        )


def private_collections(store: Source, settings: Settings) -> list[str]:
    """Names of the collections that are private by their manifest or by the configuration, or cannot be opened."""
    private = []
    for name in store.collections():
        try:
            visibility = store.open(name).collection.visibility
        except AidreError:
            visibility = "private"  # unknown: it must not count as public
        if visibility_in_force(visibility, settings.collection(name)) == "private":
            private.append(name)
    return private


logger = logging.getLogger("aidre")

BACKLOG = 2_048
"""Connections that the kernel accepts before the server does."""

SEND_BUFFER_BYTES = 262_144
"""Kernel send buffer of a connection. Left to itself the kernel buffers several megabytes, so that a client that reads
nothing could have all its answers computed."""

SHUTDOWN_SECONDS = 30
"""Time for running requests to finish."""

PARENT_POLL_SECONDS = 0.5
WORKER_TIMEOUT_SECONDS = 60
"""A worker that does not answer its parent for so long is replaced. A busy machine may delay the answer."""


def serve(store: Path, settings_path: Path | None, host: str, port: int, workers: int = 1) -> None:
    """Serve until interrupted or terminated. Raises ConfigurationError."""
    raise_file_limit()  # of the workers, too
    settings = load_settings(settings_path)
    if settings.store.backend == "local" and not store.is_dir():
        raise ConfigurationError(f"there is no store at {store}: make one with `aidre ingest`")
    with publishing(settings.store.open(store), settings, stays=True):
        _serve(store, settings, host, port, workers=workers)


def serve_replica(url: str, cache: Path, settings_path: Path | None, host: str, port: int, *, workers: int = 1) -> None:
    """Serve what is published at `url`, pulled into `cache`. Raises ConfigurationError, and what `replicating` does."""
    raise_file_limit()
    settings = of_replica(load_settings(settings_path))
    with replicating(url, cache, settings):
        sys.stderr.write(f"a replica of {url}, of AIDRE and NLWeb\n")
        _serve(cache, settings, host, port, workers=workers, replica_of=url)


def _serve(
    store: Path, settings: Settings, host: str, port: int, *, workers: int, replica_of: str | None = None
) -> None:
    if workers < 1:
        raise ConfigurationError(f"--workers must be at least 1, not {workers}")
    source = _source(store, settings, replica_of)
    check_granted_collections(source, settings)
    check_exposure(settings, host, private_collections(source, settings))
    fetch_served(source, settings)
    with _listen(host, port) as listener:
        port = listener.getsockname()[1]
        at = "" if settings.server.base_url is None else f", listening on {host} port {port}"
        settings = with_base_url(settings, host, port)
        provenance_for(settings)  # so that a fault of the keys is reported once and not by every worker
        asyncio.run(check_guard(settings))
        configure_logging(structured=settings.server.log == "requests")
        sys.stderr.write(f"aidre serves {settings.server.base_url}{at}\n")
        sys.stderr.flush()
        _report_missing(source, settings)
        if workers == 1:
            _serve_single(_application(store, settings, replica_of), listener)
        else:
            _serve_workers(store, settings, listener, workers, replica_of)


def _application(store: Path, settings: Settings, replica_of: str | None, folder: Path | None = None) -> Starlette:
    source = _source(store, settings, replica_of)
    if replica_of is None:
        return create_app(source, settings, folder)
    return create_app(source, settings, folder, replica_age=functools.partial(seconds_since_pull, store))


def _source(store: Path, settings: Settings, replica_of: str | None) -> Source:
    return settings.store.open(store) if replica_of is None else replica_for(replica_of, store, settings).source


def serve_stdio(store: Path, settings_path: Path | None) -> None:
    """Answer one MCP client until standard input closes. Raises ConfigurationError."""
    raise_file_limit()
    settings = load_settings(settings_path)
    check_granted_collections(settings.store.open(store), settings)
    fetch_served(settings.store.open(store), settings)
    _report_missing(settings.store.open(store), settings)
    app = create_app(settings.store.open(store), settings)
    asyncio.run(_answer_stdio(app, cites_chunks=settings.server.base_url is not None))


def _report_missing(source: Source, settings: Settings) -> None:
    for message in missing_collections(source, settings):
        console.print_message(message)


async def _answer_stdio(app: Starlette, *, cites_chunks: bool = True) -> None:
    app.state.retrieval.preloads = False  # a client that starts the server waits for its first answer
    async with app.router.lifespan_context(app):
        await app.state.mcp.serve_stdio(cites_chunks=cites_chunks)


def with_base_url(settings: Settings, host: str, port: int) -> Settings:
    """The settings, with the listening address as base_url unless the configuration has one."""
    if settings.server.base_url is not None:
        return settings
    authority = f"[{host}]" if ":" in host else host
    return replace(settings, server=replace(settings.server, base_url=f"http://{authority}:{port}"))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sets TCP_NODELAY only on sockets created with IPPROTO_TCP; without it answers are delayed by 40 ms.
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"{host}:{port} is not an address to listen on: {_reason(error)}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
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
        http=ServerConnection,
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
        timeout_worker_healthcheck=WORKER_TIMEOUT_SECONDS,
    )


def _serve_single(app: Starlette, listener: socket.socket) -> None:
    _limit_connections()
    _freeze_heap()
    server = uvicorn.Server(_config(app, 1))
    with _quiet_signals():
        server.run(sockets=[listener])
    if not server.started:
        raise _start_failure()


def _serve_workers(
    store: Path, settings: Settings, listener: socket.socket, workers: int, replica_of: str | None
) -> None:
    os.environ[SECRET_VARIABLE] = secrets.token_hex(SECRET_BYTES)
    # Workers receive the settings, not the path: a restarted worker could read a file that has changed.
    with shared_folder() as folder:
        application = functools.partial(create_worker_app, store.resolve(), settings, os.getpid(), folder, replica_of)
        supervisor = _Supervisor(_config(application, workers), [listener], folder)
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise _start_failure()


class _Supervisor(Multiprocess):
    """Also reports a worker that ended by itself, and counts it."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], folder: Path) -> None:
        super().__init__(config, sockets)
        self._folder = folder

    def keep_subprocess_alive(self) -> None:
        before, began = list(self.processes), time.monotonic()
        super().keep_subprocess_alive()
        waited = time.monotonic() - began >= WORKER_TIMEOUT_SECONDS
        for former, now in zip(before, self.processes, strict=True):
            if former is not now:
                count_restart(self._folder)
                logger.error("%s; worker %s takes its place", _ending(former, hung=waited), now.pid)


def _ending(process: Process, *, hung: bool) -> str:
    """How a worker ended."""
    code = process.exitcode or 0
    if hung:
        return f"worker {process.pid} did not answer for {WORKER_TIMEOUT_SECONDS} seconds and was killed"
    if code >= 0:
        return f"worker {process.pid} ended with status {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else "a signal"
    cause = ", as the kernel does where memory runs out (see dmesg)" if -code == signal.SIGKILL else ""
    return f"worker {process.pid} was killed by signal {-code} ({name}){cause}"


def _start_failure() -> ConfigurationError:
    return ConfigurationError("the server could not start: the messages above say why")


def create_worker_app(
    store: Path, settings: Settings, parent_pid: int, folder: Path, replica_of: str | None = None
) -> Starlette:
    """The application of one worker process, which ends when its parent does, by whatever cause.

    `folder` is shared by the workers of one server. `replica_of` is the bucket that the parent pulls into `store`.
    """
    configure_logging(structured=settings.server.log == "requests")
    threading.Thread(target=_follow_parent, args=(parent_pid,), name="parent", daemon=True).start()
    app = _application(store, settings, replica_of, folder)
    _limit_connections()
    _freeze_heap()
    return app


def _limit_connections() -> None:
    ServerConnection.max_connections = connection_capacity()


def _freeze_heap() -> None:
    """Exempt all current objects from garbage collection: scanning the modules would delay a request by 20 ms."""
    gc.collect()
    gc.freeze()


def _follow_parent(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(PARENT_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """After its shutdown uvicorn raises the signal that ended it once more; within this context that is ignored."""
    former = {number: signal.signal(number, _ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _ignore(number: int, frame: FrameType | None) -> None:
    """The server has obeyed the signal already."""
