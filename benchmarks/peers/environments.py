"""The virtual environments of the peers in the cache folder, created on demand from pinned requirements.

A peer that cannot be installed is reported and skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness.real import bench_cache, say
from benchmarks.peers import words
from benchmarks.peers.engines.protocol import ENTRIES, Entry

HERE: Final = Path(__file__).resolve().parent
INSTALL_SECONDS: Final = 1_800
FIRST: Final = "torch"
"""Installed before the other requirements, so that the resolver keeps the pinned build."""


def environments() -> list[str]:
    return list(dict.fromkeys(one.environment for one in (*ENTRIES, *words.ENTRIES) if one.environment))


def folder(environment: str) -> Path:
    return bench_cache() / "peers" / environment


def python(one: Entry) -> Path:
    """The interpreter of a contender; aidre uses the running one."""
    return folder(one.environment) / "bin" / "python" if one.environment else Path(sys.executable)


def requirements(environment: str) -> list[str]:
    lines = (HERE / f"requirements-{environment}.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def install(names: Sequence[str] = ()) -> list[str]:
    """Creates all environments, or those of the named peers; returns error messages."""
    asked = (one for one in (*ENTRIES, *words.ENTRIES) if one.name in names)
    chosen = list(dict.fromkeys(one.environment for one in asked if one.environment))
    problems = []
    for environment in chosen or environments():
        say(f"installing the environment {environment!r} in {folder(environment)} ...")
        problems += _installed(environment)
    return problems


def _installed(environment: str) -> list[str]:
    root = folder(environment)
    if not (root / "bin" / "python").exists():
        shutil.rmtree(root, ignore_errors=True)
        venv.create(root, with_pip=True)
    pinned = requirements(environment)
    for requirement in [line for line in pinned if line.startswith(FIRST)]:
        if problem := _pip(root, [requirement]):
            return [f"{environment}: {problem}"]
    if not _pip(root, pinned):
        return []
    # The joint installation failed: install each alone, so that one failure does not affect the others.
    return [f"{environment}: {problem}" for requirement in pinned if (problem := _pip(root, [requirement]))]


def _pip(root: Path, pinned: Sequence[str]) -> str | None:
    """Runs `pip install`; returns an error message, None on success."""
    command: list[Path | str] = [
        root / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-qq",
        "install",
        *pinned,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{pinned[0]}: pip took longer than {INSTALL_SECONDS} seconds"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines() or ["pip failed"]
    return f"{' '.join(pinned[:3])}: {said[-1]}"
