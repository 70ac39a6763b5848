"""An answer as a list of steps: what is asked of its driver, in which order, and what it makes of the results."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from aidre.engine.errors import Busy, InvalidInput, ModelUnavailable, Unsupported
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Fusion, HighlightLimits
from aidre.engine.ports import Capabilities, Reader
from aidre.engine.retrieve.answer import Answer, answer
from aidre.engine.retrieve.paging import SearchPage
from aidre.engine.retrieve.question import Policy, Question, State
from aidre.engine.retrieve.steps import Embed, Older, Position
from aidre.engine.types import FacetRequest, Hit
from tests.support.clients import TEXT

VECTOR = np.ones(4, np.float32)
MISSING = ModelUnavailable("there is no model")
FILTER = parse_filter({"kin": "green"})


class Words:
    """A reader of documents that know the word "tea" alone."""

    can = Capabilities(lexical=True, hybrid=True, words=True, facets=True, highlight=True)
    waits = False
    collection = SimpleNamespace(name="docs", spaces=(TEXT,))
    chunks = 3

    def corrected(self, text: str) -> str | None:
        return text.replace("tae", "tea") if "tae" in text else None

    def highlight(self, text: str, found: Sequence[Hit], limits: HighlightLimits) -> list[Any]:
        return []

    def word_shares(self, text: str, found: Sequence[Hit]) -> tuple[int, list[float]]:
        return len(text.split()), [float("tea" in text)] * len(found)

    def unknown_fields(self, filter: object) -> tuple[str, ...]:
        return ("kin",)


def state_of(policy: Policy | None = None, **can: bool) -> State:
    reader = Words()
    if can:
        reader.can = Capabilities(**can)
    return State(cast(Reader, reader), policy or Policy())


def hits(*scores: float) -> list[Hit]:
    return [Hit(cast(Any, SimpleNamespace(id=str(number), span=(0, 9))), score) for number, score in enumerate(scores)]


def page(*scores: float, following: int | None = None) -> SearchPage:
    found = hits(*scores)
    return SearchPage(found, following, found[:3])


def told(steps: Generator[Any, Any, Answer], results: Sequence[Any]) -> tuple[list[Any], Answer]:
    """The steps of an answer whose driver gives these results, or raises those that are errors."""
    asked, do, value = [], steps.send, cast(Any, None)
    for result in results:
        asked.append(do(value))
        do, value = (steps.throw, result) if isinstance(result, Exception) else (steps.send, result)
    with pytest.raises(StopIteration) as end:
        asked.append(do(value))
    return asked, end.value.value


def kinds(steps: Sequence[Any]) -> list[str]:
    return [type(step).__name__ for step in steps]


def test_a_vector_is_one_search() -> None:
    steps, found = told(answer(Question(5, vector=VECTOR, space=TEXT.id), state_of()), [page(0.9, following=5)])
    assert kinds(steps) == ["Search"]
    assert (steps[0].query.mode, steps[0].query.space, steps[0].first) == ("dense", TEXT.id, None)
    assert (found.mode, found.next, found.scale, [hit.score for hit in found.hits]) == ("dense", 5, None, [0.9])


def test_a_text_is_embedded_and_searched_by_the_policy() -> None:
    policy = Policy(fusion=Fusion(0.1, 7.0))
    steps, found = told(answer(Question(5, "tea"), state_of(policy)), [VECTOR, page(0.4)])
    assert kinds(steps) == ["Embed", "Search"]
    assert (steps[0].space, steps[0].text) == (TEXT, "tea")
    assert (steps[1].query.mode, steps[1].query.fusion) == ("hybrid", Fusion(0.1, 7.0))
    assert found.scale is not None and found.scale.mode == "hybrid"


def test_without_its_model_a_text_is_searched_by_words_unless_a_mode_was_asked_for() -> None:
    steps, found = told(answer(Question(5, "tea"), state_of()), [MISSING, page(3.0)])
    assert (found.mode, found.space, found.problem) == ("lexical", None, MISSING)
    assert steps[1].query.vector is None
    for question, state in (
        (Question(5, "tea", mode="hybrid"), state_of()),
        (Question(5, "tea"), state_of(Policy(lexical=False))),
    ):
        with pytest.raises(ModelUnavailable):
            told(answer(question, state), [MISSING])


def test_a_text_that_finds_nothing_is_answered_repaired() -> None:
    steps, found = told(answer(Question(5, "tae", correct=True), state_of()), [VECTOR, page(), VECTOR, page(0.9)])
    assert [step.text for step in steps if isinstance(step, Embed)] == ["tae", "tea"]
    assert (found.corrected, found.suggestion, found.question.text, len(found.hits)) == ("tea", None, "tea", 1)
    _, neither = told(answer(Question(5, "tae", correct=True), state_of()), [VECTOR, page(), VECTOR, page()])
    assert (neither.corrected, neither.suggestion, neither.hits) == (None, None, [])


def test_a_repair_is_not_asked_for_where_texts_are_withheld_or_nobody_wants_it() -> None:
    for question, policy in (
        (Question(5, "tae"), Policy()),
        (Question(5, "tae", correct=True), Policy(shows_text=False)),
        (Question(5, "tae", correct=True), Policy(lexical=False)),
    ):
        steps, found = told(answer(question, state_of(policy)), [VECTOR, page()])
        assert (kinds(steps), found.corrected) == (["Embed", "Search"], None)


@pytest.mark.parametrize("failure", [Busy("too much"), MISSING])
def test_a_repair_that_cannot_be_searched_is_offered_and_the_first_answer_stays(failure: Exception) -> None:
    question = Question(5, "tae", correct=True)
    _, found = told(answer(question, state_of()), [VECTOR, page(), VECTOR, failure])
    assert (found.corrected, found.suggestion, found.hits) == (None, "tea", [])


def test_a_cursor_is_asked_for_with_the_mode_and_belongs_to_the_text_or_to_its_repair() -> None:
    state, then = state_of(), state_of()
    position = Position(then.reader, 5, 10, state)
    question = Question(5, "tae", cursor="c", correct=True)
    steps, found = told(answer(question, state), [VECTOR, position, page(0.4)])
    assert isinstance(steps[1], Older)
    assert (steps[1].mode, steps[1].space) == ("hybrid", TEXT.id)
    assert (steps[2].reader, steps[2].newest, steps[2].first, steps[2].query.offset) == (
        then.reader, state.reader, 5, 10
    )  # fmt: skip
    assert (found.corrected, found.suggestion, found.position) == (None, "tea", position)
    other = InvalidInput("of another search")
    _, found = told(answer(question, state), [VECTOR, other, VECTOR, position, page(0.4)])
    assert (found.corrected, found.question.text) == ("tea", "tea")
    with pytest.raises(InvalidInput, match="of another search"):
        told(answer(question, state), [VECTOR, other, VECTOR, InvalidInput("of neither")])


def test_facets_and_highlights_come_after_the_hits_and_facets_of_words_are_of_what_was_found_by_words() -> None:
    question = Question(
        5, "tea", filter=FILTER, mode="lexical", facets=(FacetRequest("kin"),), highlight=HighlightLimits()
    )
    steps, found = told(answer(question, state_of()), [page(2.0), 2, ("facet",), ["marks"]])
    assert kinds(steps) == ["Search", "Count", "Beside", "Beside"]
    facets, highlights = steps[2:]
    assert facets.seconds is None and facets.work.args[-1] == "tea"
    assert highlights.seconds > 0
    shown: Any = found
    assert (shown.facets, shown.highlights, shown.ignored) == (("facet",), ["marks"], ("kin",))


def test_what_an_engine_lacks_is_refused_before_anything_is_searched() -> None:
    state = state_of(lexical=True)
    with pytest.raises(Unsupported, match="has no facets") as caught:
        told(answer(Question(5, "tea", facets=(FacetRequest("kin"),)), state), [])
    assert caught.value.details == {"capability": "facets"}
    with pytest.raises(Unsupported, match="has no highlight"):
        told(answer(Question(5, "tea", highlight=HighlightLimits()), state), [])
    with pytest.raises(InvalidInput, match="a vector has no words"):
        told(answer(Question(5, vector=VECTOR, highlight=HighlightLimits()), state_of()), [])


def test_each_hit_has_the_relevance_that_the_scale_of_the_answer_gives_its_score() -> None:
    _, found = told(answer(Question(5, "tea"), state_of()), [VECTOR, page(0.4, 0.2)])
    assert found.scale is not None
    assert found.relevances == found.scale.relevances(found.hits)
    assert found.relevances is not None
    assert len(found.relevances) == len(found.hits) == 2
    _, found = told(answer(Question(5, "tea", scaled=False), state_of()), [VECTOR, page(0.4, 0.2)])
    assert found.relevances is None
