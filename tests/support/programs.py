"""Programs that a machine may lack. Without its program a test is skipped, and the end of the run names it."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

SEARCHED = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
CHROMIUM = ("chromium-headless-shell", "chromium", "google-chrome")
SHOWN = {"haproxy": "HAProxy", "caddy": "Caddy", CHROMIUM[0]: "Chromium", "systemd-analyze": "systemd"}
"""By the first of its names, what a program is called."""
_MISSING = re.compile(r"(?:Skipped: )?(?:could not import '(?P<module>[\w.]+)'|(?P<name>.+?) is not installed\b)")
"""What a skip says for want of a program or a library; the former words are those of `pytest.importorskip`."""


def path_of(*names: str) -> str | None:
    """Where a program is, by the first of its names that is found."""
    return next(filter(None, (shutil.which(name, path=SEARCHED) for name in names)), None)


def needed(*names: str) -> str:
    """Where a program is; skips the test where it is not installed."""
    found = path_of(*names)
    if found is None:
        pytest.skip(f"{SHOWN.get(names[0], names[0])} is not installed")
    return found


def needs(*names: str) -> pytest.MarkDecorator:
    """Skips a test where a program is not installed."""
    reason = f"{SHOWN.get(names[0], names[0])} is not installed"
    return pytest.mark.skipif(path_of(*names) is None, reason=reason)


def not_proved(reasons: Iterable[str]) -> list[str]:
    """A line for each program and library that tests were skipped for, from the reasons of all skips."""
    found = (_MISSING.match(reason) for reason in reasons)
    counts = Counter(one["module"] or one["name"] for one in found if one is not None)
    return [
        f"not proved here: {name} (not installed), {count} {'test' if count == 1 else 'tests'}"
        for name, count in sorted(counts.items(), key=lambda one: one[0].lower())
    ]
