"""Five hundred slow connections beside others, who must not notice."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from aidre.api.http.request import BODY_SECONDS
from aidre.api.server.connection import ServerConnection as Served
from benchmarks.harness.load import processor_seconds
from tests.hostile.client import Connection, posted
from tests.hostile.crowd import RAMP_SECONDS
from tests.hostile.publisher import publish
from tests.hostile.report import Report
from tests.hostile.server import Server, environment, running, use

CONFIGURATION = """
[limits]
rate = "none"
"""
CONNECTIONS = 500
LONG_SECONDS = 45
"""From here on the times mean something."""

ASKED_A_SECOND = 40
ASKERS = 4
TOLERATED_SECONDS = 0.75
"""What a busy machine adds to a time-out."""

GONE_SECONDS = 60.0
"""Within which the server has noticed that clients are gone, on a machine that is busy with other things."""

LEAST_MS = 5.0
"""A p99 below this is not told from the machine's own moods."""


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """For `rounds` seconds."""
    store, configuration = publish(report.place("publisher"))
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    count = min(CONNECTIONS, 15 * rounds)
    with running(store, configuration) as server:
        [worker] = server.workers
        quiet = max(0.5, rounds / 3)
        first = asked_for(server, quiet, chance)
        descriptors = use(worker).descriptors
        crowd = begin_crowd(server, count * RAMP_SECONDS + rounds, count)
        time.sleep(count * RAMP_SECONDS + min(1.0, rounds / 4))  # while they come
        most = use(worker).descriptors
        began = processor_seconds(worker)
        among = asked_for(server, rounds - min(1.0, rounds / 4), chance)
        worked = processor_seconds(worker) - began
        told, _ = crowd.communicate(timeout=rounds + 180)
        assert crowd.returncode == 0
        after = asked_for(server, quiet, chance)
        left = _until(worker, descriptors)
        assert not server.complaints(), server.complaints()[:5]
    noted = json.loads(told)
    longest = {kind: max(seconds, default=0.0) for kind, seconds in noted["borne"].items()}
    alone, crowded = max(p99(first), p99(after)), p99(among)
    middle = [float(np.median(latencies)) * 1e3 for latencies in (first, among, after)]
    report.figure(
        "slow",
        f"{count} slow connections for {rounds} s, {most} descriptors; p99 of others {crowded:.1f} ms, without them "
        f"{p99(first):.1f} before and {p99(after):.1f} after (x {crowded / alone:.2f}; "
        f"p50 {middle[1]:.1f}, {middle[0]:.1f} and {middle[2]:.1f}), processor {worked:.1f} s; "
        f"the longest borne: "
        f"{', '.join(f'{kind} {seconds:.1f} s' for kind, seconds in longest.items())}; said {noted['said']}; "
        f"descriptors {descriptors} before, {left} after",
    )
    assert left <= descriptors, f"{left - descriptors} descriptors are left"
    assert longest["headers"] <= Served.header_seconds + 1.0 + TOLERATED_SECONDS, longest
    assert longest["bodies"] <= max(Served.body_seconds, BODY_SECONDS) + 1.0 + TOLERATED_SECONDS, longest
    if rounds >= LONG_SECONDS:
        assert noted["borne"]["headers"], "no header was ended"
        assert noted["borne"]["bodies"], "no body was ended"
        assert crowded <= 2 * max(alone, LEAST_MS), f"others wait {crowded:.1f} ms instead of {alone:.1f}"


def begin_crowd(server: Server, seconds: float, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.hostile.crowd", str(server.port), str(seconds), str(count)]
    return subprocess.Popen(command, env=environment(), cwd=Path(__file__).parent, stdout=subprocess.PIPE)


def p99(latencies: list[float]) -> float:
    """In milliseconds."""
    return float(np.quantile(latencies, 0.99)) * 1e3


def asked_for(server: Server, seconds: float, chance: random.Random) -> list[float]:
    """Searches at a steady rate, each counted from when it was due; all must be answered."""
    return asyncio.run(_asked_for(server.port, seconds, chance))


async def _asked_for(port: int, seconds: float, chance: random.Random) -> list[float]:
    latencies: list[float] = []
    began = time.monotonic()

    async def ask(offset: float) -> None:
        connection = Connection(port)
        due = began + offset
        while due < began + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            asked = posted("/search", {"query": f"alpha word{chance.randrange(40)}", "collection": "docs"})
            answer = await connection.ask(asked)
            assert answer.status == 200, answer
            latencies.append(time.monotonic() - due)
            due += ASKERS / ASKED_A_SECOND
        connection.close()

    await asyncio.gather(*(ask(number / ASKED_A_SECOND) for number in range(ASKERS)))
    return latencies


def _until(worker: int, descriptors: int) -> int:
    """The descriptors when no more than before are left, or when a connection should long have gone."""
    deadline = time.monotonic() + GONE_SECONDS
    while use(worker).descriptors > descriptors and time.monotonic() < deadline:
        time.sleep(0.1)
    return use(worker).descriptors
