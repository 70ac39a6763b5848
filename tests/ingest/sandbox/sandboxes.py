"""For tests of the sandbox: one whose child runs the hostile parsers, and what is asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.sandbox.parent import Sandbox, SandboxLimits
from tests import ROOT

PROGRAM = (str(ROOT / "tests" / "ingest" / "sandbox" / "hostile_parsers.py"),)
LIMITS = SandboxLimits(seconds=60, memory=1 << 30, answer=1 << 20, documents=1 << 20)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """One for all tests: a child that a test ends is replaced at the next document."""
    with Sandbox(LIMITS, PROGRAM) as each:
        yield each


def pid(sandbox: Sandbox) -> int:
    """The process that reads the documents of a sandbox."""
    number = sandbox.parse("echo", b"")["pid"]
    assert isinstance(number, int)
    return number


def is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def reason(sandbox: Sandbox, kind: str, content: bytes = b"x", **options: Any) -> str:
    with pytest.raises(InvalidDocument) as caught:
        sandbox.parse(kind, content, options)
    return caught.value.message
