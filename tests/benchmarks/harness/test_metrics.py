"""Figures from raw samples: ratios by turns, the cheapest setting, growth, rounding."""

from __future__ import annotations

import math

import pytest

from benchmarks.harness.metrics import Ratio, cheapest, exponent, figure, growth, points, ratio
from tests.benchmarks.measurements import RUNS, case


def test_a_ratio_is_taken_turn_by_turn() -> None:
    assert ratio([10.0, 40.0, 30.0], [10.0, 20.0, 10.0]) == Ratio(2.0, 1.0, 3.0)
    assert str(Ratio(12.345, 0.5, 1234.5)) == "12.3 (0.500 to 1,230)"


def test_the_cheapest_setting_is_the_fastest_that_reaches_the_recall() -> None:
    found = points(RUNS, 10)
    chosen = cheapest(found, "graph", "ind", 0.95)
    assert chosen and chosen.setting == 32
    deeper = cheapest(found, "graph", "ind", 0.99)
    assert deeper and deeper.setting == 128 and deeper.rate == pytest.approx(1e6 / 350)
    assert cheapest(found, "graph", "ind", 1.1) is None and cheapest(found, "nobody", "ind", 0.0) is None
    assert cheapest(found, "graph", "ood", 0.95) and not cheapest(found, "graph", "ood", 0.99)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (123456.0, "123,000"), (9.999, "10.0"), (0.0123456, "0.0123"), (1.0, "1.00"), (math.nan, "-")],
)
def test_a_figure_has_three_significant_digits(value: float, shown: str) -> None:
    assert figure(value) == shown


def test_an_exponent_is_that_of_the_power_it_came_from() -> None:
    assert exponent([10.0, 100.0, 1000.0], [3 * size**0.7 for size in (10.0, 100.0, 1000.0)]) == pytest.approx(0.7)
    assert growth([case("sizes", "1", 1, 1)]) == {}
