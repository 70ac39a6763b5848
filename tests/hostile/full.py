"""Disks that are really full: a file system in memory that leaves a stage of the cycle less room than it needs."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.hostile import stages
from tests.hostile.disks import small_disk
from tests.hostile.nursery import asked, started
from tests.hostile.report import Report
from tests.hostile.stages import Stage

PAGE = 4096


def run(report: Report, rounds: int, chance: random.Random) -> None:
    fill_up(report, rounds, chance, stages.cycle(report))


def fill_up(report: Report, rounds: int, chance: random.Random, cycle: Sequence[Stage]) -> None:
    """Stages on disks of random room: each is done, or refused with nothing stored, and done once there is room."""
    ends: Counter[str] = Counter()
    for number in range(rounds):
        stage = cycle[number % len(cycle)]
        room = chance.randrange(0, 60) * PAGE
        ends[attempted(stage, room)] += 1
    text = ", ".join(f"{end} {count}" for end, count in ends.most_common())
    report.figure("full disks", f"{rounds} disks of random room: {text}; readers served on, all complete with room")


def attempted(stage: Stage, room: int) -> str:
    """How a stage ends on a disk with so many bytes left, all that it should be afterwards."""
    disk = stage.folder / "disk"
    with small_disk(disk, 16 << 20):
        there = replace(stage, folder=disk)
        shutil.copytree(stage.folder / "start", there.folder / "start")
        if (stage.folder / stages.ROWS).exists():
            shutil.copy(stage.folder / stages.ROWS, disk)
        there.fresh()
        shutil.rmtree(disk / "start")
        filler = disk / "filler"
        _fill(filler, disk, room)
        with started(stages.run, there) as child:
            said = child.hear()
        where = f"{stage.name} with {room:,} bytes left: {said}"
        assert not said.startswith("broke"), where
        filler.unlink()
        try:
            asked(stages.examine, there, said == "done", stages.stored_nothing(said))
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
    return said.split(":")[1].strip() if said.startswith("refused") else said


def _fill(filler: Path, disk: Path, room: int) -> None:
    free = shutil.disk_usage(disk).free
    with filler.open("wb") as file:
        file.write(b"\0" * max(0, free - room))
