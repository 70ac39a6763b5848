"""A real server: started as a process of its own with its workers, looked at from outside, ended."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aidre
from tests import ROOT
from tests.support.clocks import WAIT_SECONDS

PROGRAM = (
    "import sys\nfrom pathlib import Path\nfrom aidre.api.cli.serve import serve\n"
    "serve(Path(sys.argv[1]), Path(sys.argv[2]), '127.0.0.1', 0, int(sys.argv[3]))\n"
)
REPLICA = (
    "import sys\nfrom pathlib import Path\nfrom aidre.api.cli.serve import serve_replica\n"
    "serve_replica(sys.argv[4], Path(sys.argv[1]), Path(sys.argv[2]), '127.0.0.1', 0, workers=int(sys.argv[3]))\n"
)
SOURCES = Path(aidre.__file__).resolve().parents[1]
"""Where the folders of the package lie that this process runs: the server runs the same."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a process holds: private memory in KiB, pages of files in KiB, descriptors, threads."""

    memory: int
    files_memory: int
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class Server:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def workers(self) -> list[int]:
        """The processes that answer: the one that was started, or its children."""
        parent = self.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        found = [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
        return sorted(found) or [parent]

    def complaints(self) -> list[str]:
        """What it wrote to its standard error, but for where it serves and for how short the tests' documents are."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        usual = "aidre serves ", "a replica of ", "too few chunks"
        return [line for line in lines if line.strip() and not any(one in line for one in usual)]


def use(pid: int) -> Use:
    """What a process holds just now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    facts = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines) if _is(value)}
    assert "RssAnon" in facts, f"process {pid} has ended"
    descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return Use(facts["RssAnon"] + facts["RssShmem"], facts["RssFile"], descriptors, facts["Threads"])


def _is(value: str) -> bool:
    return value.strip().partition(" ")[0].isdigit()


def unlinked_bytes(pid: int) -> int:
    """Bytes of files that have no name any more and that the process still maps."""
    total = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith("(deleted)") and "/dev/shm" not in line:
            begin, _, end = line.split(" ", 1)[0].partition("-")
            total += int(end, 16) - int(begin, 16)
    return total


def environment() -> dict[str, str]:
    """Under which a process finds the same package, and the tests' modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys((str(SOURCES), str(ROOT))))}


@contextmanager
def running(
    store: Path,
    configuration: Path,
    workers: int = 1,
    variables: Mapping[str, str] = MappingProxyType({}),
    *,
    replica_of: str | None = None,
) -> Iterator[Server]:
    """A server on a free port of the loopback, ready to answer; `variables` are more of its environment. As the replica
    of a bucket it has its cache in `store`."""
    log = configuration.with_name("server.log")
    program, where = (PROGRAM, []) if replica_of is None else (REPLICA, [replica_of])
    command = [sys.executable, "-c", program, str(store), str(configuration), str(workers), *where]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**environment(), **variables},
            cwd=configuration.parent,
        )
    try:
        yield Server(process, _port(process, log), log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Waits until the server says where it serves and that it is ready."""
    from tests.hostile.client import ask

    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        text = log.read_text(encoding="utf-8", errors="replace")
        found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
        if found is not None and ask(int(found[1]), b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200:
            return int(found[1])
        assert process.poll() is None, f"the server ended: {text}"
        select.select([], [], [], 0.05)
    raise AssertionError("the server does not become ready")
