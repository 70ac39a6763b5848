"""Bit flips and truncations in every kind of file of a store, made before it is opened.

Found means: opening refuses the file by its name; or it is bypassed with a warning that names it, every answer is as
before, and `verify` names it; or `verify` names it where nothing but a text or a vector can be different; or nothing
that can be asked is different (the last byte of CURRENT, a page of a database that is free).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from tests.hostile import papers, victim
from tests.hostile.nursery import asked
from tests.hostile.papers import Read
from tests.hostile.report import Report
from tests.hostile.victim import Seen

Outcome: TypeAlias = Literal["refused on opening", "bypassed, answers right", "found by verify", "without effect"]
EDGE = 64
"""Bytes at either end of a file in which every fourth flip lies, wherever its headers are."""
NOISE_KIB = 16 << 10
"""Of memory that two looks at the same store differ by."""

SEGMENTS = "store/docs/segments/*/*"
TRUTH = {
    "documents": f"{SEGMENTS}documents.arrow",
    "chunks": f"{SEGMENTS}chunks.arrow",
    "vectors": f"{SEGMENTS}.vectors.arrow",
}
DERIVED = {name: f"{SEGMENTS}{name}.arrow" for name in ("ids", "fields", "lexicon", ".index", ".keys")}
LISTED = {
    "CURRENT": "store/docs/CURRENT",
    "manifest": "store/docs/manifests/*.json",
    "changes": "store/docs/changes/*.arrow",
    "deletes": "store/docs/deletes/*.arrow",
}
PAPERS = {
    "vector log": "store/docs/filling/*.log",
    "checks": "store/.checks.json",
    "intent ledger": "store/.log/intent.sqlite",
    "binds": "store/.log/intake.sqlite",
    "promises": "store/.log/nlweb-promises.sqlite",
    "counts": "store/.log/[cl]*[sy]",
    "cursor secret": "store/.log/cursor.key",
    "signing keys": "keys.pem",
    "backup": "backup.tar",
}
KINDS = {**TRUTH, **DERIVED, **LISTED, **PAPERS}


@dataclass(frozen=True, slots=True)
class Hurt:
    """One file with one bit flipped, or cut at a place."""

    kind: str
    path: Path
    content: bytes
    place: int
    bit: int | None

    @property
    def altered(self) -> bytes:
        if self.bit is None:
            return self.content[: self.place]
        altered = bytearray(self.content)
        altered[self.place] ^= 1 << self.bit
        return bytes(altered)

    def __str__(self) -> str:
        what = "cut" if self.bit is None else f"bit {self.bit} flipped"
        return f"{self.kind}: {self.path.name} {what} at {self.place:,} of {len(self.content):,}"


@dataclass(slots=True)
class Subject:
    """The sound store, and what is known of it."""

    folder: Path
    files: Mapping[str, Sequence[Path]]
    answers: dict[str, bytes]
    frames: Mapping[Path, Sequence[tuple[int, int]]]
    sound: Seen
    papers: dict[str, Read]
    outcomes: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    most: int = 0

    def hurt(self, kind: str, chance: random.Random, *, flip: bool) -> Hurt:
        path = chance.choice(self.files[kind])
        content = path.read_bytes()
        if not flip:
            return Hurt(kind, path, content, chance.randrange(len(content)), None)
        return Hurt(kind, path, content, self._place(path, len(content), chance), chance.randrange(8))

    def _place(self, path: Path, size: int, chance: random.Random) -> int:
        """Any byte; more often one of a header, a footer or an end, which are few."""
        where = chance.random()
        if where < 0.25:
            return chance.choice((chance.randrange(min(EDGE, size)), size - 1 - chance.randrange(min(EDGE, size))))
        if where < 0.5 and path in self.frames:
            first, length = chance.choice(self.frames[path])
            return first + chance.randrange(length)
        return chance.randrange(size)

    def in_frame(self, hurt: Hurt) -> bool:
        return any(first <= hurt.place < first + length for first, length in self.frames[hurt.path])


def flips(report: Report, rounds: int, chance: random.Random) -> None:
    """A bit in each of so many files, as many of every kind; half of them where the index has several lists."""
    run(report, rounds, chance, _stores(report, "flips"), flip=True)


def truncations(report: Report, rounds: int, chance: random.Random) -> None:
    """So many files cut off, as many of every kind; half of them where the index has several lists."""
    run(report, rounds, chance, _stores(report, "truncations"), flip=False)


def _stores(report: Report, name: str) -> list[Subject]:
    return [prepared(report.place(f"{name}-{listed}"), listed=listed) for listed in (False, True)]


def run(report: Report, rounds: int, chance: random.Random, subjects: Sequence[Subject], *, flip: bool) -> None:
    """The stores take turns, a round of every kind each."""
    name = "flips" if flip else "truncations"
    for number in range(rounds):
        subject = subjects[number // len(KINDS) % len(subjects)]
        hurt = subject.hurt(list(KINDS)[number % len(KINDS)], chance, flip=flip)
        try:
            examine(subject, hurt)
        except AssertionError as error:
            raise AssertionError(f"round {number}, {hurt}: {error}") from error
        if number % 100 == 99:
            report.say(f"{number + 1:,} of {rounds:,}: {_summed(subjects)}")
    report.figure(name, f"{rounds:,} in {len(KINDS)} kinds of files: {_summed(subjects)}")
    for kind in KINDS:
        found = {outcome: count for (of, outcome), count in _outcomes(subjects).items() if of == kind}
        report.say(f"  {kind}: {', '.join(f'{outcome} {count}' for outcome, count in found.items())}")


def _outcomes(subjects: Sequence[Subject]) -> Counter[tuple[str, Outcome]]:
    return sum((subject.outcomes for subject in subjects), Counter[tuple[str, Outcome]]())


def _summed(subjects: Sequence[Subject]) -> str:
    outcomes = Counter[str]()
    for (_, outcome), count in _outcomes(subjects).items():
        outcomes[outcome] += count
    said = ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common())
    odd = sum((subject.odd for subject in subjects), Counter[str]())
    return (
        f"{said}, not found 0; wrong answers 0, processes that died 0, the other collection always served; "
        f"memory at most {max(subject.most for subject in subjects) / 1024:.0f} MiB above that of a sound store"
        + (f"; reading what only verify finds raised {dict(odd)}" if odd else "")
    )


def prepared(folder: Path, *, listed: bool = False) -> Subject:
    """A store with all kinds of files, and what it says."""
    asked(victim.make_listed if listed else victim.make, folder)
    assert asked(victim.is_listed, folder / "store") == listed
    asked(papers.write, folder)
    store = folder / "store"
    (folder / "secret").write_bytes((store / ".log" / "cursor.key").read_bytes())
    files = {kind: sorted(folder.glob(pattern)) for kind, pattern in KINDS.items()}
    assert all(files.values()), {kind: len(found) for kind, found in files.items()}
    answers = asked(victim.answers, store)
    sound = asked(victim.look, store, answers)
    assert (sound.refused, sound.warnings, sound.differing, sound.raised, sound.problems) == (None, (), (), (), ())
    frames = {store / name: parts for name, parts in asked(victim.frames, store).items()}
    read = {kind: asked(papers.read, folder, kind) for kind in papers.KINDS}
    assert not any(each.error or each.named for each in read.values()), read
    return Subject(folder, files, answers, frames, sound, read)


# -- one of them -----------------------------------------------------------------------------------------------------


def examine(subject: Subject, hurt: Hurt) -> Outcome:
    """Damage a file as a disk would, whatever the permissions and times say; see what comes of it; put it back."""
    status = hurt.path.stat()
    hurt.path.unlink()
    hurt.path.write_bytes(hurt.altered)
    os.utime(hurt.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    try:
        outcome = JUDGES[hurt.kind](subject, hurt)
    finally:
        hurt.path.unlink(missing_ok=True)
        hurt.path.write_bytes(hurt.content)
        hurt.path.chmod(status.st_mode)
        os.utime(hurt.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    subject.outcomes[hurt.kind, outcome] += 1
    return outcome


def _seen(subject: Subject, hurt: Hurt, generation: int | None = None) -> Seen:
    seen = asked(victim.look, subject.folder / "store", subject.answers, generation)
    assert seen.others, "the other collection is not served"
    _check_memory(subject, hurt, seen.peak - subject.sound.peak)
    return seen


def _check_memory(subject: Subject, hurt: Hurt, more: int) -> None:
    subject.most = max(subject.most, more)
    assert more <= 2 * len(hurt.content) // 1024 + NOISE_KIB, f"{more:,} KiB more than a sound store needs"


def _name(subject: Subject, hurt: Hurt) -> str:
    return hurt.path.relative_to(subject.folder / "store").as_posix()


def _refused(seen: Seen, name: str) -> None:
    assert seen.refused is not None, f"it was opened; {seen}"
    assert seen.refused[0] == name, seen.refused
    assert "\n" not in seen.refused[1]
    assert any(file == name and not derived for file, derived in seen.problems), seen.problems
    assert not seen.ok


def truth(subject: Subject, hurt: Hurt) -> Outcome:
    """Cut, or in its frame: refused. In its body, `verify` finds it, and reading it ends no process."""
    seen, name = _seen(subject, hurt), _name(subject, hurt)
    if hurt.bit is None or subject.in_frame(hurt):
        _refused(seen, name)
        return "refused on opening"
    assert (name, False) in seen.problems, f"verify does not name it; {seen.problems}"
    assert not seen.ok
    subject.odd.update(each.split(": ")[1] for each in seen.raised)
    return "found by verify"


def derived(subject: Subject, hurt: Hurt) -> Outcome:
    seen, name = _seen(subject, hurt), _name(subject, hurt)
    assert seen.refused is None, seen.refused
    assert (seen.differing, seen.raised) == ((), ())
    assert [name in warning for warning in seen.warnings] == [True], seen.warnings
    assert (seen.problems, seen.ok) == (((name, True),), True)
    return "bypassed, answers right"


def deletes(subject: Subject, hurt: Hurt) -> Outcome:
    _refused(_seen(subject, hurt), _name(subject, hurt))
    return "refused on opening"


def manifest(subject: Subject, hurt: Hurt) -> Outcome:
    """That of an older generation is refused when that is opened, and the newest says what it said."""
    seen, name = _seen(subject, hurt), _name(subject, hurt)
    if hurt.path == subject.files["manifest"][-1]:
        _refused(seen, name)
        return "refused on opening"
    assert (seen.refused, seen.differing, seen.raised, seen.ok) == (None, (), (), True)
    assert seen.problems == ((name, True),)
    older = _seen(subject, hurt, int(hurt.path.stem))
    assert older.refused is not None
    assert older.refused[0] == name
    return "refused on opening"


def current(subject: Subject, hurt: Hurt) -> Outcome:
    """Refused; or the number of a generation that is there, which only `verify` can know better."""
    seen, name = _seen(subject, hurt), _name(subject, hurt)
    if hurt.altered.strip() == hurt.content.strip() and seen.refused is None:
        assert (seen.differing, seen.raised, seen.problems) == ((), (), ())
        return "without effect"
    named = {file for file, derived in seen.problems if not derived}
    assert named and named <= {name, *(file for file in named if "/manifests/" in file)}, seen.problems
    assert not seen.ok
    return "found by verify" if seen.refused is None else "refused on opening"


def changes(subject: Subject, hurt: Hurt) -> Outcome:
    """A client is told to begin again, or the truth; everything else is answered."""
    seen, name = _seen(subject, hurt), _name(subject, hurt)
    assert (seen.refused, seen.warnings, seen.differing, seen.ok) == (None, (), (), True)
    assert set(seen.raised) <= {"text feed: HistoryMissing"}, seen.raised
    assert seen.problems == ((name, True),)
    return "bypassed, answers right"


def vector_log(subject: Subject, hurt: Hurt) -> Outcome:
    """The vectors that it hits are not known any more, and are computed again."""
    known = asked(victim.vectors_kept, subject.folder / "store")
    size = len(hurt.content) // len(known)
    lost = {row for row, is_known in enumerate(known) if not is_known}
    first = hurt.place // size
    assert lost == ({first} if hurt.bit is not None else set(range(first, len(known)))), lost
    return "bypassed, answers right"


def paper(subject: Subject, hurt: Hurt) -> Outcome:
    """A typed error, a problem that `verify` names, or what it said before."""
    read, sound = asked(papers.read, subject.folder, hurt.kind), subject.papers[hurt.kind]
    _check_memory(subject, hurt, read.peak - sound.peak)
    if read.error is not None:
        assert "\n" not in read.error
        return "refused on opening"
    if read.said == sound.said:
        return "found by verify" if read.named else "without effect"
    if read.named:
        return "found by verify"
    assert hurt.kind in LOST_WITHOUT_HARM, f"it says something else: {read.said[:500]}"
    return "bypassed, answers right"


def backup(subject: Subject, hurt: Hurt) -> Outcome:
    outcome = paper(subject, hurt)
    assert outcome == "refused on opening", outcome
    return outcome


LOST_WITHOUT_HARM = frozenset({"promises", "cursor secret", "checks", "counts"})
"""What they lose, a caller sends again: a search from its first page, a question that was promised an answer."""
JUDGES: Mapping[str, Callable[[Subject, Hurt], Outcome]] = {
    **dict.fromkeys(TRUTH, truth),
    **dict.fromkeys(DERIVED, derived),
    "CURRENT": current,
    "manifest": manifest,
    "changes": changes,
    "deletes": deletes,
    **dict.fromkeys(PAPERS, paper),
    "vector log": vector_log,
    "backup": backup,
}
