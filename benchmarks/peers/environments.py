"""The virtual environments of the peers, in the cache folder: made on demand from pinned requirements.

A peer that cannot be installed is told and left out; it stops nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.protocol import ENTRIES, Entry
from benchmarks.real import bench_cache, say

HERE: Final = Path(__file__).resolve().parent
INSTALL_SECONDS: Final = 1_800
FIRST: Final = "torch"


def environments() -> list[str]:
    return list(dict.fromkeys(one.environment for one in ENTRIES if one.environment))


def folder(environment: str) -> Path:
    return bench_cache() / "peers" / environment


def python(one: Entry) -> Path:
    """The interpreter that has the contender; aidre runs where this runs."""
    return folder(one.environment) / "bin" / "python" if one.environment else Path(sys.executable)


def requirements(environment: str) -> list[str]:
    lines = (HERE / f"requirements-{environment}.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def install(wanted: Sequence[str] = ()) -> list[str]:
    """Make the environments, or those of the named peers; the problems that there were."""
    chosen = list(dict.fromkeys(one.environment for one in ENTRIES if one.environment and one.name in wanted))
    problems = []
    for environment in chosen or environments():
        say(f"installing the environment {environment!r} in {folder(environment)} ...")
        problems += _installed(environment)
    return problems


def _installed(environment: str) -> list[str]:
    place = folder(environment)
    if not (place / "bin" / "python").exists():
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
    wanted = requirements(environment)
    for one in [line for line in wanted if line.startswith(FIRST)]:
        if problem := _pip(place, [one]):
            return [f"{environment}: {problem}"]
    if not _pip(place, wanted):
        return []
    # Together they do not install: each by itself, so that one of them does not cost the others.
    return [f"{environment}: {problem}" for one in wanted if (problem := _pip(place, [one]))]


def _pip(place: Path, wanted: Sequence[str]) -> str | None:
    command: list[Path | str] = [
        place / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-qq",
        "install",
        *wanted,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{wanted[0]}: pip took more than {INSTALL_SECONDS} seconds"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines() or ["pip failed"]
    return f"{' '.join(wanted[:3])}: {said[-1]}"
