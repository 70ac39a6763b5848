"""Peers that serve, for the load generator: starts them over real data, pins them and ends them.

    with serve("chroma", real(), folder=scratch, core=0) as peer:
        content = peer.request(vector, 10, peer.settings[0])              # the bytes of a request
        peer.rows_of(answer(peer.port, content, peer.framing)[1])         # the rows in an answer

`chroma` (HTTP), `valkey` (RESP) and `aidre previous` (HTTP, another release) receive vectors and return texts; `txtai`
receives texts, which it embeds, over a hybrid index. Raises PeerMissing if a peer cannot run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.load import Framing, http_frame, request, resp_frame
from benchmarks.harness.real import PASSAGES, VECTORS, Real
from benchmarks.harness.resp import value
from benchmarks.peers.client import ROOT, PeerMissing
from benchmarks.peers.engines import valkey
from benchmarks.peers.environments import folder as environment_folder

START_SECONDS, LOAD_SECONDS = 120.0, 600.0
CHROMA_EF: Final = 100
"""Depth of a search of Chroma, which belongs to the collection."""

WAYS: Final = "/api/v2/tenants/default_tenant/databases/default_database/collections"

Asked = NDArray[np.float32] | str


@dataclass(frozen=True, slots=True)
class PeerServer:
    """A server on 127.0.0.1.

    `request` builds a search for k rows at one of the `settings`, which are depths in ascending order; `rows_of` reads
    the row numbers of an answer.
    """

    name: str
    version: str
    port: int
    pids: tuple[int, ...]
    load_seconds: float
    request: Callable[[Any, int, int], bytes]
    rows_of: Callable[[bytes], list[int]]
    settings: Sequence[int] = (0,)
    framing: Framing = http_frame


@dataclass(frozen=True, slots=True)
class Release:
    """A release of aidre: the interpreter of its environment, the configuration of its server, and its requests."""

    program: Path
    config: Path
    request: Callable[[NDArray[np.float32]], bytes]


@contextmanager
def serve(
    name: str, data: Real, *, folder: Path, core: int | None = None, release: Release | None = None
) -> Iterator[PeerServer]:
    """Serves the data by a peer, or by a release of aidre; pins it to `core` once loaded. Raises PeerMissing."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        found = (
            _aidre(release, data, folder, processes)
            if release
            else {"chroma": _chroma, "txtai": _txtai, "valkey": _valkey}[name](data, folder, processes)
        )
        if core is not None:
            for pid in found.pids:
                for task in Path(f"/proc/{pid}/task").iterdir():
                    os.sched_setaffinity(int(task.name), {core})
        yield found
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise PeerMissing(f"{type(error).__name__}: {error}") from error
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _chroma(data: Real, folder: Path, processes: list[subprocess.Popen[bytes]]) -> PeerServer:
    port, programs = _free_port(), _programs("stores")
    command = [programs / "chroma", "run", "--path", folder / "chroma", "--host", "127.0.0.1", "--port", str(port)]
    processes.append(_started(command, folder, {}))
    _wait(port, "/api/v2/heartbeat", processes[0], folder)
    started = time.monotonic()
    collection = _run(programs / "python", "chroma_load", [str(port), str(CHROMA_EF), *_files(data)], folder).split()[
        -1
    ]
    path = f"{WAYS}/{collection}/query"

    def asked(vector: NDArray[np.float32], k: int, setting: int) -> bytes:
        body = {"query_embeddings": [[round(number, 8) for number in vector.tolist()]], "n_results": k}
        return request("POST", path, json.dumps(body).encode())

    def rows_of(body: bytes) -> list[int]:
        return [int(number) for number in json.loads(body)["ids"][0]]

    loaded = time.monotonic() - started
    version = _version("stores", "chromadb")
    return PeerServer("chroma", version, port, (processes[0].pid,), loaded, asked, rows_of, (CHROMA_EF,))


def _txtai(data: Real, folder: Path, processes: list[subprocess.Popen[bytes]]) -> PeerServer:
    port, programs = _free_port(), _programs("txtai")
    started = time.monotonic()
    _run(programs / "python", "txtai_load", [folder / "txtai", *_files(data)], folder)
    loaded = time.monotonic() - started
    (folder / "txtai.yml").write_text(f"path: {folder / 'txtai'}\nwritable: false\nembeddings: {{}}\n", "utf-8")
    command = [programs / "python", "-m", "uvicorn", "txtai.api:app", "--port", str(port), "--log-level", "warning"]
    processes.append(_started(command, folder, {"CONFIG": str(folder / "txtai.yml")}))
    _wait(port, "/count", processes[0], folder)

    def asked(text: str, k: int, setting: int) -> bytes:
        return request("GET", f"/search?{urllib.parse.urlencode({'query': text, 'limit': k})}")

    def rows_of(body: bytes) -> list[int]:
        return [int(hit["id"]) for hit in json.loads(body)]

    return PeerServer("txtai", _version("txtai", "txtai"), port, (processes[0].pid,), loaded, asked, rows_of)


