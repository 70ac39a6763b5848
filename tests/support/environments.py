"""Environments with the distributions that a test names and nothing else, in the versions of the pins.

pip takes half a minute and more to resolve and unpack what `make` has had it unpack already, by the same line, into the
environment of the tests. Its files are linked from there instead; pip installs the wheels of this checkout, and checks.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import distribution, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT
from tests.support.kept import link_or_copy

TIMEOUT_SECONDS = 300


def pinned(name: str) -> dict[str, str]:
    """The versions of a file of pins by canonical name."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in pins}


def needed(*requirements: str) -> set[str]:
    """What requirements name, and all that it needs according to the installed distributions."""
    found: set[str] = set()

    @cache
    def visit(name: str, extras: tuple[str, ...]) -> None:
        found.add(name)
        for requirement in map(Requirement, distribution(name).requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                visit(canonicalize_name(requirement.name), tuple(sorted(requirement.extras)))

    for requirement in map(Requirement, requirements):
        visit(canonicalize_name(requirement.name), tuple(sorted(requirement.extras)))
    return found


def environment(folder: Path, names: Iterable[str], *wheels: Path) -> Path:
    """A new environment in the folder: linked distributions, which must have the versions of constraints.txt, and the
    wheels of this checkout."""
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    for name in names:
        link(name, folder)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin/python"))
    _run(*pip, "install", "-q", "--no-deps", "--no-compile", "--no-index", *map(str, wheels))
    _run(*pip, "check")
    return folder


def link(name: str, environment: Path) -> None:
    """The files of an installed distribution, without its commands."""
    pins = pinned("constraints.txt")
    assert version(name) == pins.get(name, version(name)), f"{name}: install the versions of constraints.txt"
    [site] = environment.glob("lib/*/site-packages")
    for one in distribution(name).files or ():
        if ".." not in one.parts and Path(one.locate()).exists():
            place = site / one
            place.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(str(one.locate()), str(place))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
