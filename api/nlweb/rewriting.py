"""A question that leans on earlier ones, made to stand alone by rule: words of what was asked before are put behind it.

A question leans on the ones before when it is short, begins like a continuation ("and", "with", "what about") or
speaks of something named earlier ("those", "cheaper ones"). What is known of the user beside the conversation never
enters the query: its words only weigh a little in the order of what was found (see relevance.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aidre.api.nlweb.language_model import ChatModel
from aidre.engine.languages import LANGUAGES
from aidre.engine.model import Json

SHORT: Final = 3
"""A question of at most so many content words leans on the one before."""
MOST_WORDS: Final = 12
"""Words that are put behind a question."""
MOST_KEYWORDS: Final = 8
MOST_PREVIOUS: Final = 5
MOST_CHARACTERS: Final = 300
"""Of a question that a language model writes."""
_LONGEST: Final = 2_000
"""Characters of an earlier question, or of what is known of the user, that are looked at."""

_WORD: Final = re.compile(r"\w+(?:['’.-]\w+)*")
_CLAUSE: Final = re.compile(r"[,;.!?\n()]+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_EMPTY: Final = _set(
    """
    anything find get give i'd i'm it's let like list look looking looks lots need needs please recommend search
    searching see show some someone something sort suggest tell thing things try user want wants what's user's
    """
)
"""Words of a request that say nothing of its object, beside the stop words of its language."""
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
_STARTERS: Final = ("what about", "how about", "what if", "was ist mit", "wie wäre", "et pour", "qué tal")
_REFUSING: Final = _set(
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
"""Scripts without spaces between words begin about here."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """`query` is what to search for; `keywords` are words of memory and background that it does not have."""

    query: str
    changed: bool = False
    keywords: tuple[str, ...] = ()
    method: Literal["rule", "llm"] = "rule"


def rewrite(
    text: str, prev: Sequence[str] = (), background: str | None = None, memory: str | None = None,
    language: str | None = None,
) -> Rewritten:  # fmt: skip
    """`prev` is in the order in which it was asked; `language` is a tag such as "de-AT" where it is known."""
    ignored = _EMPTY | _stop_words(language)
    said = _keys(text)
    words = _borrowed(text, prev, ignored) if prev else []
    query = " ".join([text.strip(), *words]) if words else text
    wished = [*_wishes(memory, ignored), *_wishes(background, ignored)]
    keywords = _fresh(wished, said | {word.lower() for word in words})
    return Rewritten(query, bool(words), tuple(keywords[:MOST_KEYWORDS]))


async def rewrite_by(
    model: ChatModel, text: str, prev: Sequence[str], *, background: str | None = None, memory: str | None = None,
    language: str | None = None,
) -> Rewritten:  # fmt: skip
    """The same by a language model, where the question leans on earlier ones; by rule where that comes to nothing."""
    ruled = rewrite(text, prev, background, memory, language)
    if not ruled.changed:
        return ruled
    data: Json = {"previous_questions": list(prev[-MOST_PREVIOUS:]), "last_question": text}
    told = await model.ask(_INSTRUCTIONS, data, MOST_CHARACTERS)
    if told is None or _keys(told).isdisjoint(_keys(" ".join([text, *prev[-MOST_PREVIOUS:]])) - _stop_words(language)):
        return ruled
    return Rewritten(told, told != text, ruled.keywords, "llm")


def content_words(text: str, language: str | None = None) -> list[str]:
    """The words of a question that say what it is about, as they are written."""
    return _content(text, _EMPTY | _stop_words(language))


def word_count(text: str, language: str | None = None) -> float:
    """How many content words a question has; two characters of a script without spaces are about one."""
    return _size(content_words(text, language))


def _content(text: str, ignored: Collection[str]) -> list[str]:
    """No word of one character, but numbers."""
    words = (word for word in _WORD.findall(text[:_LONGEST]) if len(word) > 1 or word.isdigit())
    return [word for word in words if word.lower() not in ignored]


def _stop_words(language: str | None) -> frozenset[str]:
    tag = (language or "en").replace("_", "-").partition("-")[0].lower()
    known = LANGUAGES.get(tag)
    return LANGUAGES["en"].stop_words | (known.stop_words if known is not None else frozenset())


def _keys(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _size(words: Iterable[str]) -> float:
    """How many words these are; two characters of a script without spaces are about one."""
    return sum(max(1, len(word) / 2) if word[0] >= _UNSPACED else 1 for word in words)


def _leans(text: str, ignored: Collection[str]) -> bool:
    lower = [word.lower() for word in _WORD.findall(text)]
    if not lower or _size(_content(text, ignored)) <= SHORT:
        return True
    if lower[0] in _CONTINUING or " ".join(lower).startswith(_STARTERS):
        return True
    return not _REFERRING.isdisjoint(lower)


def _borrowed(text: str, prev: Sequence[str], ignored: frozenset[str]) -> list[str]:
    """The words of the last question, and of the one before where the last one leaned on it too."""
    if not _leans(text, ignored):
        return []
    said = _keys(text)
    last = _fresh(_content(prev[-1], ignored | _CONTINUING | _REFERRING), said)
    if len(prev) > 1 and _leans(prev[-1], ignored):
        before = _content(prev[-2], ignored | _CONTINUING | _REFERRING)
        last += _fresh(before, said | {word.lower() for word in last})
    return last[:MOST_WORDS]


def _fresh(words: Iterable[str], said: Collection[str]) -> list[str]:
    """Each word once, without those that were said already."""
    found: dict[str, str] = {}
    for word in words:
        if word.lower() not in said:
            found.setdefault(word.lower(), word)
    return list(found.values())


def _wishes(text: str | None, ignored: Collection[str]) -> Iterator[str]:
    """The content words of what a user likes; what stands behind a "no" or "allergic to" is none of them."""
    for clause in _CLAUSE.split((text or "")[:_LONGEST]):
        words = _WORD.findall(clause)
        refused = next((place for place, word in enumerate(words) if word.lower() in _REFUSING), len(words))
        yield from _content(" ".join(words[:refused]), ignored)
