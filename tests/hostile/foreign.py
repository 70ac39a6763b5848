"""Stores from elsewhere: values in files altered, with the checksums of the manifest made anew, as a bucket or a backup
of somebody else may have them.

No process ends, and whatever is raised is an error of aidre. Answers may be wrong: whoever writes a store may write
anything into it.
"""

from __future__ import annotations

import random
import struct
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
VALUES: Final = (
    *(0, 1, -1, 2, 127, 255, 65_535, 1 << 20),
    *((1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 40, 1 << 62, -(1 << 63)),
)


@dataclass(slots=True)
class Subject:
    """The sound store, and what came of others like it."""

    folder: Path
    answers: dict[str, bytes]
    files: dict[str, list[Path]]
    manifest: Path
    content: bytes
    outcomes: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    died: list[str] = field(default_factory=list)


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """So many stores, as many with an altered file of each kind."""
    subjects = [prepared(report.place(f"foreign-{listed}"), listed=listed) for listed in (False, True)]
    kinds = list(FILES)
    for number in range(rounds):
        subject = subjects[number // len(kinds) % len(subjects)]
        one(subject, kinds[number % len(kinds)], chance)
        if number % 100 == 99:
            report.say(f"{number + 1:,} of {rounds:,}: {_summed(subjects)}")
    report.figure("foreign", f"{rounds:,} stores: {_summed(subjects)}")
    died = [each for subject in subjects for each in subject.died]
    raised = sum((subject.raised for subject in subjects), Counter[str]())
    report.say(f"raised by questions: {raised.most_common(20)}")
    assert not died, "\n".join(died)


def _summed(subjects: Sequence[Subject]) -> str:
    outcomes = sum((subject.outcomes for subject in subjects), Counter[str]())
    return ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common())


def prepared(folder: Path, *, listed: bool) -> Subject:
    asked(victim.make_listed if listed else victim.make, folder)
    answers = asked(victim.answers, folder / "store")
    files = {kind: sorted(folder.glob(pattern)) for kind, pattern in FILES.items()}
    assert all(files.values()), files
    manifests = folder / "store" / "docs" / "manifests"
    number = max(manifest_numbers(manifests.parent))
    path = next(path for path in manifests.iterdir() if int(path.stem) == number)
    return Subject(folder, answers, files, path, path.read_bytes())


def one(subject: Subject, kind: str, chance: random.Random) -> None:
    """Alter one file, ask the store everything, and put the file back."""
    path = chance.choice(subject.files[kind])
    content = path.read_bytes()
    altered, where = mutated(content, chance)
    replaced(path, altered)
    replaced(subject.manifest, sealed(subject, path, altered))
    try:
        seen = asked(victim.look, subject.folder / "store", subject.answers)
    except AssertionError as error:
        died = "ended by" in str(error)
        subject.outcomes["died" if died else "raw error"] += 1
        subject.died.append(f"{kind} {path.name} {where}: {str(error).strip()[-500 if not died else -100 :]}")
    else:
        kinds = {each.split(": ")[1] for each in seen.raised} - {"HistoryMissing"}
        subject.raised.update(f"{kind}: {each}" for each in kinds)
        named = any(path.name in file for file, _ in seen.problems)
        outcome = "refused" if seen.refused else "named by verify" if named else "answered"
        subject.outcomes[outcome + (", raised" if seen.raised else "")] += 1
    finally:
        replaced(path, content)
        replaced(subject.manifest, subject.content)


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
