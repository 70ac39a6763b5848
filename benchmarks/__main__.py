"""Runs the named benchmarks one after the other, each in its own process, and writes the report.

    python -m benchmarks [NAME ...] [OPTION ...]     without a name: all benchmarks; options are passed to each of them
    python -m benchmarks list | report

A failed benchmark is reported at the end and does not stop the others.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.report import results as report
from benchmarks.report.plots import available

HERE: Final = Path(__file__).resolve().parent


def names() -> dict[str, str]:
    """Benchmark names, each with the first line of its module docstring."""
    return {path.stem.removeprefix("bench_"): first_line(path) for path in sorted(HERE.glob("*/bench_*.py"))}


def first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].strip('"')


def rooms() -> dict[str, str]:
    """The room of each benchmark, by its name."""
    return {path.stem.removeprefix("bench_"): path.parent.name for path in sorted(HERE.glob("*/bench_*.py"))}


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if set(words) & {"-h", "--help"} and words[0].startswith("-"):
        print(__doc__)
        return 0
    benchmarks = names()
    first_option = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    chosen, options = words[:first_option], words[first_option:]
    if chosen == ["list"]:
        show()
        return 0
    if unknown := [name for name in chosen if name not in benchmarks and name != "report"]:
        print(
            f"bench: no benchmark is named {unknown[0]!r}; choose from: {', '.join(benchmarks)}, report",
            file=sys.stderr,
        )
        return 2
    failed = run([name for name in chosen or benchmarks if name != "report"], options)
    if set(options) & {"-h", "--help"}:
        return 1 if failed else 0
    report.write()
    if not available():
        print(
            "bench: no plots drawn: matplotlib is missing; install it with pip install -e '.[bench]'", file=sys.stderr
        )
    for name in failed:
        print(f"bench: {name} failed", file=sys.stderr)
    return 1 if failed else 0


def show() -> None:
    """Prints the question of each room, and below it the benchmarks that answer it."""
    lines, named = names(), rooms()
    for room in dict.fromkeys(named.values()):
        print(first_line(HERE / room / "__init__.py"))
        for name in (one for one in lines if named[one] == room):
            print(f"  {name:13}{lines[name]}")


def run(chosen: Sequence[str], options: Sequence[str]) -> list[str]:
    """Runs the benchmarks; returns the names of those that failed."""
    failed, room_of = [], rooms()
    for name in chosen:
        started = time.monotonic()
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{room_of[name]}.bench_{name}", *options]
        if subprocess.run(command, cwd=HERE.parent, check=False).returncode:
            failed.append(name)
        print(f"== {name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
