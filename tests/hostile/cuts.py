"""Power cuts: a writer and a server's receipts are stopped, the image of their disk is copied, the copy is mounted.

What the kernel had not been asked to write is not in the copy. A store lives through many cuts, on one copy after
the other, so that each also meets what the ones before it left behind.
"""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from tests.hostile import bulk
from tests.hostile.disks import as_it_lies, mounted, new_image, room, why_not
from tests.hostile.kills import Life
from tests.hostile.nursery import asked, started
from tests.hostile.receipts import LOG, Kept, check, work
from tests.hostile.report import Report
from tests.hostile.steps import INDEXED, SMALL, Shape, Step, planned, write, write_all

STEPS = 24
MOST = {SMALL: 8, INDEXED: 3}
"""Steps after which the power goes at the latest."""


class Disk:
    """A disk with a collection and the files of receipts, and what is known of both."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self._folder = folder
        self._image = new_image(folder / "image")
        self.life = Life(folder / "disk" / "store", shape)
        self.kept = Kept()
        self.cuts = 0
        with self._mounted():
            (self.life.store / LOG).mkdir(parents=True)
            self.life.begin()

    def _mounted(self) -> AbstractContextManager[Path]:
        return mounted(self._image, self._folder / "disk")

    def cut(self, chance: random.Random, least: int = 0) -> None:
        """Take the power while both write; what was acknowledged must be found on what is left."""
        life = self.life
        steps = planned(life.shape, life.state, life.version, STEPS, chance)
        with self._mounted(), ExitStack() as running:
            worker = running.enter_context(started(work, life.store, f"cut-{self.cuts}"))
            writer = running.enter_context(started(write, life.store, life.shape, steps))
            done = len(writer.stop_after(chance.randint(least, MOST[life.shape]), chance))
            worker.stop()
            self.kept.hear(worker.heard())
            as_it_lies(self._image, self._folder / "copy")
        (self._folder / "copy").replace(self._image)
        with self._mounted() as disk:
            life.check(steps, done)
            asked(check, life.store, self.kept)
            if room(disk) < 0.5:  # older generations are kept for ten minutes
                asked(write_all, life.store, life.shape, [Step("purge")])
                life.went_on([Step("purge")])
        self.cuts += 1


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """Two of three cuts hit a small collection, the others an indexed one or a first bulk load."""
    problem = why_not(report.folder)
    assert problem is None, problem
    for_indexed, for_bulk = rounds // 5, rounds // 8
    for shape, count in ((SMALL, rounds - for_indexed - for_bulk), (INDEXED, for_indexed)):
        if count:
            live_through(report, shape, count, chance)
    if for_bulk:
        loads(report, for_bulk, chance)


def live_through(report: Report, shape: Shape, rounds: int, chance: random.Random) -> None:
    disk = Disk(report.place(f"disk-{shape.dimensions}"), shape)
    for number in range(rounds):
        disk.cut(chance)
        if number % 10 == 9:
            report.say(f"{disk.cuts} cuts")
    said = ", ".join(f"{kind} {len(names):,}" for kind, names in disk.kept.said.items())
    text = disk.life.figures().replace(" kills ", " power cuts ", 1)
    report.figure(f"cuts, {shape.dimensions} dimensions", f"{text}; receipts and binds acknowledged {said}, lost 0")


def loads(report: Report, rounds: int, chance: random.Random) -> None:
    """A first bulk load on a new disk each time."""
    source = report.place("bulk-rows") / "rows.parquet"
    asked(bulk.write_source, source)
    acknowledged = 0
    for number in range(rounds):
        folder = report.place(f"bulk-disk-{number}")
        image, disk = new_image(folder / "image"), folder / "disk"
        with mounted(image, disk), started(bulk.load, disk / "store", source, False) as loading:
            said = loading.stop_after(chance.randint(0, 4), chance)
            as_it_lies(image, folder / "copy")
        with mounted(folder / "copy", disk):
            acknowledged += bulk.check(disk / "store", source, said, f"cut {number}")
        (folder / "copy").unlink()
        image.unlink()
    report.figure("cuts, bulk loads", f"{rounds} power cuts, {acknowledged:,} documents acknowledged, lost 0")
