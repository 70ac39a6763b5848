"""Rewrites a question that depends on earlier ones so that it stands alone, by rule or with a language model.

A question depends on the earlier ones if it refers to something named before ("those", "cheaper ones"), begins like a
continuation ("and", "with", "what about"), or has no content word. One that is short, or has such a word among many
others, may depend on them: it has a `Turn`, by which it is asked both ways. The rule appends content words of the
earlier questions.
Memory and background of the user never enter the query: their words only boost the order of the results a little.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from aidre.api.protocols.nlweb.answer.llm import ChatModel
from aidre.engine.index.text import REQUEST_WORDS
from aidre.engine.model import Json
from aidre.engine.retrieve import MAX_TEXT_CHARS, WORD, Turn, count_words, stop_words, words_except

MAX_DEPENDENT_WORDS: Final = 3
"""A question of at most this many content words may depend on the one before."""
MAX_BORROWED_WORDS: Final = 12
"""Words of earlier questions that are appended to a question."""
MAX_KEYWORDS: Final = 8
MAX_PREVIOUS: Final = 5
"""Earlier questions that a language model sees."""
MAX_MODEL_CHARS: Final = 300
"""Characters of a question that a language model writes."""

_CLAUSE: Final = re.compile(r"[,;.!?\n()]+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_REFERRING: Final = _set(
    """
    another different else he her him his instead it its one ones other others same she similar such that their them
    there these they this those
    davon dazu diese diesen dieser dieses welche ceux celles celui celle ceci cela ça estos estas esos esas ese eso
    """
)
_LIKENING: Final = _set("another different else instead other others same similar such")
"""Referring words that may be of the question itself: "why do two harbours have different tides"."""
_JOINING: Final = _set("also and but aber auch und aussi et mais y pero también")
"""First words that go on, however long the question is."""
_CONTINUING: Final = _set(
    """
    about also and any bigger but cheaper easier faster fewer for from healthier how's in larger less maybe more near
    newer no not older on only or over plus quicker shorter simpler smaller than then under unless with without
    aber auch billiger günstiger mit nur oder ohne und avec aussi et mais moins ou plus sans con más menos o pero sin
    solo también y
    """
)
_OPENINGS: Final = ("what about", "how about", "what if", "was ist mit", "wie wäre", "et pour", "qué tal")
_NEGATIONS: Final = _set(
    """
    allergic allergies allergy avoid avoids can't cannot dislike dislikes doesn't don't except hate hates intolerant
    never no non not without kein keine ohne pas sans sin
    """
)
_INSTRUCTIONS: Final = (
    "Rewrite `last_question` so that it can be understood without `previous_questions`, as one short search query in "
    "its own language. Add nothing that was not asked."
)


@dataclass(frozen=True, slots=True)
class RewrittenQuery:
    """`query` is the text to search for; `keywords` are words of memory and background that it does not have. With a
    `turn` the question may also be one that stands alone."""

    query: str
    changed: bool = False
    turn: Turn | None = field(default=None, kw_only=True)
    keywords: tuple[str, ...] = ()
    method: Literal["rule", "llm"] = "rule"


def rewrite(
    text: str, prev: Sequence[str] = (), background: str | None = None, memory: str | None = None,
    language: str | None = None,
) -> RewrittenQuery:  # fmt: skip
    """Rewrites by rule. `prev` has the oldest question first; `language` is a tag such as "de-AT", if it is known."""
    ignored = REQUEST_WORDS | stop_words(language)
    own = _lower_words(text)
    borrowed = _borrow_words(text, prev, ignored) if prev else []
    query = " ".join([text.strip(), *borrowed]) if borrowed else text
    preferred = [*_preferences(memory, ignored), *_preferences(background, ignored)]
    keywords = _distinct(preferred, own | {word.lower() for word in borrowed})
    own_words = tuple(_distinct(words_except(text, ignored), ()))
    may_stand = bool(borrowed) and _dependence(text, ignored) == "maybe"
    turn = Turn(query, own_words, tuple(borrowed)) if may_stand else None
    return RewrittenQuery(query, bool(borrowed), tuple(keywords[:MAX_KEYWORDS]), turn=turn)


async def rewrite_with_model(
    model: ChatModel, text: str, prev: Sequence[str], *, background: str | None = None, memory: str | None = None,
    language: str | None = None,
) -> RewrittenQuery:  # fmt: skip
    """Rewrites with a language model if the question depends on earlier ones.

    Falls back to the rule if the model gives no answer, or one without a content word of the conversation.
    """
    by_rule = rewrite(text, prev, background, memory, language)
    if not by_rule.changed:
        return by_rule
    data: Json = {"previous_questions": list(prev[-MAX_PREVIOUS:]), "last_question": text}
    answer = await model.complete(_INSTRUCTIONS, data, MAX_MODEL_CHARS)
    conversation = " ".join([text, *prev[-MAX_PREVIOUS:]])
    if answer is None or _lower_words(answer).isdisjoint(_lower_words(conversation) - stop_words(language)):
        return by_rule
    turn = by_rule.turn
    if turn is not None:
        ignored = REQUEST_WORDS | stop_words(language)
        added = _distinct(words_except(answer, ignored), {word.lower() for word in turn.own})
        turn = Turn(answer, turn.own, tuple(added)) if added else None
    return RewrittenQuery(answer, answer != text, by_rule.keywords, "llm", turn=turn)


def _lower_words(text: str) -> set[str]:
    return {word.lower() for word in WORD.findall(text)}


def _dependence(text: str, ignored: Collection[str]) -> Literal["yes", "maybe", "no"]:
    """Whether a question depends on the one before."""
    lower = [word.lower() for word in WORD.findall(text)]
    count = count_words(words_except(text, ignored))
    if not lower or count == 0 or lower[0] in _JOINING or " ".join(lower).startswith(_OPENINGS):
        return "yes"
    is_short = count <= MAX_DEPENDENT_WORDS
    if lower[0] in _CONTINUING and is_short:
        return "yes"
    place = next((number for number, word in enumerate(lower) if word in _REFERRING - _LIKENING), None)
    if place is not None and count_words(words_except(" ".join(lower[:place]), ignored)) < MAX_DEPENDENT_WORDS:
        return "yes"
    refers = lower[0] in _CONTINUING or not _REFERRING.isdisjoint(lower)
    return "maybe" if is_short or refers else "no"


def _borrow_words(text: str, prev: Sequence[str], ignored: frozenset[str]) -> list[str]:
    """Content words of the last question, and of the one before if the last one depends on it too."""
    if _dependence(text, ignored) == "no":
        return []
    own = _lower_words(text)
    words = _distinct(words_except(prev[-1], ignored | _CONTINUING | _REFERRING), own)
    if len(prev) > 1 and (_dependence(prev[-1], ignored) == "yes" or len(words) <= 1):
        earlier = words_except(prev[-2], ignored | _CONTINUING | _REFERRING)
        words += _distinct(earlier, own | {word.lower() for word in words})
    return words[:MAX_BORROWED_WORDS]


def _distinct(words: Iterable[str], excluded: Collection[str]) -> list[str]:
    """Each word once, ignoring case, without the excluded ones, which are in lower case."""
    distinct: dict[str, str] = {}
    for word in words:
        if word.lower() not in excluded:
            distinct.setdefault(word.lower(), word)
    return list(distinct.values())


def _preferences(text: str | None, ignored: Collection[str]) -> Iterator[str]:
    """The content words of a user's preferences, without the part of a clause after "no" or "allergic to"."""
    for clause in _CLAUSE.split((text or "")[:MAX_TEXT_CHARS]):
        words = WORD.findall(clause)
        negation = next((index for index, word in enumerate(words) if word.lower() in _NEGATIONS), len(words))
        yield from words_except(" ".join(words[:negation]), ignored)
