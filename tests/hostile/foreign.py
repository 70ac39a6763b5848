"""Stores from elsewhere: values in files altered, with the checksums of the manifest made anew, as a bucket or a backup
of somebody else may have them.

No process ends, and whatever is raised is an error of aidre. Answers may be wrong: whoever writes a store may write
anything into it.
"""

from __future__ import annotations

import random
import struct
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from aidre.engine.storage.arrow import FileEntry, _frame_checksum, checksum_of
from aidre.engine.storage.manifest import Manifest, encode_manifest, manifest_numbers, read_manifest
from tests.hostile import victim
from tests.hostile.damage import DERIVED, TRUTH
from tests.hostile.nursery import asked
from tests.hostile.report import Report
from tests.support.stores import NAME

FILES: Final = {
    **TRUTH,
    **DERIVED,
    "words": "store/docs/segments/*/words.arrow",
    "deletes": "store/docs/deletes/*.arrow",
}
IN_A_CHILD: Final = 100
"""Stores."""
VALUES: Final = (
    *(0, 1, -1, 2, 127, 255, 65_535, 1 << 20),
    *((1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 40, 1 << 62, -(1 << 63)),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The sound store."""

    folder: Path
    answers: dict[str, bytes]
    files: dict[str, list[Path]]
    manifest: Path
    content: bytes


@dataclass(slots=True)
class Found:
    """What came of stores like it; `wrong` are those that ended a process, or raised what is not an error of aidre."""

    outcomes: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.outcomes += other.outcomes
        self.raised += other.raised
        self.wrong += other.wrong

    def __str__(self) -> str:
        return ", ".join(f"{outcome} {count:,}" for outcome, count in self.outcomes.most_common())


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """So many stores, as many with an altered file of each kind."""
    subjects = [prepared(report.place(f"foreign-{listed}"), listed=listed) for listed in (False, True)]
    found, seed = Found(), chance.getrandbits(31)
    for first in range(0, rounds, IN_A_CHILD):
        numbers = range(first, min(first + IN_A_CHILD, rounds))
        for place, subject in enumerate(subjects):
            found.add(in_children(subject, seed, numbers[place :: len(subjects)]))
        report.say(f"{numbers.stop:,} of {rounds:,}: {found}")
    report.figure("foreign", f"{rounds:,} stores: {found}")
    report.say(f"raised by questions: {found.raised.most_common(20)}")
    assert not found.wrong, "\n".join(found.wrong)


def in_children(subject: Subject, seed: int, numbers: Sequence[int]) -> Found:
    """All in one child; where that ends, each in its own."""
    whole = {path: path.read_bytes() for paths in subject.files.values() for path in paths}
    try:
        return asked(look_at, subject, seed, numbers)
    except AssertionError as error:
        found, said = Found(), str(error).strip()[-100:]
        for path, content in {**whole, subject.manifest: subject.content}.items():
            replaced(path, content)
        if len(numbers) == 1:
            return Found(Counter(died=1), wrong=[f"store {numbers[0]} of seed {seed} in {subject.folder.name}: {said}"])
        for number in numbers:
            found.add(in_children(subject, seed, [number]))
        if not found.wrong:
            together = f"stores {numbers[0]} to {numbers[-1]} of seed {seed} in {subject.folder.name}, together"
            found.add(Found(Counter(died=1), wrong=[f"{together}: {said}"]))
        return found


def prepared(folder: Path, *, listed: bool) -> Subject:
    asked(victim.make_listed if listed else victim.make, folder)
    answers = asked(victim.answers, folder / "store")
    files = {kind: sorted(folder.glob(pattern)) for kind, pattern in FILES.items()}
    assert all(files.values()), files
    manifests = folder / "store" / "docs" / "manifests"
    number = max(manifest_numbers(manifests.parent))
    path = next(path for path in manifests.iterdir() if int(path.stem) == number)
    return Subject(folder, answers, files, path, path.read_bytes())


def look_at(subject: Subject, seed: int, numbers: Sequence[int]) -> Found:
    """In a child: alter one file, ask the store everything, and put the file back, for each number."""
    found, kinds = Found(), list(FILES)
    for number in numbers:
        chance, kind = random.Random(f"{seed} {number}"), kinds[number // 2 % len(kinds)]
        path = chance.choice(subject.files[kind])
        content = path.read_bytes()
        altered, where = mutated(content, chance)
        replaced(path, altered)
        replaced(subject.manifest, sealed(subject, path, altered))
        try:
            seen = victim.look(subject.folder / "store", subject.answers)
        except Exception:
            found.outcomes["raw error"] += 1
            found.wrong.append(f"store {number} of seed {seed}, {path.name} {where}: {traceback.format_exc()[-500:]}")
        else:
            named = any(path.name in file for file, _ in seen.problems)
            outcome = "refused" if seen.refused else "named by verify" if named else "answered"
            found.outcomes[outcome + (", raised" if seen.raised else "")] += 1
            raised = {each.split(": ")[1] for each in seen.raised} - {"HistoryMissing"}
            found.raised.update(f"{kind}: {each}" for each in raised)
        finally:
            replaced(path, content)
            replaced(subject.manifest, subject.content)
    return found


def replaced(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def mutated(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """One to three values of four or eight bytes set to others, and where."""
    altered, places = bytearray(content), []
    for _ in range(chance.randint(1, 3)):
        size = chance.choice((4, 8))
        words = len(content) // size
        near_the_start, near_the_end = chance.randrange(min(words, 400)), words - 1 - chance.randrange(min(words, 200))
        place = chance.choice((chance.randrange(words), near_the_start, near_the_end)) * size
        value = chance.choice(VALUES)
        if chance.random() < 0.3:
            value = int.from_bytes(altered[place : place + size], "little") + chance.choice((-1, 1, 8, -8, 256))
        struct.pack_into("<I" if size == 4 else "<Q", altered, place, value & ((1 << 8 * size) - 1))
        places.append(f"{value} at {place}")
    return bytes(altered), " and ".join(places)


def sealed(subject: Subject, path: Path, content: bytes) -> bytes:
    """The manifest with the entry of an altered file."""
    manifest = read_manifest(subject.manifest.parent, int(subject.manifest.stem), NAME)
    data = np.frombuffer(content, np.uint8)

    def entry_of(old: FileEntry) -> FileEntry:
        return FileEntry(len(data), checksum_of(data), old.frame, _frame_checksum(data, old.frame))

    return encode_manifest(_with_entry(manifest, path, entry_of))


def _with_entry(manifest: Manifest, path: Path, entry_of: Callable[[FileEntry], FileEntry]) -> Manifest:
    if path.parent.name == "deletes":
        return replace(manifest, deletes={**manifest.deletes, path.name: entry_of(manifest.deletes[path.name])})
    segments = tuple(
        replace(segment, files={**segment.files, path.name: entry_of(segment.files[path.name])})
        if segment.id == path.parent.name
        else segment
        for segment in manifest.segments
    )
    return replace(manifest, segments=segments)
