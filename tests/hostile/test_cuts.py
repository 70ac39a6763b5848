"""The quick form of the power cuts; skipped only where an image cannot be mounted (it takes root and a loop device)."""

from __future__ import annotations

import os
import random

import pytest

from tests.hostile import cuts, disks, steps
from tests.hostile.nursery import Say
from tests.hostile.report import Report
from tests.hostile.steps import SMALL


@pytest.fixture(autouse=True)
def a_disk(report: Report) -> None:
    problem = disks.why_not(report.folder)
    if problem is not None:
        pytest.skip(problem)


def test_what_was_acknowledged_survives_power_cuts(report: Report, chance: random.Random) -> None:
    cuts.live_through(report, SMALL, 2, chance)


def test_a_bulk_load_survives_a_power_cut(report: Report, chance: random.Random) -> None:
    cuts.loads(report, 1, chance)


def unsynced(say: Say, *arguments: object) -> None:
    vars(os)["fsync"] = lambda descriptor: None
    steps.write(say, *arguments)  # type: ignore[arg-type]


def test_a_power_cut_takes_what_was_never_synced(
    report: Report, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without fsync the same cut loses what was acknowledged, so the proof can fail."""
    disk = cuts.Disk(report.place("disk"), SMALL)
    monkeypatch.setattr(cuts, "write", unsynced)
    with pytest.raises(AssertionError):
        disk.cut(chance, cuts.MOST[SMALL])
