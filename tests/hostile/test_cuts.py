"""The quick form of the power cuts; skipped only where an image cannot be mounted (it takes root and a loop device)."""

from __future__ import annotations

import os
import random
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from aidre.api.cli.backup import log_problems
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, EventLedger, read_events
from aidre.engine.errors import StorageFailed
from tests.hostile import cuts, disks, receipts, steps
from tests.hostile.nursery import Say, started
from tests.hostile.older_receipts import older_receipts
from tests.hostile.receipts import LOG
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


@pytest.mark.parametrize("state", ["older", "closed", "killed"])
def test_receipts_on_a_disk_that_cannot_be_written_are_read_and_not_added_to(
    tmp_path: Path, state: Literal["older", "closed", "killed"]
) -> None:
    names = ["a", "b", "c", "d"]
    with disks.small_disk(tmp_path / "disk", 8 << 20) as disk:
        if state == "older":
            expected = older_receipts(disk / LOG, names)
        else:
            expected = [f"access {name}" for name in names]
            with started(receipts.answer, disk, names, state == "killed") as child:
                child.killed_by()
        with disks.read_only(disk):
            assert [event["event_id"] for event in read_events(disk / LOG / LEDGER_FILE)] == expected
            assert [problem for problem in log_problems(disk) if not problem.derived] == []
            with pytest.raises(StorageFailed):
                EventLedger(disk / LOG / LEDGER_FILE)
        with closing(EventLedger(disk / LOG / LEDGER_FILE)):
            assert [event["event_id"] for event in read_events(disk / LOG / LEDGER_FILE)] == expected


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
