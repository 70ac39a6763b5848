"""When a question is asked back: by rules of the configuration, and never twice in a row."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.config.settings import Settings, parse_settings
from aidre.api.protocols.nlweb.answer.elicitation import DEFAULT_TEXT, elicit
from aidre.api.protocols.nlweb.nlweb_envelope import build_body
from aidre.api.protocols.nlweb.query.ask import Ask, read_ask

RULES = parse_settings(
    """
    [nlweb.elicitation.recipes]
    text = "What shall it be?"
    required = ["diet"]
    words = 2
    [[nlweb.elicitation.recipes.questions]]
    id = "diet"
    text = "Any dietary restrictions?"
    type = "multi_select"
    options = ["vegetarian", "gluten-free", "none"]
    default = ["none"]
    [[nlweb.elicitation.recipes.questions]]
    id = "minutes"
    text = "How many minutes do you have?"
    type = "number"
    attribute = "cookTime"
    [nlweb.elicitation."*"]
    words = 1
    [[nlweb.elicitation."*".questions]]
    id = "topic"
    text = "What about?"
    """
).nlweb.elicitation


def ask(text: str, site: str | None = "recipes", **members: Any) -> Ask:
    query = {"text": text, **({} if site is None else {"site": site}), **members.pop("query", {})}
    return read_ask({"query": query, **members}, Settings())


def asked(one: Ask, names: tuple[str, ...] = ()) -> list[str]:
    elicited = elicit(one, RULES, names)
    questions = () if elicited is None else elicited.elicitation.questions or ()
    return [question.id for question in questions]


def test_without_rules_nothing_is_asked() -> None:
    assert elicit(ask("dinner"), {}) is None


def test_a_required_attribute_that_is_absent_is_asked_for() -> None:
    elicited = elicit(ask("tomato soup with basil"), RULES)
    assert elicited is not None
    assert elicited.elicitation.text == "What shall it be?"
    assert build_body(elicited)["elicitation"]["questions"] == [
        {
            "id": "diet",
            "text": "Any dietary restrictions?",
            "type": "multi_select",
            "options": ["vegetarian", "gluten-free", "none"],
            "default": ["none"],
        }
    ]


def test_a_vague_query_is_asked_everything_that_is_open() -> None:
    assert asked(ask("I need something for dinner")) == ["diet", "minutes"]
    assert asked(ask("dinner", query={"cookTime": "under 30 minutes"})) == ["diet"]


@pytest.mark.parametrize(
    "one",
    [
        ask("tomato soup with basil", query={"diet": "vegetarian"}),
        ask("vegetarian tomato soup with basil"),
        ask("Gluten-Free tomato soup with basil"),
        ask("tomato soup with basil", context={"prev": ["something vegetarian for dinner"]}),
    ],
)
def test_what_the_query_says_is_not_asked(one: Ask) -> None:
    assert asked(one) == []


def test_an_option_inside_another_word_is_no_answer() -> None:
    assert asked(ask("nonesuch tomato soup")) == ["diet"]


def test_an_ask_that_follows_the_question_is_answered() -> None:
    assert asked(ask("whatever you like", context={"prev": ["dinner"]})) == []


def test_a_session_that_was_asked_is_not_asked_again() -> None:
    first = elicit(ask("dinner", meta={"session_context": {"conversation_id": "c1"}}), RULES)
    assert first is not None
    session = first.meta["session_context"]
    assert session == {"conversation_id": "c1", "elicited": ["recipes"]}
    assert asked(ask("dinner", meta={"session_context": session})) == []


@pytest.mark.parametrize("elicited", [None, "recipes", 7, {"recipes": 1}, [None, 7, {}]])
def test_a_session_with_something_else_under_that_name_is_asked(elicited: Any) -> None:
    assert asked(ask("dinner", meta={"session_context": {"elicited": elicited}})) == ["diet", "minutes"]


def test_the_rules_are_those_of_the_site_and_else_those_of_any() -> None:
    assert asked(ask("dinner", site="https://www.recipes/")) == ["diet", "minutes"]
    assert asked(ask("dinner", site="films")) == []
    assert asked(ask("and?", site="films")) == ["topic"]
    assert asked(ask("dinner", site=None), names=("recipes",)) == ["diet", "minutes"]
    assert asked(ask("dinner", site=None), names=("recipes", "films")) == []
    elicited = elicit(ask("and?", site="films"), RULES)
    assert elicited is not None
    assert elicited.elicitation.text == DEFAULT_TEXT
