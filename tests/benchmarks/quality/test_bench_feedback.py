"""The benchmarks of feedback and of codes: what they choose and report."""

from __future__ import annotations

import random

from aidre.engine.index.text import find_codes
from aidre.engine.search import hybrid
from benchmarks.quality import bench_feedback
from benchmarks.quality.bench_codes import FORMATS, codes, with_code
from benchmarks.quality.bench_feedback import Setting, choose, tuned

LOW: Setting = (0.1, 40.0, 5)
HIGH: Setting = (0.2, 40.0, 5)
WITHOUT = {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}
GRID = {LOW: {"a": 0.6, "b": 0.5, "c": 0.6, "d": 0.52}, HIGH: {"a": 0.4, "b": 0.7, "c": 0.58, "d": 0.7}}


def test_a_setting_is_chosen_on_some_sets_and_reported_on_the_others() -> None:
    assert choose(GRID, ["a", "c"]) == LOW and choose(GRID, ["b", "d"]) == HIGH
    one, other, left_out = bench_feedback.report(GRID, WITHOUT)
    assert one.startswith("chosen on a, c: (0.1, 40.0, 5)") and "(+0.0100) b +0.0000 d +0.0200" in one
    assert "(-0.0100) a -0.1000 c +0.0800" in other
    assert "a -0.1000 b +0.0000 c +0.0800 d +0.0200" in left_out


def test_a_setting_holds_for_its_searches_alone() -> None:
    before = hybrid._FEEDBACK_WEIGHT
    with tuned((0.9, 1.0, 2)):
        assert (hybrid._FEEDBACK_WEIGHT, hybrid._FEEDBACK_SHARPNESS, hybrid._FEEDBACK_SEEDS) == (0.9, 1.0, 2)
    assert before == hybrid._FEEDBACK_WEIGHT != 0.9


def test_codes_are_distinct_of_every_format_and_look_like_codes() -> None:
    made = codes(20 * len(FORMATS), random.Random(3))
    assert len(set(made)) == len(made)
    recognised = [code for code in made if find_codes(f"is {code} here?")]
    assert len(recognised) >= 0.95 * len(made)
    assert made[0] in with_code("some words of a passage", made[0], random.Random(1))
