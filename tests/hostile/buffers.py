"""Files of a store with altered values, opened and read in process, and a hundredth as many in their places in whole
stores: as what comes from a bucket or a backup, with right checksums. No process ends before it is done.

Coverage of aidre and of its kernel, which sanitizers watch, guides what is altered next, where atheris is installed and
a compiler is there; otherwise it is chance alone. The proof `foreign` asks larger stores everything.
"""

from __future__ import annotations

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from tests.hostile import fuzzing
from tests.hostile.nursery import asked
from tests.hostile.report import Report
from tests.support.compiler import compile_sanitized_kernel

OF_A_STORE = 100
"""Buffers for each whole store."""
IN_A_CHILD = 10_000
DAYS = 10 * 86_400
"""Of the processor: counts end these runs."""


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """So many buffers."""
    counts = {"buffer": rounds, "store": max(1, rounds // OF_A_STORE)}
    if find_spec("atheris") is None:
        for name, count in counts.items():
            _by_chance(report, name, count, chance)
        return
    kernel = report.place("kernel")
    built = kernel if compile_sanitized_kernel(kernel) else None
    with ThreadPoolExecutor(fuzzing.AT_ONCE) as pool:
        for name, count in counts.items():
            runs = -(-count // fuzzing.AT_ONCE)
            seeds = [chance.getrandbits(31) for _ in range(fuzzing.AT_ONCE)]

            def part(seed: int, name: str = name, runs: int = runs) -> fuzzing.Fuzzed:
                return fuzzing.fuzz(report, name, DAYS, seed, runs=runs, kernel=built)

            found = list(pool.map(part, seeds))
            report.figure(
                f"buffers {name}",
                f"{sum(one.executed for one in found):,} executions in {len(found)} processes, coverage "
                f"{', '.join(f'{one.first} -> {one.last}' for one in found)}, "
                f"{sum(one.kept for one in found):,} inputs kept, {'sanitized' if built else 'plain'} kernel, "
                f"0 processes ended (seeds {seeds})",
            )


def _by_chance(report: Report, name: str, rounds: int, chance: random.Random) -> None:
    """In children, so that the end of one is reported."""
    for first in range(0, rounds, IN_A_CHILD):
        asked(altered, name, min(IN_A_CHILD, rounds - first), chance.getrandbits(31))
    report.figure(f"buffers {name}", f"{rounds:,} by chance alone, 0 processes ended")


def altered(name: str, count: int, seed: int) -> None:
    """In a child: so many inputs."""
    with tempfile.TemporaryDirectory() as folder:
        fuzzing.mutate(Report(Path(folder)), name, count, random.Random(seed))
