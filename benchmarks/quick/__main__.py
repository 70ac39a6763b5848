"""Measures the groups in turns, and prints their ratios to their yardsticks beside the stored ones.

    python -m benchmarks.quick [--rows N] [--seconds S] [--store]

It fails when a group does not run, never because one is slow: a ratio depends on the machine, too. `--store` keeps the
ratios of this run, with the machine and the version, in benchmarks/quick/stored.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aidre
from benchmarks.harness.machine import machine
from benchmarks.peers.client import ONE_THREAD, ROOT
from benchmarks.quick import groups
from benchmarks.quick.comparison import ratios, table

STORED: Final = Path(__file__).with_name("stored.json")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="quick", description=__doc__)
    parser.add_argument("--rows", type=int, default=groups.ROWS)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each side and turn")
    parser.add_argument("--store", action="store_true", help="keep the ratios of this run as the stored ones")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.json"
        status = run(raw, options.rows, options.seconds)
        if status:
            return status
        measured = ratios(json.loads(raw.read_bytes()))
    stored = json.loads(STORED.read_bytes())
    print(f"Time over that of the yardstick; stored of aidre {stored['version']} on {stored['machine']}.")
    print("\n".join(table(measured, stored["ratios"])))
    if options.store:
        found = {group: round(one.median, 3) for group, one in measured.items()}
        stored = {"version": aidre.__version__, "machine": machine(), "rows": options.rows, "ratios": found}
        STORED.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
    return 0


def run(measured: Path, rows: int, seconds: float) -> int:
    """Runs the groups by pytest-benchmark, without the options that pytest has for the tests, on one thread: pools of
    threads that spin while they wait would measure the neighbours."""
    words = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings="]
    words += ["-o", "python_functions=quick_* yardstick_*", f"--rootdir={measured.parent}"]
    words += ["--benchmark-disable-gc", "--benchmark-warmup=on", f"--benchmark-max-time={seconds}"]
    words += ["--benchmark-min-rounds=3", "--benchmark-quiet", f"--benchmark-json={measured}"]
    environment = {**os.environ, **ONE_THREAD, groups.ROWS_OF: str(rows)}
    command = [sys.executable, "-m", "pytest", *words, groups.__file__]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
