"""Reads what a question asks for beside its words: operators, and conditions on the fields of a collection."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from aidre.engine.retrieve.conditions import Condition, bind
from aidre.engine.retrieve.measures import Mention, find_mentions, without
from aidre.engine.retrieve.modes import tells_words
from aidre.engine.retrieve.operators import QuestionReading, read_operators
from aidre.engine.retrieve.question import State
from aidre.engine.retrieve.steps import Beside, Step


def tells_fields(state: State) -> bool:
    """Whether questions are read for conditions: the fields of the collection are known, and may be told."""
    return state.policy.shows_text and state.reader.can.vocabulary and state.reader.can.facets


def read(text: str, states: Sequence[State]) -> Generator[Step, Any, list[QuestionReading] | None]:
    """The reading of a question for each of several collections, all with the same text; None where nothing is read.

    Operators are read where all of the collections know words. A condition that any of them applies is not text to
    search for in the others.
    """
    operators = read_operators(text) if all(map(tells_words, states)) else None
    plain = text if operators is None else operators.text
    mentions = _outside(find_mentions(plain), () if operators is None else operators.phrases, plain)
    bound: list[list[list[Condition]]] = [[[] for _ in mentions] for _ in states]
    if mentions:
        for place, state in enumerate(states):
            if tells_fields(state):
                bound[place] = yield from _bound(mentions, state)
    applied = tuple(
        mention
        for number, mention in enumerate(mentions)
        if any(condition.applied for conditions in bound for condition in conditions[number])
    )
    if operators is None and not any(map(any, bound)):
        return None
    reading = (operators or QuestionReading(plain))._replace(text=without(plain, applied), plain=plain)
    return [reading._replace(conditions=tuple(chain.from_iterable(conditions))) for conditions in bound]


def _bound(mentions: Sequence[Mention], state: State) -> Generator[Step, Any, list[list[Condition]]]:
    found: list[list[Condition]] = yield Beside(None, partial(bind, mentions, state.reader))
    return found


def _outside(mentions: Sequence[Mention], phrases: Sequence[str], text: str) -> tuple[Mention, ...]:
    """The mentions that are not in a phrase, whose words are looked for as they are."""
    spans = [(start, start + len(phrase)) for phrase in phrases if (start := text.find(phrase)) >= 0]
    return tuple(
        mention for mention in mentions if not any(mention.start < end and start < mention.end for start, end in spans)
    )


def attempts(readings: Sequence[QuestionReading]) -> Iterator[tuple[list[QuestionReading], bool]]:
    """The readings of a question, to be tried one after the other until something is found: as it is read, without
    conditions, without phrases (False), without either."""
    tried = [list(readings)]
    if any(reading.narrows for reading in readings):
        tried.append([reading.widened() for reading in readings])
    for with_phrases in (True, False) if readings[0].phrases else (True,):
        for attempt in tried:
            yield attempt, with_phrases


def joined(readings: Sequence[QuestionReading]) -> QuestionReading:
    """What was read for any of several collections."""
    conditions: dict[tuple[str, str], Condition] = {}
    for condition in chain.from_iterable(reading.conditions for reading in readings):
        key = condition.words, repr((condition.filter, condition.order))
        if key not in conditions or condition.applied:
            conditions[key] = condition
    return readings[0]._replace(conditions=tuple(conditions.values()))
