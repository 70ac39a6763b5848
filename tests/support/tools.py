"""Tools of others, in the versions that a test names: packages of npm and of the Python package index.

Each is installed once, below pytest's cache, for all processes and later runs of the tests. So is what they make of the
same inputs, and that they had nothing to say of them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.kept import kept, link_or_copy

SECONDS = 300
"""Ends a test that hangs; much longer than an installation takes on a busy machine."""
LEAST_NODE = (20, 19)
"""What the linters and the generators run on."""
OPTIONS = ("--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")


def run_tool(folder: Path, *command: str) -> str:
    """The output of a command in a folder, where it must succeed. Commands of its packages are found by name."""
    bundled = folder / "node_modules/.bin" / command[0]
    words = [str(bundled) if bundled.exists() else command[0], *command[1:]]
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def run_python(folder: Path, *words: str) -> str:
    """The output of the interpreter in a folder."""
    return run_tool(folder, sys.executable, *words)


def tool(name: str, install: Callable[[Path], object]) -> Path:
    """The folder of a tool, which is installed where it is not complete. `name` says the versions."""
    return kept(ROOT / ".pytest_cache" / "d" / "tools" / re.sub(r"[^\w.=-]+", "_", name), install)


def made(name: str, make: Callable[[Path], object], *inputs: str | bytes) -> Path:
    """A folder of what tools make of the inputs, which say all that it depends on: versions of tools, too.

    It is made where it is not there, in place of what was made of other inputs.
    """
    digest = hashlib.sha256()
    for one in inputs:
        content = one.encode() if isinstance(one, str) else one
        digest.update(len(content).to_bytes(8, "big") + content)
    folder = ROOT / ".pytest_cache" / "d" / "made" / f"{name}-{digest.hexdigest()[:24]}"

    def fill(empty: Path) -> None:
        for older in empty.parent.glob(f"{name}-*"):
            if older.is_dir() and older != empty:
                shutil.rmtree(older, ignore_errors=True)
        make(empty)

    return kept(folder, fill)


def install_python(*requirements: str) -> Path:
    """A folder with packages and what they need: what runs there finds them before those of this environment."""
    pip = ("-m", "pip", "install", "--quiet", "--target", ".", "--disable-pip-version-check")
    return tool("_".join(requirements), lambda folder: run_python(folder, *pip, *requirements))


def install_npm(folder: Path, packages: Mapping[str, str]) -> Path:
    """The folder, with packages by version; skips the test where Node is missing or old, or npm reaches no registry."""
    if (problem := _why_not()) is not None:
        pytest.skip(problem)
    manifest = json.dumps({"private": True, "type": "module", "dependencies": dict(packages)})

    def install(into: Path) -> None:
        (into / "package.json").write_text(manifest, encoding="utf-8")
        run_tool(into, "npm", "install", *OPTIONS)

    installed = tool("_".join(f"{name}-{version}" for name, version in packages.items()), install)
    (folder / "package.json").write_text(manifest, encoding="utf-8")
    # files of this folder: some tools look for its settings from their own place upwards
    shutil.copytree(installed / "node_modules", folder / "node_modules", symlinks=True, copy_function=link_or_copy)
    return folder


@cache
def _why_not() -> str | None:
    """Why packages of npm cannot be installed here, None where they can."""
    absent = f"Node {'.'.join(map(str, LEAST_NODE))} is not installed"
    if shutil.which("node") is None or shutil.which("npm") is None:
        return absent
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.lstrip("v").split(".")[:2])) < LEAST_NODE:
        return absent
    ask = ["npm", "view", "openapi-fetch", "name", "--fetch-retries=1"]
    with suppress(subprocess.TimeoutExpired):
        if subprocess.run(ask, capture_output=True, check=False, timeout=30).returncode == 0:
            return None
    return "npm reaches no registry"
