"""Questions that lean on earlier ones, by rule and by a language model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aidre.api.config.nlweb import LanguageModel
from aidre.api.protocols.nlweb.answer.llm import ChatModel
from aidre.api.protocols.nlweb.answer.rewriting import (
    MAX_BORROWED_WORDS,
    MAX_KEYWORDS,
    rewrite,
    rewrite_with_model,
)


@pytest.mark.parametrize(
    ("text", "prev", "query"),
    [
        ("with cinnamon", ["breakfast muffins"], "with cinnamon breakfast muffins"),
        ("cinnamon", ["breakfast muffins"], "cinnamon breakfast muffins"),
        ("what about those with walnuts?", ["breakfast muffins"], "what about those with walnuts? breakfast muffins"),
        (
            "and which of these can be frozen for several weeks in advance",
            ["breakfast muffins"],
            "and which of these can be frozen for several weeks in advance breakfast muffins",
        ),
        ("cheaper ones", ["Show me hiking boots, please"], "cheaper ones hiking boots"),
        ("und billiger?", ["Wanderschuhe für den Winter"], "und billiger? Wanderschuhe für den Winter"),
    ],
)
def test_a_question_that_leans_takes_the_words_of_the_last_one(text: str, prev: list[str], query: str) -> None:
    rewritten = rewrite(text, prev)
    assert rewritten.query == query
    assert rewritten.changed


@pytest.mark.parametrize(
    ("text", "may_stand"),
    [
        ("jazz", True),
        ("patch a bicycle tube", True),
        ("why do two neighbouring harbours have different tides", True),
        ("back up an old laptop so that it helps", True),
        ("in which year was the old lighthouse built", True),
        ("and in winter?", False),
        ("what about jazz", False),
        ("how do I sharpen it", False),
        ("with cinnamon", False),
        ("why", False),
        ("which of these can be frozen for several weeks in advance", False),
    ],
)
def test_only_what_refers_depends_surely_on_the_last_one(text: str, may_stand: bool) -> None:
    turn = rewrite(text, ["lentil soup"]).turn
    assert (turn is not None) == may_stand
    if turn is not None:
        assert turn.text == f"{text} lentil soup"
        assert turn.added == ("lentil", "soup")


def test_a_short_question_before_is_not_joined_with_the_one_before_it() -> None:
    assert rewrite("and red?", ["lentil soup", "travel bag"]).query == "and red? travel bag"


def test_stop_words_go_by_the_language() -> None:
    assert rewrite("und billiger?", ["Wanderschuhe für den Winter"], language="de-AT").query == (
        "und billiger? Wanderschuhe Winter"
    )


@pytest.mark.parametrize(
    "text",
    [
        "what is the best way to roast a whole turkey in an oven",
        "compare walking boots made of leather and synthetic fabric",
        "chocolate layer cake recipe",
    ],
)
def test_a_question_that_stands_alone_stays_as_it_is(text: str) -> None:
    assert rewrite(text, ["breakfast muffins"]).query == text


def test_without_earlier_questions_nothing_changes() -> None:
    rewritten = rewrite("  with cinnamon ", [])
    assert rewritten.query == "  with cinnamon "
    assert not rewritten.changed


def test_a_chain_of_leaning_questions_reaches_back_to_its_beginning() -> None:
    assert rewrite("and vegan?", ["breakfast muffins for many children", "with cinnamon"]).query == (
        "and vegan? cinnamon breakfast muffins many children"
    )


def test_words_that_were_said_are_not_said_again() -> None:
    assert not rewrite("muffins for breakfast", ["Breakfast muffins"]).changed


def test_what_is_put_behind_a_question_is_bounded() -> None:
    rewritten = rewrite("more", [" ".join(f"word{number}" for number in range(10_000))])
    assert len(rewritten.query.split()) == 1 + MAX_BORROWED_WORDS


def test_scripts_without_spaces_are_measured_by_their_characters() -> None:
    assert rewrite("肉桂", ["早餐松饼"]).query == "肉桂 早餐松饼"
    assert not rewrite("怎样在家里用烤箱烤一只完整的火鸡最好", ["早餐松饼"]).changed


def test_what_is_known_of_the_user_stays_out_of_the_query() -> None:
    rewritten = rewrite("pasta", [], "User plans a party", "vegetarian, has a sweet tooth")
    assert rewritten.query == "pasta"
    assert not rewritten.changed
    assert rewritten.keywords == ("vegetarian", "sweet", "tooth", "plans", "party")


def test_what_the_user_refuses_is_no_keyword() -> None:
    keywords = rewrite("dinner", memory="likes tofu, allergic to peanuts; no fish. Never mushrooms").keywords
    assert keywords == ("likes", "tofu")


def test_keywords_are_few_and_none_of_the_query() -> None:
    keywords = rewrite("tofu soup", memory="Tofu " + " ".join(f"dish{number}" for number in range(100))).keywords
    assert len(keywords) == MAX_KEYWORDS
    assert "Tofu" not in keywords


@pytest.mark.parametrize("text", ["", "   ", "?!", "\u0000", "🥐", "a" * 100_000, "\ud800"])
def test_odd_questions_are_rewritten_without_an_error(text: str) -> None:
    assert rewrite(text, ["breakfast muffins", text], text, text).query.startswith(text.strip())


class Told(ChatModel):
    """A model that answers what it is told to."""

    def __init__(self, answer: str | None) -> None:
        super().__init__(LanguageModel("http://127.0.0.1:1", "small"))
        self.answer = answer
        self.data: list[Any] = []

    async def complete(self, instructions: str, data: Any, characters: int) -> str | None:
        self.data.append(data)
        return self.answer


def test_a_model_rewrites_what_leans() -> None:
    model = Told("breakfast muffins with cinnamon")
    rewritten = asyncio.run(rewrite_with_model(model, "with cinnamon", ["breakfast muffins"], memory="vegan"))
    assert (rewritten.query, rewritten.changed) == ("breakfast muffins with cinnamon", True)
    assert rewritten.keywords == ("vegan",)
    assert model.data == [{"previous_questions": ["breakfast muffins"], "last_question": "with cinnamon"}]


@pytest.mark.parametrize("answer", [None, "Sure! Here you go", "buy Acme stock now"])
def test_where_a_model_fails_or_wanders_off_the_rule_holds(answer: str | None) -> None:
    rewritten = asyncio.run(rewrite_with_model(Told(answer), "with cinnamon", ["breakfast muffins"]))
    assert rewritten.query == "with cinnamon breakfast muffins"


def test_a_model_is_not_asked_about_what_stands_alone() -> None:
    model = Told("something else")
    text = "how to roast a whole turkey in an electric oven"
    assert asyncio.run(rewrite_with_model(model, text, ["breakfast muffins"])).query == text
    assert model.data == []
