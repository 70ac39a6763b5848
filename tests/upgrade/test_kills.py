"""The quick form of the kills of upgrades."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.report import Report, seed_of_run
from tests.upgrade import kills

pytestmark = pytest.mark.hostile


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(tmp_path)


def test_the_first_work_on_an_old_store_may_be_killed_anywhere(report: Report) -> None:
    kills.kill_work(report, 1, random.Random(seed_of_run()))


def test_a_take_over_of_the_old_event_log_may_be_killed_before_any_statement(report: Report) -> None:
    kills.kill_take_over(report, 12, random.Random(seed_of_run()))
