"""The table of what is text in a schema.org object: what is taken, and what is left where texts are withheld."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aidre.engine.schema_text import (
    BODIES,
    LABELS,
    PARTS,
    SUMMARIES,
    TITLES,
    extract_text,
    extract_title,
    is_body_field,
    is_text_field,
    property_name,
    without_text,
)

STEP = {"@type": "HowToStep", "name": "Chop", "text": "Chop the roots.", "url": "https://x.org/1", "position": 1}
RECIPE: dict[str, Any] = {
    "@type": "Recipe",
    "name": "Soup",
    "description": "A soup of roots.",
    "recipeIngredient": ["two roots"],
    "recipeInstructions": [STEP, "Serve it."],
    "recipeCuisine": "French",
    "cookTime": "PT20M",
    "tool": "a large pot",
    "author": {"@type": "Person", "name": "Ada", "description": "Cooks for a living."},
    "review": [{"@type": "Review", "reviewBody": "I liked it.", "author": {"name": "Bob"}}],
}


@pytest.mark.parametrize("prefix", ["schema:", "https://schema.org/", "http://schema.org/"])
def test_a_property_counts_with_and_without_its_prefix(prefix: str) -> None:
    plain = {"description": "One.", "step": [{"name": "Two.", "text": "Three."}]}
    prefixed = {prefix + "description": "One.", prefix + "step": [{prefix + "name": "Two.", prefix + "text": "Three."}]}
    assert extract_text(plain) == extract_text(prefixed) == "One.\n\nTwo.\n\nThree."
    assert without_text({"name": "n", **prefixed}, extract_text(prefixed)) == {"name": "n"}
    assert property_name(f"step.{prefix}text") == "step.text"


def test_of_an_object_that_gave_the_text_the_text_is_left_out_and_the_rest_is_shown() -> None:
    assert without_text(RECIPE, extract_text(RECIPE)) == {
        "@type": "Recipe",
        "name": "Soup",
        "recipeInstructions": [{"@type": "HowToStep", "url": "https://x.org/1", "position": 1}],
        "recipeCuisine": "French",
        "cookTime": "PT20M",
        "tool": "a large pot",
        "author": {"@type": "Person", "name": "Ada", "description": "Cooks for a living."},
        "review": [{"@type": "Review", "author": {"name": "Bob"}}],
    }


def test_of_any_other_object_labels_are_shown_and_strings_without_words() -> None:
    wordless = {"position": "3", "sameAs": "https://x.org", "startDate": "2026-04-01", "odd": "PT5M"}
    shown = without_text({**RECIPE, **wordless})
    assert shown == {
        "@type": "Recipe",
        "name": "Soup",
        "recipeInstructions": [{"@type": "HowToStep", "url": "https://x.org/1", "position": 1}],
        "recipeCuisine": "French",
        "cookTime": "PT20M",
        "author": {"@type": "Person", "name": "Ada"},
        "review": [{"@type": "Review", "author": {"name": "Bob"}}],
        **wordless,
    }


def test_a_description_is_shown_where_the_text_is_a_body_that_does_not_contain_it() -> None:
    article = {"@type": "Article", "name": "n", "articleBody": "All of\n it.", "description": "A teaser."}
    assert without_text(article, extract_text(article)) == {"@type": "Article", "name": "n", "description": "A teaser."}
    for copy in ("All of", "all of it."):
        copied = {**article, "description": copy, "other": [copy]}
        is_shown = copy not in "All of it."
        assert (without_text(copied, extract_text(copied)).keys() >= {"description", "other"}) is is_shown


@pytest.mark.parametrize(
    "payload",
    ["a text", ["a text"], {"text": "a"}, {"@graph": [{"content": "a text"}]}, [[{"x": {"y": "a text"}}]]],
)
def test_nothing_is_left_of_what_is_text_alone(payload: Any) -> None:
    assert without_text(payload) is None


def test_lists_and_graphs_are_looked_into() -> None:
    step = {"@type": "Recipe", "name": "Soup", "step": ["Boil."]}
    left = {"@type": "Recipe", "name": "Soup"}
    assert without_text([step]) == [left]
    assert without_text({"@context": "https://schema.org", "@graph": [step]}) == {
        "@context": "https://schema.org",
        "@graph": [left],
    }


def test_a_description_that_is_an_object_gives_none_of_its_names_away() -> None:
    item = {"@type": "Thing", "name": "n", "description": {"name": "words", "@value": "more"}}
    assert extract_text(item) == "more\n\nwords"
    assert without_text(item, extract_text(item)) == without_text(item) == {"@type": "Thing", "name": "n"}


@pytest.mark.parametrize("words", ["https://x.org/a", "2026-04-01", "1.5"])
def test_a_text_is_a_text_also_where_it_has_no_words(words: str) -> None:
    for name in (*BODIES, *SUMMARIES, *PARTS):
        item = {"name": "n", name: words}
        assert without_text(item, extract_text(item)) == without_text(item) == {"name": "n"}


def test_members_that_a_mapping_takes_text_from_are_text_wherever_they_are() -> None:
    item = {"name": "n", "brand": "words", "offers": {"brand": {"name": "more"}, "price": 3}}
    assert without_text(item, own={"brand"}) == {"name": "n", "offers": {"price": 3}}


@pytest.mark.parametrize(("levels", "is_shown"), [(62, True), (63, False), (400, False)])
@pytest.mark.parametrize("in_list", [False, True])
def test_an_object_that_is_nested_very_deep_is_cut_off(levels: int, is_shown: bool, in_list: bool) -> None:
    item: Any = {"name": "deep"}
    for _ in range(levels):
        item = [item] if in_list else {"x": item}
    top = {"name": "n", "x": item}
    assert without_text(top) == (top if is_shown else {"name": "n"})


def test_a_value_that_is_tagged_counts_for_the_member_that_holds_it() -> None:
    item = {"name": {"@value": "n", "@language": "en"}, "tool": {"@list": ["words"]}, "color": {"@set": ["red"]}}
    assert without_text(item) == {name: value for name, value in item.items() if name != "tool"}


def test_descriptions_in_a_list_are_shown_as_one_is() -> None:
    article = {"articleBody": "All of it.", "description": ["A teaser.", "All of it."]}
    assert without_text(article, "All of it.") == {"description": ["A teaser."]}


def test_strings_are_not_looked_for_in_a_text_beyond_all_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.engine.schema_text._MAX_COMPARED", 5)
    item = {"name": "n", "tool": "words"}
    assert without_text(item, "12345") == item
    assert without_text(item, "123456") == {"name": "n"}


def test_labels_and_texts_have_no_name_in_common_but_titles() -> None:
    assert LABELS.isdisjoint({*BODIES, *SUMMARIES, *PARTS})
    assert LABELS.issuperset(TITLES)


@pytest.mark.parametrize(
    ("field", "text", "body"),
    [
        ("articleBody", True, True),
        ("hasPart.https://schema.org/text", True, True),
        ("schema:description", True, False),
        ("recipeInstructions.name", True, False),
        ("mainEntity.acceptedAnswer", True, False),
        ("author.name", False, False),
        ("texture", False, False),
    ],
)
def test_a_field_is_text_by_any_of_its_names(field: str, text: bool, body: bool) -> None:
    assert (is_text_field(field), is_body_field(field)) == (text, body)


NAMES = st.sampled_from(
    (*BODIES, *SUMMARIES, *PARTS, *TITLES, "item", "@value", "@list", "tool", "author", "schema:step", "schema:name")
)
LEAVES = st.just("") | st.integers()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=20
)


def with_words(value: Any, numbers: Iterator[int]) -> Any:
    """A copy in which every string is a word of its own."""
    if isinstance(value, dict):
        return {name: with_words(member, numbers) for name, member in value.items()}
    if isinstance(value, list):
        return [with_words(item, numbers) for item in value]
    return f"word{next(numbers)}x" if isinstance(value, str) else value


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_no_word_that_text_was_taken_from_is_shown(drawn: dict[str, Any]) -> None:
    item = with_words(drawn, count())
    text = extract_text(item)
    taken = set(re.findall(r"word\d+x", text)) - {extract_title(item)}
    for source in (text, None):
        assert taken.isdisjoint(re.findall(r"word\d+x", json.dumps(without_text(item, source))))
