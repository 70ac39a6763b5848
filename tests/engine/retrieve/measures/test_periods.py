"""Periods and durations as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.retrieve.measures.periods import MAX_MINUTES, read_minutes, read_period, spell_durations
from aidre.engine.retrieve.measures.quantities import Bounds
from tests.support.properties import REPEATABLE

NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "start", "end"),
    [
        ("2024", "2024-01-01", "2025-01-01"),
        ("2024-05", "2024-05-01", "2024-06-01"),
        ("2024-12", "2024-12-01", "2025-01-01"),
        ("2024-05-03", "2024-05-03", "2024-05-04"),
        ("3 May 2024", "2024-05-03", "2024-05-04"),
        ("May 3rd, 2024", "2024-05-03", "2024-05-04"),
        ("3.5.2024", "2024-05-03", "2024-05-04"),
        ("in May 2024", "2024-05-01", "2024-06-01"),
        ("after 2024", "2025-01-01", None),
        ("after 2024-05-03", "2024-05-04", None),
        ("since 2024", "2024-01-01", None),
        ("from 2024 on", "2024-01-01", None),
        (">= 2024-05-03", "2024-05-03", None),
        ("before 2024", None, "2024-01-01"),
        ("until 2024", None, "2025-01-01"),
        ("by May 2024", None, "2024-06-01"),
        ("2024-01..2024-06", "2024-01-01", "2024-07-01"),
        ("2024-01-01/2024-06-30", "2024-01-01", "2024-07-01"),
        ("between 2020 and 2022", "2020-01-01", "2023-01-01"),
        ("from 2020 to 2022", "2020-01-01", "2023-01-01"),
        ("2020-2022", "2020-01-01", "2023-01-01"),
        ("2020..", "2020-01-01", None),
        ("..2020", None, "2021-01-01"),
        ("today", "2026-05-06", "2026-05-07"),
        ("yesterday", "2026-05-05", "2026-05-06"),
        ("since yesterday", "2026-05-05", None),
    ],
)
def test_a_period_goes_from_its_first_day_to_the_one_after_its_last(
    written: str, start: str | None, end: str | None
) -> None:
    period = read_period(written, NOW)
    assert period is not None
    found = {name: moment[:10] for name, moment in period.operators().items()}
    assert found == {name: day for name, day in (("gte", start), ("lt", end)) if day is not None}


def test_an_instant_is_one_and_what_is_recent_counts_from_now() -> None:
    instant = read_period("2024-05-03T10:00:00+02:00", NOW)
    assert instant is not None
    assert instant.operators() == {"gte": "2024-05-03T08:00:00Z", "lt": "2024-05-03T08:00:00.000001Z"}
    recent = read_period("last 30 days", NOW)
    assert recent is not None
    assert recent.operators() == {"gte": "2026-04-06T07:08:09Z", "lt": "2026-05-06T07:08:09Z"}


@pytest.mark.parametrize(
    ("written", "years"),
    [
        ("2024", {"gte": 2024, "lte": 2024}),
        ("after 2023", {"gte": 2024, "lte": 9999}),
        ("since May 2024", {"gte": 2025, "lte": 9999}),
        ("before 2024", {"gte": 1, "lte": 2023}),
        ("2024-05", None),
    ],
)
def test_a_period_holds_the_years_that_lie_in_it_whole(written: str, years: dict[str, int] | None) -> None:
    period = read_period(written, NOW)
    assert period is not None
    assert period.years() == years


@pytest.mark.parametrize(
    "written",
    [
        "", "soon", "to", "a to b", "2024-02-31", "2024-13", "9999", "0000", "2022-2020", "-", "/", "x" * 5_000,
        "last week to next week", "03/04/2024",
    ],
)  # fmt: skip
def test_what_is_no_period_is_none(written: str) -> None:
    assert read_period(written, NOW) is None


@settings(REPEATABLE)
@given(st.text(max_size=40) | st.text("0123456789-/.: TZ<>=afternlstodymwkb", max_size=30))
def test_any_text_is_a_period_in_order_or_none(text: str) -> None:
    period = read_period(text, NOW)
    if period is not None and period.start is not None and period.end is not None:
        assert period.start < period.end


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("PT30M", 30, 30),
        ("PT1H30M", 90, 90),
        ("P0DT0H45M", 45, 45),
        ("30 minutes", 30, 30),
        ("half an hour", 30, 30),
        ("1 hour 30 minutes", 90, 90),
        ("under 30 minutes", None, 30),
        ("at most 1h30", None, 90),
        ("less than 1.5 hours", None, 90),
        ("over an hour", 60, None),
        ("20-40 minutes", 20, 40),
        ("1-2 hours", 60, 120),
        ("30 minutes to 2 hours", 30, 120),
    ],
)
def test_a_duration_has_bounds_in_minutes(written: str, low: float | None, high: float | None) -> None:
    bounds = read_minutes(written)
    assert bounds is not None
    assert (bounds.low, bounds.high) == (low, high)


@pytest.mark.parametrize("written", ["", "30", "quick", "PT", "P", "minutes", "x" * 5_000, "PT90S"])
def test_what_is_no_duration_of_minutes_is_none(written: str) -> None:
    assert read_minutes(written) is None


def test_a_bound_on_minutes_is_the_list_of_what_lies_inside() -> None:
    under = spell_durations(Bounds(None, 30, high_closed=False))
    assert {"PT29M", "PT0H29M", "P0DT0H5M", "PT00H25M"} <= set(under)
    assert not {"PT30M", "PT0H30M"} & set(under)
    over = spell_durations(Bounds(60, None, low_closed=False))
    assert {"PT61M", "PT1H1M", "PT2H", f"PT{MAX_MINUTES}M", "P1D"} <= set(over)
    assert not {"PT60M", "PT1H"} & set(over)
    assert len(spell_durations(Bounds())) <= 10_000