def _valkey(data: Real, folder: Path, processes: list[subprocess.Popen[bytes]]) -> PeerServer:
    port, programs = _free_port(), _programs("valkey")
    packages = next(programs.parent.glob("lib/python*/site-packages"))
    processes.append(valkey.start(packages, port, folder, session=True))
    connection = valkey.connect(port, processes[0])
    started = time.monotonic()
    numbers = range(len(data.rows))
    urls = [f"https://example.com/rows/{number}" for number in numbers]
    titles = [f"Row {number}" for number in numbers]
    valkey.create(connection, data.rows.shape[1], len(data.rows), [])
    valkey.load(connection, data.rows, {"title": titles, "url": urls, "text": data.passages()})
    loaded, version = time.monotonic() - started, valkey.server_version(connection)
    connection.close()

    def asked(vector: NDArray[np.float32], k: int, setting: int) -> bytes:
        return valkey.knn(vector, k, setting, "*", ("RETURN", 4, "score", "title", "url", "text"))

    def rows_of(reply: bytes) -> list[int]:
        return [int(name.removeprefix(valkey.PREFIX)) for name in value(reply)[1::2]]

    settings = valkey.Valkey.settings
    return PeerServer("valkey", version, port, (processes[0].pid,), loaded, asked, rows_of, settings, resp_frame)


def _aidre(release: Release, data: Real, folder: Path, processes: list[subprocess.Popen[bytes]]) -> PeerServer:
    port, store = _free_port(), folder / "store"
    started = time.monotonic()
    _run(release.program, "aidre_load", [store, *_files(data)], folder)
    loaded = time.monotonic() - started
    options = ["--store", store, "--config", release.config, "--port", str(port)]
    processes.append(_started([release.program, "-m", "aidre.api.cli.main", "serve", *options], folder, {}))
    _wait(port, "/.well-known/ai-discovery", processes[0], folder)

    def asked(vector: NDArray[np.float32], k: int, setting: int) -> bytes:
        return release.request(vector)

    return PeerServer("aidre", "", port, (processes[0].pid,), loaded, asked, aidre_rows)


def aidre_rows(body: bytes) -> list[int]:
    """The row numbers in an answer of aidre to a search, best first."""
    return list(dict.fromkeys(int(number) for number in re.findall(rb'"row-(\d+)', body)))


def _programs(environment: str) -> Path:
    programs = environment_folder(environment) / "bin"
    if not (programs / "python").exists():
        raise PeerMissing("not installed: python -m benchmarks.peers install")
    return programs


def _files(data: Real) -> list[Any]:
    return [data.folder / VECTORS, str(len(data.rows)), data.folder / PASSAGES]


def _run(program: Path, module: str, arguments: Sequence[Any], folder: Path) -> str:
    """Runs a module of this package; the folder holds `benchmarks` and none of the packages beside it."""
    if not (folder / "benchmarks").exists():
        (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    done = subprocess.run(
        [program, "-m", f"benchmarks.peers.{module}", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=_environment({}),
        timeout=LOAD_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PeerMissing((done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
    return done.stdout


def _started(command: list[Any], folder: Path, more: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "said.txt").open("ab") as said:
        return subprocess.Popen(
            command, cwd=folder, env=_environment(more), stdout=said, stderr=said, start_new_session=True
        )


def _environment(more: dict[str, str]) -> dict[str, str]:
    offline = {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "PYTHONDONTWRITEBYTECODE": "1"}
    found = {**os.environ, **offline, **more}
    found.pop("PYTHONPATH", None)
    return found


def _wait(port: int, path: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + START_SECONDS
    probe = request("GET", path, connection="close")
    while time.monotonic() < end:
        if process.poll() is not None:
            said = (folder / "said.txt").read_text("utf-8", "replace").strip().splitlines() or ["it printed nothing"]
            raise PeerMissing(f"it ended with status {process.returncode}: {said[-1]}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(probe)
            if b" 200 " in connection.recv(64):
                return
        time.sleep(0.1)
    raise PeerMissing(f"it did not answer within {START_SECONDS:.0f} seconds")


def _version(environment: str, distribution: str) -> str:
    folders = environment_folder(environment).glob("lib/python*/site-packages")
    return next(iter(metadata.distributions(name=distribution, path=[str(each) for each in folders]))).version


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
