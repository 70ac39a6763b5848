"""Thousands of clients make a server keep what they send and what it answers: its memory stays within its budget."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from aidre.api.server.memory import MAX_UNFINISHED_BYTES
from benchmarks.harness.load import processor_seconds
from tests.hostile.publisher import publish
from tests.hostile.report import Report
from tests.hostile.server import environment, running
from tests.hostile.slow import CONFIGURATION, asked_for, p99

ALLOWED_BYTES = 64 << 20
"""What connections and freed memory take beside the budget."""
LONG_COUNT = 5_000
"""From so many clients on, times mean something."""
LEAST_MS = 5.0
LOOK_SECONDS = 0.1
QUIET_SECONDS = 2.0
IDLE_SECONDS = 60.0


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """With `rounds` clients."""
    store, configuration = publish(report.place("publisher"))
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    with running(store, configuration) as server:
        [worker] = server.workers
        alone = p99(asked_for(server, QUIET_SECONDS, chance))
        before = resident(worker)
        watch = Watch(worker)
        command = [sys.executable, "-m", "tests.hostile.hoard", str(server.port), str(rounds)]
        with subprocess.Popen(
            command, env=environment(), cwd=Path(__file__).parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as crowd:
            assert crowd.stdout is not None and crowd.stdin is not None
            meanwhile = p99(asked_for(server, QUIET_SECONDS, chance))
            connected = int(crowd.stdout.readline())
            _until_idle(worker)
            crowded = p99(asked_for(server, QUIET_SECONDS, chance))
            crowd.stdin.close()
        most = watch.end()
        after = p99(asked_for(server, QUIET_SECONDS, chance))
        assert not server.complaints(), server.complaints()[:5]
    grown = most - before
    report.figure(
        "hoards",
        f"{rounds:,} clients, {connected:,} connected at the end: resident memory {before >> 20} MiB, at most "
        f"{grown >> 20} MiB more; p99 of others {alone:.1f} ms before, {meanwhile:.1f} while they came, {crowded:.1f} "
        f"while they stayed, {after:.1f} after",
    )
    assert grown < MAX_UNFINISHED_BYTES + ALLOWED_BYTES, f"{grown >> 20} MiB"
    if rounds >= LONG_COUNT:
        assert crowded <= 2 * max(alone, after, LEAST_MS), f"others wait {crowded:.1f} ms"


def _until_idle(worker: int) -> None:
    """Waits until what was sent is answered, as far as it is read."""
    deadline = time.monotonic() + IDLE_SECONDS
    worked = -1.0
    while processor_seconds(worker) - worked > LOOK_SECONDS / 4 and time.monotonic() < deadline:
        worked = processor_seconds(worker)
        time.sleep(LOOK_SECONDS)


def resident(process: int) -> int:
    """Bytes of private memory."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) << 10


class Watch:
    """Looks at the memory of a process until it is ended."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._most = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            self._most = max(self._most, resident(self._process))

    def end(self) -> int:
        """The most that it had."""
        self._is_over.set()
        self._thread.join()
        return self._most
