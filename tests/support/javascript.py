"""Packages of npm in a folder, in the versions that a test names, and the commands that they bring."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

SECONDS = 300
"""Ends a test that hangs; much longer than an installation takes on a busy machine."""
LEAST_NODE = (20, 19)


def installed(folder: Path, packages: Mapping[str, str]) -> Path:
    """The folder, with packages by version; skips the test where there is no Node, or npm reaches no registry."""
    if not _reaches_a_registry():
        pytest.skip("there is no Node of the last years, or npm reaches no registry")
    manifest = {"private": True, "type": "module", "dependencies": dict(packages)}
    (folder / "package.json").write_text(json.dumps(manifest), encoding="utf-8")
    options = ["--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    told([shutil.which("npm") or "npm", "install", *options], folder)
    return folder


def told(command: list[str], folder: Path) -> str:
    """The output of a command, which has to succeed; its name is looked up among those of the packages, too."""
    bundled = folder / "node_modules/.bin" / command[0]
    name = str(bundled) if bundled.exists() else command[0]
    done = subprocess.run(
        [name, *command[1:]],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout


@cache
def _reaches_a_registry() -> bool:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.strip().lstrip("v").split(".")[:2])) < LEAST_NODE:
        return False
    try:
        asked = subprocess.run(
            [npm, "view", "openapi-fetch", "name", "--fetch-retries=1"], capture_output=True, check=False, timeout=30
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0
