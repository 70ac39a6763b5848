"""The quick form of the crash points and faults; the form that strace makes is skipped only where there is none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from aidre.engine.storage import durable
from tests.hostile import disks, full, points, stages, tracing
from tests.hostile.nursery import Say, asked
from tests.hostile.points import InPython, Point, Traced
from tests.hostile.report import Report
from tests.hostile.stages import Stage


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Stage]:
    return asked(stages.make, tmp_path_factory.mktemp("cycle"))


@pytest.fixture
def cycle(whole: Sequence[Stage], chance: random.Random) -> Sequence[Stage]:
    """Two stages, others in every run."""
    return chance.sample(whole, 2)


@pytest.fixture
def strace() -> None:
    problem = tracing.why_not()
    if problem is not None:
        pytest.skip(problem)


def test_a_stage_that_dies_in_any_call_is_before_or_after_it(
    report: Report, chance: random.Random, cycle: Sequence[Stage]
) -> None:
    points.die_everywhere(report, 4, chance, InPython(), cycle)


def test_a_stage_that_is_refused_anything_says_so_and_can_be_repeated(
    report: Report, chance: random.Random, cycle: Sequence[Stage]
) -> None:
    points.fail_everywhere(report, 3, chance, InPython(), cycle)


@pytest.mark.usefixtures("strace")
def test_a_stage_that_dies_in_any_system_call_is_before_or_after_it(
    report: Report, chance: random.Random, cycle: Sequence[Stage]
) -> None:
    points.die_everywhere(report, 3, chance, Traced(), cycle)


@pytest.mark.usefixtures("strace")
def test_a_stage_that_any_system_call_refuses_can_be_repeated(
    report: Report, chance: random.Random, cycle: Sequence[Stage]
) -> None:
    points.fail_everywhere(report, 2, chance, Traced(), cycle)


def test_a_full_disk_refuses_a_stage_and_takes_it_when_there_is_room(
    report: Report, chance: random.Random, cycle: Sequence[Stage]
) -> None:
    problem = disks.why_not(report.folder)
    if problem is not None:
        pytest.skip(problem)
    full.fill_up(report, 3, chance, cycle)


def in_place(say: Say, point: Point, fault: str) -> None:
    """Writes files without a temporary one."""
    vars(durable)["replace_file"] = lambda path, content: path.write_bytes(content)
    points.meeting(say, point, fault)


class InPlace(InPython):
    """Only the last calls of a stage, where files are replaced."""

    def points(self, cycle: Sequence[Stage], *, reading: bool) -> list[Point]:
        return super().points(cycle, reading=reading)[-12:]


def test_a_file_that_is_replaced_in_place_is_found_out(
    report: Report, chance: random.Random, whole: Sequence[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the proof can fail."""
    (delete,) = [stage for stage in whole if stage.name == "delete"]
    monkeypatch.setattr(points, "meeting", in_place)
    with pytest.raises(AssertionError, match="does not hold a generation number"):
        points.die_everywhere(report, 12, chance, InPlace(), [delete])


def test_a_listing_of_system_calls_is_read_as_strace_counts(tmp_path: Path) -> None:
    lines = (
        '7 openat(AT_FDCWD, "/elsewhere", O_RDONLY) = 3',
        f'7 openat(AT_FDCWD, "{tmp_path}/a", O_WRONLY|O_CREAT, 0666) = 3</{tmp_path}/a>',
        f"8 write(4<{tmp_path}/b>, ..., 5 <unfinished ...>",
        f'7 openat(AT_FDCWD, "{tmp_path}/a", O_RDONLY) = 5',
        "8 <... write resumed>) = 5",
        f"8 write(4<{tmp_path}/b>, ..., 5) = 5",
        "7 +++ exited with 0 +++",
    )
    (tmp_path / "calls").write_text("\n".join(lines), encoding="utf-8")
    found = [(met.call, met.number, met.changes) for met in tracing.read(tmp_path / "calls", tmp_path)]
    assert found == [("openat", 2, True), ("write", 1, True), ("openat", 3, False), ("write", 2, True)]
