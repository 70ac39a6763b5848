"""A parser that was taken over gets nothing: of all tries to leave the sandbox none succeeds, as root and as a user."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aidre.ingest.sandbox.walls import available
from tests import ROOT
from tests.hostile.breakout import TRIES

NOBODY = 65534

needs_walls = pytest.mark.skipif(not available().are_whole, reason="this system has no Landlock or no seccomp")
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the tries call by the numbers of x86-64")


def succeeded(*arguments: str, **process: Any) -> list[str]:
    command = [sys.executable, "-m", "tests.hostile.walls", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **process)
    assert done.returncode == 0, done.stderr
    return [name for name, reason in json.loads(done.stdout).items() if reason is None]


@pytest.mark.slow
@pytest.mark.process
@needs_walls
@on_x86
def test_no_try_succeeds() -> None:
    assert len(TRIES) >= 50
    assert succeeded() == []


@pytest.mark.slow
@pytest.mark.process
@needs_walls
@on_x86
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_no_try_succeeds_as_a_user_without_rights(tmp_path: Path) -> None:
    if not can_run(NOBODY):
        pytest.skip("the checkout cannot be read by another user")
    home = {**os.environ, "HOME": "/tmp", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    assert succeeded(user=NOBODY, group=NOBODY, extra_groups=[], env=home) == []


@pytest.mark.slow
@pytest.mark.process
@on_x86
def test_without_walls_most_tries_of_a_user_succeed() -> None:
    """Else the tries would prove nothing."""
    assert len(succeeded("bare")) >= 35


def can_run(user: int) -> bool:
    command = [sys.executable, "-c", "import aidre.ingest.sandbox.parent"]
    identity: dict[str, Any] = {"user": user, "group": user, "extra_groups": []}
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, **identity)
    except OSError:
        return False
    return done.returncode == 0
