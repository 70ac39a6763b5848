"""The quick forms of slow connections and of more requests than can be answered; nothing here depends on the clock."""

from __future__ import annotations

import random

from tests.hostile import saturation, slow
from tests.hostile.report import Report


def test_slow_connections_disturb_nobody_and_leave_nothing_behind(report: Report, chance: random.Random) -> None:
    slow.run(report, 1, chance)
    assert "15 slow connections" in report.figures[0][1]


def test_who_is_not_answered_is_told_so_and_told_when_to_come_back(report: Report, chance: random.Random) -> None:
    saturation.run(report, 1, chance)
    assert [text.split(":")[0] for _, text in report.figures] == ["vector", "text"]
