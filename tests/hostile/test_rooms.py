"""The short form: a fault in a room is found by the tests that `make check FILE=` chooses, in some rooms always."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests import ROOT
from tests.hostile import rooms
from tests.hostile.report import Report

ALWAYS = [
    Path("aidre/library"),
    Path("packages/client/aidre_client"),
    Path("packages/conformance/aidre_conformance"),
    Path("examples"),
]
BY_CHANCE = 1


def test_a_fault_in_a_room_is_found(report: Report, chance: random.Random) -> None:
    others = [room for room in rooms.rooms() if room not in ALWAYS]
    rooms.examine(report, [*ALWAYS, *chance.sample(others, BY_CHANCE)], at_once=1)


def test_a_fault_that_no_chosen_test_finds_is_told(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the tests of another room are chosen, which pass."""
    monkeypatch.setattr(rooms, "tests_of", lambda file: [ROOT / "tests" / "engine" / "test_errors.py"])
    with pytest.raises(
        AssertionError, match=r"aidre/library/arguments\.py:\d+ to_\w+: status 0 of tests/engine/test_err"
    ):
        rooms.examine(report, [Path("aidre/library")], at_once=1)


def test_every_room_has_a_function_to_plant_a_fault_in() -> None:
    faults = [rooms.fault_in(room) for room in rooms.rooms()]
    assert len(faults) > 50
    for room in rooms.WITHOUT_FUNCTIONS:
        with pytest.raises(AssertionError, match=f"no public function of {room} returns anything"):
            rooms.fault_in(room)
    for fault in faults:
        compile(fault.applied((ROOT / fault.module).read_bytes()), fault.module, "exec")
