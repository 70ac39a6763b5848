"""The body of a request to /ask: numbers in their spellings, sites, texts and their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.config.settings import Settings
from aidre.api.protocols.nlweb.nlweb_envelope import NlwebFailure
from aidre.api.protocols.nlweb.query.ask import MAX_ATTRIBUTES, MAX_SITES, MAX_START, Ask, read_ask

SETTINGS = Settings()
LIMITS = SETTINGS.limits


def read(**query: Any) -> Ask:
    return read_ask({"query": {"text": "tea", **query}}, SETTINGS)


def refused(**query: Any) -> NlwebFailure:
    with pytest.raises(NlwebFailure) as caught:
        read(**query)
    return caught.value


@pytest.mark.parametrize(
    ("written", "start"),
    [
        (0, 0),
        (7, 7),
        (MAX_START, MAX_START),
        (MAX_START + 1, MAX_START),
        ("12", 12),
        ("0", 0),
        (3.0, 3),
        (1e300, MAX_START),
        (float("inf"), MAX_START),
        ("9" * 5_000, MAX_START),
        (None, 0),
    ],
)
def test_a_whole_number_is_read_in_any_spelling(written: Any, start: int) -> None:
    assert read(start_num=written).start == start


@pytest.mark.parametrize(
    "written", [-1, -1.0, float("-inf"), 2.5, float("nan"), True, "", "-1", "1.5", "²", "x", [], {}]
)
def test_anything_else_is_no_number(written: Any) -> None:
    assert "query.start_num must be a whole number of at least 0" in str(refused(start_num=written))


@pytest.mark.parametrize(
    ("written", "count"),
    [(None, LIMITS.top_k_default), (1, 1), (2, 2), (LIMITS.top_k_max, LIMITS.top_k_max), (10**6, LIMITS.top_k_max)],
)
def test_a_count_is_at_least_one_and_at_most_what_the_server_gives(written: Any, count: int) -> None:
    assert read(num_results=written).count == count
    assert str(refused(num_results=0)) == "query.num_results must be a whole number of at least 1"


@pytest.mark.parametrize(
    ("written", "sites"),
    [
        (None, ()),
        ([], ()),
        ("", ()),
        ("a.example", ("a.example",)),
        (" a.example ", ("a.example",)),
        (["b", "a", "b", " ", " a"], ("b", "a")),
        ([str(number) for number in range(MAX_SITES)], tuple(map(str, range(MAX_SITES)))),
    ],
)
def test_sites_are_one_or_several_each_once(written: Any, sites: tuple[str, ...]) -> None:
    assert read(site=written).sites == sites


@pytest.mark.parametrize("written", [7, {}, {"a": 1}, ["a", 7], [None], True])
def test_what_is_no_site_is_refused(written: Any) -> None:
    assert str(refused(site=written)).startswith("query.site")


def test_too_much_of_anything_is_refused() -> None:
    assert "more than 64 sites" in str(refused(site=["a"] * (MAX_SITES + 1)))
    assert "more than 64 filter attributes" in str(refused(**{f"a{number}": 1 for number in range(MAX_ATTRIBUTES + 1)}))
    assert len(read(**{f"a{number}": 1 for number in range(MAX_ATTRIBUTES)}).attributes) == MAX_ATTRIBUTES


def test_a_text_is_needed_and_has_a_bound() -> None:
    assert read(text="x" * LIMITS.query_chars).text == "x" * LIMITS.query_chars
    assert "must have at most" in str(refused(text="x" * (LIMITS.query_chars + 1)))
    for missing in (None, "", "  "):
        assert "say what to look for" in str(refused(text=missing))
    assert "query.text must be a string" in str(refused(text=7))


@pytest.mark.parametrize("name", ["version", "api_version"])
def test_versions_are_strings(name: str) -> None:
    with pytest.raises(NlwebFailure, match=f"meta.{name} must be a string"):
        read_ask({"query": {"text": "tea"}, "meta": {name: 1}}, SETTINGS)
