"""Rewrites a question that depends on earlier ones so that it stands alone, by rule or with a language model.

A question depends on the earlier ones if it is short, begins like a continuation ("and", "with", "what about") or
refers to something named before ("those", "cheaper ones"). The rule appends content words of the earlier questions.
Memory and background of the user never enter the query: their words only boost the order of the results a little (see
`relevance.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aidre.api.protocols.nlweb.answer.llm import ChatModel
from aidre.engine.index.text import LANGUAGES
from aidre.engine.model import Json

MAX_DEPENDENT_WORDS: Final = 3
"""A question of at most this many content words depends on the one before."""
MAX_BORROWED_WORDS: Final = 12
"""Words of earlier questions that are appended to a question."""
MAX_KEYWORDS: Final = 8
MAX_PREVIOUS: Final = 5
"""Earlier questions that a language model sees."""
MAX_MODEL_CHARS: Final = 300
"""Characters of a question that a language model writes."""
_MAX_TEXT_CHARS: Final = 2_000
"""Characters of an earlier question, of memory or of background that are read."""

_WORD: Final = re.compile(r"\w+(?:['’.-]\w+)*")
_CLAUSE: Final = re.compile(r"[,;.!?\n()]+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_REQUEST_WORDS: Final = _set(
    """
    anything find get give i'd i'm it's let like list look looking looks lots need needs please recommend search
    searching see show some someone something sort suggest tell thing things try user want wants what's user's
    """
)
"""Words of a request that say nothing about its object, in addition to the stop words of its language."""
_REFERRING: Final = _set(
    """
    another different else he her him his instead it its one ones other others same she similar such that their them
    there these they this those
    davon dazu diese diesen dieser dieses welche ceux celles celui celle ceci cela ça estos estas esos esas ese eso
    """
)
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
_UNSPACED: Final = "\u2e80"
"""Code point from which scripts put no spaces between words, roughly."""


@dataclass(frozen=True, slots=True)
class RewrittenQuery:
    """`query` is the text to search for; `keywords` are words of memory and background that it does not have."""

    query: str
    changed: bool = False
    keywords: tuple[str, ...] = ()
    method: Literal["rule", "llm"] = "rule"


def rewrite(
    text: str, prev: Sequence[str] = (), background: str | None = None, memory: str | None = None,
    language: str | None = None,
) -> RewrittenQuery:  # fmt: skip
    """Rewrites by rule. `prev` has the oldest question first; `language` is a tag such as "de-AT", if it is known."""
    ignored = _REQUEST_WORDS | _stop_words(language)
    own = _lower_words(text)
    borrowed = _borrow_words(text, prev, ignored) if prev else []
    query = " ".join([text.strip(), *borrowed]) if borrowed else text
    preferred = [*_preferences(memory, ignored), *_preferences(background, ignored)]
    keywords = _distinct(preferred, own | {word.lower() for word in borrowed})
    return RewrittenQuery(query, bool(borrowed), tuple(keywords[:MAX_KEYWORDS]))


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
    if answer is None or _lower_words(answer).isdisjoint(_lower_words(conversation) - _stop_words(language)):
        return by_rule
    return RewrittenQuery(answer, answer != text, by_rule.keywords, "llm")


def content_words(text: str, language: str | None = None) -> list[str]:
    """The words that say what a question is about, in their original case."""
    return _filter_words(text, _REQUEST_WORDS | _stop_words(language))


def word_count(text: str, language: str | None = None) -> float:
    """The number of content words; two characters of a script without spaces count as one."""
    return _count(content_words(text, language))


def _filter_words(text: str, ignored: Collection[str]) -> list[str]:
    """The words of a text without the ignored ones and without single characters, except digits."""
    words = (word for word in _WORD.findall(text[:_MAX_TEXT_CHARS]) if len(word) > 1 or word.isdigit())
    return [word for word in words if word.lower() not in ignored]


def _stop_words(language: str | None) -> frozenset[str]:
    """English stop words and those of the language."""
    tag = (language or "en").replace("_", "-").partition("-")[0].lower()
    analysis = LANGUAGES.get(tag)
    return LANGUAGES["en"].stop_words | (analysis.stop_words if analysis is not None else frozenset())


def _lower_words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _count(words: Iterable[str]) -> float:
    """The number of words; two characters of a script without spaces count as one."""
    return sum(max(1, len(word) / 2) if word[0] >= _UNSPACED else 1 for word in words)


def _depends_on_previous(text: str, ignored: Collection[str]) -> bool:
    lower = [word.lower() for word in _WORD.findall(text)]
    if not lower or _count(_filter_words(text, ignored)) <= MAX_DEPENDENT_WORDS:
        return True
    if lower[0] in _CONTINUING or " ".join(lower).startswith(_OPENINGS):
        return True
    return not _REFERRING.isdisjoint(lower)


def _borrow_words(text: str, prev: Sequence[str], ignored: frozenset[str]) -> list[str]:
    """Content words of the last question, and of the one before if the last one depends on it too."""
    if not _depends_on_previous(text, ignored):
        return []
    own = _lower_words(text)
    words = _distinct(_filter_words(prev[-1], ignored | _CONTINUING | _REFERRING), own)
    if len(prev) > 1 and _depends_on_previous(prev[-1], ignored):
        earlier = _filter_words(prev[-2], ignored | _CONTINUING | _REFERRING)
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
    for clause in _CLAUSE.split((text or "")[:_MAX_TEXT_CHARS]):
        words = _WORD.findall(clause)
        negation = next((index for index, word in enumerate(words) if word.lower() in _NEGATIONS), len(words))
        yield from _filter_words(" ".join(words[:negation]), ignored)
