"""Server processes: `serve` in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import re
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx

from tests.support.clients import AIDRE
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.loaded import python

PROGRAM = "import sys\nfrom pathlib import Path\nfrom aidre.api.cli.serve import serve\n"
SEARCH = {"query": "alpha", "top_k": 5}


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[str]
    url: str

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def running(
    store: Path, workers: int = 1, before: str = "", settings: Path | None = None, interpreter: Sequence[str] = ()
) -> Iterator[Running]:
    """A server in a process that begins with its modules loaded, or by another interpreter: `[sys.executable]`."""
    path = "None" if settings is None else f"Path({str(settings)!r})"
    call = f"{before}\nserve(Path(sys.argv[1]), {path}, '127.0.0.1', 0, {workers})"
    with running_command([*(interpreter or python()), "-c", PROGRAM + call, str(store)]) as server:
        yield server


def is_readable(stream: IO[Any], seconds: float) -> bool:
    """Whether something comes from a pipe in time; `select.select` knows no descriptor above 1,023."""
    waiting = select.poll()
    waiting.register(stream, select.POLLIN)
    return bool(waiting.poll(seconds * 1_000))


@contextmanager
def running_command(command: Sequence[str]) -> Iterator[Running]:
    """Any command that serves and says where."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert is_readable(process.stderr, WAIT_SECONDS), "the server says nothing"
            said = process.stderr.readline()
            if said.startswith("a replica of "):
                said = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert found is not None, said + process.communicate(timeout=WAIT_SECONDS)[1]
            _wait_until_ready(found[0])
            yield Running(process, found[0])
        finally:
            process.terminate()
            process.communicate(timeout=WAIT_SECONDS)


def _wait_until_ready(url: str) -> None:
    def ready() -> bool:
        try:
            return httpx.get(f"{url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    until(ready, "the server does not become ready")


def search(client: httpx.Client, body: dict[str, object] | None = None) -> httpx.Response:
    return client.post("/search", json=body or SEARCH, headers={"content-type": AIDRE})
