"""The quick forms of what is proved of the kernel: few stores, few queries; random searches for a second."""

from __future__ import annotations

import random

import pytest

from tests.hostile import kernel, kernel_fuzz
from tests.hostile.report import Report
from tests.support.compiler import compilers
from tests.support.native import runnable


@pytest.mark.skipif(not runnable(), reason="the C kernel was not built here")
def test_answers_are_the_same_with_and_without_the_kernel(report: Report, chance: random.Random) -> None:
    kernel.run(report, 150, chance)
    assert "3 stores (2 scanned, 1 in lists)" in report.figures[0][1]


@pytest.mark.skipif(not compilers(), reason="neither gcc nor clang is found")
def test_random_searches_show_nothing_to_sanitizers(report: Report, chance: random.Random) -> None:
    kernel_fuzz.run(report, 1, chance)
    assert "findings 0" in report.figures[0][1]
