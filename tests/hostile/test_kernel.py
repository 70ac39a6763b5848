"""The quick form of what is proved of the kernel; that of `kernel-fuzz` is in tests/engine/native."""

from __future__ import annotations

import random

import pytest

from tests.hostile import kernel
from tests.hostile.report import Report
from tests.support.native import runnable


@pytest.mark.skipif(not runnable(), reason="the C kernel was not built here")
def test_answers_are_the_same_with_and_without_the_kernel(report: Report, chance: random.Random) -> None:
    kernel.run(report, 150, chance)
    assert "3 stores (2 scanned, 1 in lists)" in report.figures[0][1]
