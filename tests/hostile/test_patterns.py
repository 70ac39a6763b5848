"""No regular expression of the code takes more than its share of work, whatever text it meets."""

from __future__ import annotations

import random
import re

import pytest

from tests.hostile.patterns import Pattern, hard_texts, run, work_through
from tests.hostile.report import Report


def test_every_pattern_gets_through_texts_that_are_hard_for_it(report: Report, chance: random.Random) -> None:
    run(report, 2, chance)


@pytest.mark.parametrize("source", [r"(a+)+$", r"\s*x", r"(?:a|aa)+$", r"a*a*b"])
def test_a_pattern_that_does_not_end_is_found(source: str) -> None:
    pattern = Pattern("here", re.compile(source), frozenset({"search"}))
    with pytest.raises(TimeoutError):
        for hard in hard_texts(pattern):
            work_through(pattern, hard.text, 0.2)
