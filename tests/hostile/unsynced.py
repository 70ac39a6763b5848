"""Every sync is enough, and every one is needed: scenes are recorded, and replayed after power cuts and kills.

A scene holds if after every loss that the model of `replay` allows all is there that was acknowledged. A sync is needed
if without it a scene does not hold.
"""

from __future__ import annotations

import itertools
import math
import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.hostile.nursery import asked
from tests.hostile.recording import Named, Recorder, Recording, Synced
from tests.hostile.replay import (
    Contents,
    Cut,
    Judged,
    Loss,
    continued,
    cuts,
    found,
    losses,
    pairs,
    put,
    singles,
    worst,
)
from tests.hostile.report import Report
from tests.hostile.scenes import INDEX, SCENES, Scene
from tests.hostile.stages import index_small
from tests.hostile.syncs import Site, sites

ARGUED = {
    "engine/maintenance/copying.py _link_files: durable.sync_file(copied) 1": (
        "Files are copied only on a file system without links, which no scene has."
    ),
    "engine/maintenance/promotion.py _Takeover.finish: durable.sync_folder(cache) 1": (
        "A promotion needs a bucket, which no scene has; where the mark of a replica comes back, it is done once more."
    ),
    "engine/segment/workers.py Workers.results: durable.sync_file(path) 1": (
        "It begins to write early, while other processes build; publish_folder syncs the same files before they count."
    ),
}
"""Syncs that no scene needs, with the reason."""
EVERY = 1_000_000
TRIED = 2_000
"""Losses of one scene without a sync that are looked at in turn; if all is there after them, it is not needed. Those
that are needed show it within some tens."""


def record(scene: Scene, folder: Path) -> Recording:
    """What a scene does to a folder, which is removed."""
    recorder = Recorder(folder)
    with recorder.recording():
        scene.act(folder, recorder.acknowledge)
    recording = recorder.recorded()
    shutil.rmtree(folder)
    return recording


def _act(scene: Scene, folder: Path) -> None:
    scene.act(folder, lambda: None)


def recorded(scene: Scene, place: Path) -> Judged:
    folder = place / "recorded"
    folder.mkdir()
    scene.prepare(folder)
    return Judged(scene.name, record(scene, folder), scene.judge, place / "found")


def gone_on(scene: Scene, first: Recording, place: Path, points: int = EVERY) -> Iterator[Judged]:
    """The scene done once more by another process, where a first one was killed before it synced a folder."""
    for cut in itertools.islice(_before_syncs(first), points):
        contents = Contents(first.contents)
        put(found(cut, (frozenset(), "earlier"), contents), contents, place / "recorded")
        both = continued(first, cut.event, record(scene, place / "recorded"))
        yield Judged(f"{scene.name}, killed after event {cut.event}", both, scene.judge, place / "found")


def _before_syncs(recording: Recording) -> Iterator[Cut]:
    folders = {folder for one in recording.events if isinstance(one, Named) for (folder, _), _ in one.names}
    for cut, event in zip(cuts(recording), recording.events, strict=False):
        if isinstance(event, Synced) and event.node in folders:
            yield cut


def survivors(scenes: Sequence[Judged], asking: Iterable[Site]) -> list[str]:
    """The calls that sync without need: without them all of these scenes hold."""
    return [str(site) for site in asking if not _is_needed(site, scenes)]


def _is_needed(site: Site, scenes: Sequence[Judged]) -> bool:
    """Looks at the worst losses of all scenes first, which tell most."""
    asked_for = [one for one in scenes if any(map(site.asks_for, _syncs(one.recording)))]
    return any(one.violation(worst(one.recording, site.asks_for)) for one in asked_for) or any(
        one.violation(itertools.islice(singles(one.recording, site.asks_for), TRIED)) for one in asked_for
    )


def _syncs(recording: Recording) -> Iterator[Synced]:
    return (event for event in recording.events if isinstance(event, Synced))


# -- the proof ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was replayed, in words; the losses that must not be; the calls that sync without need, of how many."""

    figures: tuple[str, str]
    violations: list[str]
    unneeded: list[str]
    syncs: int

    def check_scenes(self) -> None:
        assert not self.violations, "\n".join(self.violations)

    def check_syncs(self) -> None:
        unargued = [name for name in self.unneeded if name not in ARGUED]
        assert not unargued, "no scene needs these syncs:\n" + "\n".join(unargued)
        unfounded = sorted(ARGUED.keys() - set(self.unneeded))
        assert not unfounded, f"a scene needs these syncs, or there are none: {', '.join(unfounded)}"


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """Every loss of every scene, and so many pairs of losses of each; then every sync dropped, one after the other."""
    outcome = asked(examine, report, rounds, chance, True)
    for name, text in zip(("replayed", "replayed after a kill"), outcome.figures, strict=True):
        report.figure(name, text)
    needed = outcome.syncs - len(outcome.unneeded)
    report.figure("syncs", f"{outcome.syncs} calls: {needed} needed, {len(outcome.unneeded)} argued")
    outcome.check_scenes()
    outcome.check_syncs()


def examine(report: Report, rounds: int, chance: random.Random, whole: bool) -> Outcome:
    """In a child, since it changes what the engine calls large. Not `whole`: as many single losses as pairs."""
    index_small()
    place = report.place("replay")
    scenes, killed, violations = list[Judged](), list[Judged](), list[str | None]()
    for scene in (*SCENES, INDEX) if whole else SCENES:
        judged = recorded(scene, place)
        scenes.append(judged)
        judged.again = partial(_act, scene) if whole and scene.again else None
        violations.append(judged.violation(_tried(judged.recording, rounds, chance, whole)))
        if scene.again:
            for again in gone_on(scene, judged.recording, place, EVERY if whole else scene.again):
                killed.append(again)
                violations.append(again.violation(_at_end(again.recording) if whole else worst(again.recording)))
        report.say(f"{scene.name}: {_counts([judged])}")
    every = sites()
    found = [one for one in violations if one is not None]
    figures = _counts(scenes), _counts(killed)
    return Outcome(figures, found, survivors([*scenes, *killed], every), len(every))


def _tried(recording: Recording, rounds: int, chance: random.Random, whole: bool) -> Iterator[tuple[Cut, Loss]]:
    yield from worst(recording)
    every = list(cuts(recording))
    if whole:
        yield from singles(recording)
    else:
        yield from ((cut, chance.choice(list(losses(cut)))) for cut in chance.choices(every, k=rounds))
    yield from _two(every, rounds, chance)


def _two(every: Sequence[Cut], rounds: int, chance: random.Random) -> Iterator[tuple[Cut, Loss]]:
    """Pairs of losses: all of them, or so many."""
    if sum(math.comb(len(cut.unsure), 2) for cut in every) <= rounds:
        yield from ((cut, loss) for cut in every for loss in pairs(cut))
    else:
        able = [cut for cut in every if len(cut.unsure) > 1]
        yield from ((cut, chance.choice(list(pairs(cut)))) for cut in chance.choices(able, k=rounds))


def _at_end(recording: Recording) -> Iterator[tuple[Cut, Loss]]:
    yield from worst(recording)
    *_, last = cuts(recording)
    yield from ((last, loss) for loss in losses(last))


def _counts(scenes: Sequence[Judged]) -> str:
    events = sum(len(one.recording.events) for one in scenes)
    replayed = sum(one.replayed for one in scenes)
    states = sum(len(one.verdicts) for one in scenes)
    wrong = sum(bool(verdict) for one in scenes for verdict in one.verdicts.values())
    return f"{len(scenes)} scenes, {events:,} events, {replayed:,} losses, {states:,} different states, {wrong} wrong"
