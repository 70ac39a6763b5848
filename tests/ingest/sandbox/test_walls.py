"""The walls of the sandbox: what is said and refused where one is missing, and the memory of the parent."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidre.api.config.toml import Interval
from aidre.engine.errors import ConfigurationError, InvalidDocument
from aidre.ingest.sandbox import walls
from aidre.ingest.sandbox.parent import SHARED, TABLES, Sandbox, SandboxLimits, set_rules
from aidre.ingest.sandbox.walls import Walls, available, check_walls
from tests import ROOT

BARE = (str(ROOT / "tests" / "hostile" / "breakout.py"), "bare")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="walls are Linux's")


@pytest.fixture
def bare() -> Iterator[Sandbox]:
    with Sandbox(SandboxLimits(), BARE) as sandbox:
        yield sandbox


@pytest.mark.process
def test_a_child_without_walls_parses_unless_they_are_required(bare: Sandbox) -> None:
    assert bare.parse("walls", b"") == [0, False]
    bare.requires_walls = True
    with pytest.raises(InvalidDocument, match="must have walls, and lacks landlock and seccomp here"):
        bare.parse("walls", b"")


@pytest.mark.process
def test_a_child_has_what_the_system_offers() -> None:
    with Sandbox() as sandbox:
        assert Walls(*sandbox.parse("walls", b"")) == available()


def test_a_configuration_that_requires_walls_is_refused_where_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls, "available", lambda: Walls(7, seccomp=True))
    check_walls()
    monkeypatch.setattr(walls, "available", lambda: Walls(0, seccomp=True))
    with pytest.raises(ConfigurationError, match=r'sources\.sandbox is "required", and this system has no landlock'):
        check_walls()


def test_rules_are_those_of_both_sandboxes() -> None:
    try:
        set_rules(requires_walls=True, seconds=Interval(7))
        assert SHARED.requires_walls
        assert TABLES.requires_walls
        assert SHARED.limits.seconds == TABLES.limits.seconds == 7
        assert type(SHARED.limits.seconds) is float, "it is written into the header of a request"
    finally:
        set_rules(requires_walls=False)
    assert not SHARED.requires_walls
    assert SHARED.limits == SandboxLimits()


@on_linux
@pytest.mark.process
def test_the_memory_of_the_parent_is_closed_while_a_child_lives() -> None:
    get_dumpable = 3
    libc = ctypes.CDLL(None)
    SHARED.close()
    TABLES.close()
    before = libc.prctl(get_dumpable, 0, 0, 0, 0)
    with Sandbox() as first, Sandbox() as second:
        first.parse("walls", b"")
        second.parse("walls", b"")
        first.close()
        assert libc.prctl(get_dumpable, 0, 0, 0, 0) == 0
    assert libc.prctl(get_dumpable, 0, 0, 0, 0) == before


@on_linux
@pytest.mark.process
def test_a_user_without_a_home_in_a_folder_that_was_removed_parses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(Path, "home", _no_home)
    assert list(walls._own_folders()) == []
    with Sandbox() as sandbox:
        assert sandbox.parse("markdown", b"# a") == [[0, 1, "a"]]


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")
