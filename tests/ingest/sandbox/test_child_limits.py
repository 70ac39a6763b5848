"""The child's limits: what it may use from the first document on, and how long one document may compute."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest

from aidre.ingest.sandbox import child

MEMORY = 1 << 30
CONFINED = f"""
import json, resource
from aidre.ingest.sandbox import child
resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
child.confine({MEMORY})
names = ("AS", "CORE", "FSIZE", "NOFILE", "NPROC")
found = {{name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names}}
usage = resource.getrusage(resource.RUSAGE_SELF)
used = usage.ru_utime + usage.ru_stime
child.limit_processor(20.0)
soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
found["CPU"] = [soft - used, hard]
print(json.dumps(found))
"""


def test_a_confined_child_has_little_to_use() -> None:
    said = subprocess.run([sys.executable, "-c", CONFINED], capture_output=True, text=True, check=True).stdout
    found = json.loads(said)
    assert found["AS"] == [MEMORY, MEMORY]
    assert found["CORE"] == found["FSIZE"] == found["NPROC"] == [0, 0]
    assert found["NOFILE"] == [8, 8], "a limit that was lower stays"
    left, hard = found["CPU"]
    assert 25 <= left < 27, "the seconds of a document and five more, beyond what was used before"
    assert hard == -1 or hard > left


def test_a_limit_that_is_lower_already_is_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may raise it, everybody else is refused."""
    limited: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (3, 3))
    monkeypatch.setattr(resource, "setrlimit", limited.__setitem__)
    child.confine(MEMORY)
    assert limited[resource.RLIMIT_AS] == limited[resource.RLIMIT_NOFILE] == (3, 3)
    assert limited[resource.RLIMIT_CORE] == (0, 0)


def test_the_time_of_a_document_begins_after_what_was_used_by_program_and_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrusage", lambda whose: SimpleNamespace(ru_utime=1.5, ru_stime=2.2))
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (7, 99))
    monkeypatch.setattr(resource, "setrlimit", limited.__setitem__)
    child.limit_processor(20.0)
    assert limited == {resource.RLIMIT_CPU: (24 + child._GRACE_SECONDS, 99)}
