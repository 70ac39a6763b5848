"""The same question by six doors: AIDRE, NLWeb, Agentic Intent, Agent Intake, the library and the command line.

All of them ask one store with one configuration, and their answers are the same in everything that they can express.
What AIDRE answers is kept in `doors.json`: `python -m tests.integration.doors` writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.integration import doors
from tests.integration.doors import ASK, GOLDEN, Found, Site, can_ask, differences, expected, golden_differences
from tests.integration.questions import QUESTIONS, REFUSED, Door, Question

LEAST_GAP: Final = 2e-5
"""Two scores that are not equal differ by this much, so that no instruction set changes an order."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with doors.site(tmp_path_factory.mktemp("doors")) as opened:
        yield opened


def pairs() -> list[Any]:
    found = []
    for door in ASK:
        for question in (*QUESTIONS, *REFUSED):
            if door != "aidre" and can_ask(door, question):
                found.append(pytest.param(door, question, id=f"{door}: {question}"))
    return found


@pytest.mark.parametrize(("door", "question"), pairs())
def test_every_door_gives_the_answer_of_aidre(place: Site, door: Door, question: Question) -> None:
    assert differences(ASK[door](place, question), expected(place, door, question)) == []


@pytest.mark.parametrize("question", (*QUESTIONS, *REFUSED), ids=str)
def test_aidre_answers_as_it_did(place: Site, question: Question) -> None:
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert golden_differences(doors.of_aidre(place, question), kept[question.name]) == []


REFUSALS: Final[Mapping[str, Mapping[Door, str]]] = {
    "text where none is taken": {
        "aidre": "422 invalid_request",
        "nlweb": "422 INVALID_QUERY",
        "intent": "422 invalid_request",
        "intake": "422 INVALID_INPUT",
    },
    "model missing and no words": {
        "aidre": "503 service_unavailable",
        "nlweb": "503 INTERNAL_ERROR",
        "intent": "503 service_unavailable",
        "intake": "503 SERVICE_UNAVAILABLE",
    },
}


@pytest.mark.parametrize(("name", "refusals"), REFUSALS.items(), ids=list(REFUSALS))
def test_each_protocol_refuses_in_its_own_words(place: Site, name: str, refusals: Mapping[Door, str]) -> None:
    question = next(one for one in REFUSED if one.name == name)
    assert {door: ASK[door](place, question).refused for door in refusals} == refusals


def test_fifty_questions_are_kept_under_their_names() -> None:
    names = [question.name for question in (*QUESTIONS, *REFUSED)]
    assert len(QUESTIONS) == 50
    assert len(set(names)) == len(names)
    assert list(json.loads(GOLDEN.read_text(encoding="utf-8"))) == names


def test_each_door_is_asked() -> None:
    asked = {(door, question.name) for door in ASK for question in (*QUESTIONS, *REFUSED) if can_ask(door, question)}
    assert {door: sum(one == door for one, _ in asked) for door in ASK} == {
        "aidre": 58,
        "nlweb": 35,
        "intent": 32,
        "intake": 33,
        "library": 57,
        "command line": 42,
    }


def test_no_order_hangs_on_a_rounding_error(place: Site) -> None:
    for question in QUESTIONS:
        scores = doors.of_aidre(place, question).scores or ()
        gaps = [higher - lower for higher, lower in pairwise(scores)]
        assert all(gap == 0 or gap > LEAST_GAP for gap in gaps), question.name


# -- the comparison can fail -----------------------------------------------------------------------------------

BROKEN: Final[Mapping[str, Any]] = {
    "a score": lambda found: replace(found, scores=(found.scores[0] + 1e-3, *found.scores[1:])),
    "a relevance": lambda found: replace(found, relevance=(*found.relevance[:-1], found.relevance[-1] - 1e-3)),
    "the order": lambda found: replace(found, ids=(found.ids[1], found.ids[0], *found.ids[2:])),
    "a missing hit": lambda found: replace(found, ids=found.ids[:-1], scores=found.scores[:-1]),
    "a correction": lambda found: replace(found, corrections=(None, found.corrections[0])),
    "a refusal": lambda found: Found(refused="internal_error"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_perturbed_answer_is_noticed(place: Site, fault: str) -> None:
    question = next(one for one in QUESTIONS if one.name == "corrected")
    answer, wanted = ASK["library"](place, question), expected(place, "library", question)
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))[question.name]
    assert differences(answer, wanted) == golden_differences(wanted, kept) == []
    assert differences(BROKEN[fault](answer), wanted) != []
    assert golden_differences(BROKEN[fault](wanted), kept) != []


@pytest.mark.parametrize("door", [door for door in ASK if door != "aidre"])
def test_a_perturbed_answer_of_every_door_is_noticed(place: Site, door: Door) -> None:
    question = next(one for one in QUESTIONS if one.name == "text")
    answer, wanted = ASK[door](place, question), expected(place, door, question)
    assert differences(answer, wanted) == []
    assert differences(replace(answer, ids=answer.ids[::-1]), wanted) != []
    if answer.relevance is not None:
        assert differences(replace(answer, relevance=tuple(one + 1e-4 for one in answer.relevance)), wanted) != []
    if answer.chunks is not None:
        assert differences(replace(answer, chunks=answer.chunks[::-1]), wanted) != []


@pytest.mark.parametrize("name", ["facets", "highlights"])
def test_perturbed_extras_are_noticed(place: Site, name: str) -> None:
    wanted = expected(place, "library", next(one for one in QUESTIONS if one.name == name))
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))[name]
    other = json.loads(json.dumps(getattr(wanted, name)).replace("1", "2", 1))
    broken = replace(wanted, facets=other) if name == "facets" else replace(wanted, highlights=tuple(other))
    assert differences(broken, wanted) != []
    assert golden_differences(wanted, kept) == []
    assert golden_differences(broken, kept) != []
