"""The quick form of the soak."""

from __future__ import annotations

import random

from tests.hostile import soak
from tests.hostile.report import Report


def test_a_store_is_written_and_asked_at_once_and_keeps_one_generation(report: Report, chance: random.Random) -> None:
    soak.run(report, 1, chance)
    assert "'200'" in report.figures[0][1]
