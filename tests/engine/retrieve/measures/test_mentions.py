"""Mentions of numbers, dates and orders in questions: where they are, and what is left without them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aidre.engine.retrieve.measures.mentions import MAX_MENTION_CHARS, find_mentions, without

NOW = datetime(2026, 5, 3, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "words", "rest"),
    [
        ("laptops under 400 euros", ["under 400 euros"], "laptops"),
        ("a Laptop, released after 2023, with a pen", ["released after 2023"], "a Laptop,, with a pen"),
        ("Under four hundred euros: laptops", ["Under four hundred euros"], ": laptops"),
        ("books with more than 300 pages", ["more than 300"], "books with pages"),
        ("the newest laptop", ["newest"], "the laptop"),
        ("under 400 euros", ["under 400 euros"], "under 400 euros"),
        ("bags between 1500 and 2000 euros", ["between 1500 and 2000 euros"], "bags"),
        ("1.000 bis 1.500 €", ["1.000 bis 1.500 €"], "1.000 bis 1.500 €"),
        ("two shoes under twenty-five pounds", ["under twenty-five pounds"], "two shoes"),
        ("İstanbul under 400 euros", [], "İstanbul under 400 euros"),
        ("x" * MAX_MENTION_CHARS + " under 400 euros", [], "x" * MAX_MENTION_CHARS + " under 400 euros"),
    ],
)
def test_a_mention_has_its_place_in_the_question(question: str, words: list[str], rest: str) -> None:
    found = find_mentions(question, NOW)
    assert [one.words for one in found] == words
    assert [question[one.start : one.end] for one in found] == words
    assert without(question, found) == rest


@pytest.mark.parametrize(
    ("question", "operators"),
    [
        ("under four hundred and fifty euros", {"lt": 450}),
        ("between four hundred and six hundred euros", {"gte": 400, "lte": 600}),
        ("at least two thousand five hundred", {"gte": 2500}),
        ("up to 1.000 €", {"lte": 1000}),
        ("up to 1,000.50 dollars", {"lte": 1000.5}),
        ("over 1.5k euros", {"gt": 1500}),
        ("300-500 euros", {"gte": 300, "lte": 500}),
        ("16+ GB", {"gte": 16}),
        ("unter vierhundert Euro", {"lt": 400}),
        ("moins de cinq cents euros", {"lt": 500}),
        ("hasta quinientos euros", {"lte": 500}),
    ],
)
def test_the_bounds_of_a_number_are_read(question: str, operators: dict[str, float]) -> None:
    [mention] = find_mentions(question, NOW)
    assert mention.bounds is not None
    assert mention.bounds.operators() == operators


@pytest.mark.parametrize(
    ("question", "event", "operators"),
    [
        ("released after 2023", "release", {"gte": "2024-01-01T00:00:00Z"}),
        ("published since March 2021", "publication", {"gte": "2021-03-01T00:00:00Z"}),
        ("updated in the last 30 days", "change", {"gte": "2026-04-04T00:00:00Z"}),
        ("published this year", "publication", {"gte": "2026-01-01T00:00:00Z"}),
        ("released since last year", "release", {"gte": "2025-01-01T00:00:00Z"}),
        ("born before 1950-06-02", "birth", {"lt": "1950-06-02T00:00:00Z"}),
        ("built in 1920 or earlier", "release", {"lt": "1921-01-01T00:00:00Z"}),
        ("nach 2022 erschienen", "release", {"gte": "2023-01-01T00:00:00Z"}),
        ("older than 2018", "release", {"lt": "2018-01-01T00:00:00Z"}),
        ("after 2020", None, {"gte": "2021-01-01T00:00:00Z"}),
    ],
)
def test_the_period_of_a_date_is_read_with_its_event(
    question: str, event: str | None, operators: dict[str, str]
) -> None:
    [mention] = find_mentions(question, NOW)
    assert mention.period is not None
    assert mention.period.operators() == operators
    assert mention.event == event


@pytest.mark.parametrize(
    "question",
    ["HTTP 404", "10 tips", "Python 3.12", "a 15 inch screen", "the latest version", "4 to 6", "one of them", "C++ 17"],
)
def test_a_number_without_a_comparison_is_no_mention(question: str) -> None:
    assert find_mentions(question, NOW) == ()


def test_a_period_that_begins_before_the_calendar_is_only_words() -> None:
    assert not find_mentions("updated in the last 5000 years", NOW)


def test_a_relative_date_is_the_same_all_day() -> None:
    early, late = (find_mentions("updated in the last 30 days", NOW.replace(hour=hour)) for hour in (0, 23))
    assert early == late
