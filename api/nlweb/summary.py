"""A summary of what was found (4.1.1): sentences of the items themselves, or what a language model makes of them.

Extractive: whole sentences, close to the query and unlike each other (maximal marginal relevance, Carbonell and
Goldstein 1998), each behind the name of its item. By a model: only what the items support; an answer that brings
addresses or words from elsewhere is refused, and the extractive summary stands in its place.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.api.nlweb.language_model import ChatModel
from aidre.engine.analysis import query_words, term, words
from aidre.engine.errors import AidreError
from aidre.engine.model import Json

Embed: TypeAlias = Callable[[list[str]], Awaitable[NDArray[Any]]]
"""Vectors of length one for texts, one a row."""

MOST_ITEMS: Final = 5
MOST_SENTENCES: Final = 3
MOST_OF_ONE: Final = 2
MOST_EMBEDDED: Final = 4
"""Sentences that are compared as vectors: each costs two milliseconds of embedding."""
MOST_CHARACTERS: Final = 700
LONGEST_SENTENCE: Final = 240
LONGEST_NAME: Final = 120
_LOOKED_AT: Final = 4_000
"""Characters of a passage."""
_CLOSENESS: Final = 0.7
_ALIKE: Final = 0.8

_FENCED: Final = re.compile(r"```.*?(?:```|\Z)|<(script|style)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_LINK: Final = re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*\)")
_MARKUP: Final = re.compile(r"</?[A-Za-z][^<>]*>|[*`_]{2,}|(?<!\w)[*_`](?=\w)|(?<=\w)[*_`](?!\w)")
_LINE: Final = re.compile(r"^[ \t]*(?:#{1,6}[ \t].*|[|>].*|[-=*_]{3,}[ \t]*)$", re.MULTILINE)
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+", re.MULTILINE)
_BREAK: Final = re.compile(r"(?<=[.!?…][\"”’)\]])\s+|(?<=[.!?…])\s+|(?<=[。！？])|\n\s*\n")
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|No|Nr|vs|etc|e\.g|i\.e|cf|al|approx|Fig|Inc|Ltd|Co|z\.B|bzw|ca)|\b[A-Za-z])\.$"
)
_WHOLE: Final = re.compile(r"[\"“‘(\[]?[^\Wa-z_].*[.!?…。！？][\"”’)\]]?", re.DOTALL)
_ADDRESS: Final = re.compile(
    r"(?:https?://|www\.|(?<![\w.@-])(?:[\w-]+\.)+[a-z]{2,}(?!\w))[^\s\"'<>)\]]*", re.IGNORECASE
)
_MARKED: Final = re.compile(r"<[A-Za-z/!]|\]\(|\bjavascript:", re.IGNORECASE)
"""What a page could take for an element, an image or a link, where it shows a summary as it is."""

_INSTRUCTIONS: Final = (
    "Summarize search results for the user who asked `query`, in two or three sentences of plain prose. Say only what "
    "`results` say, and name the results that you speak of. If they do not answer the query, say what they are about."
)


class Passage(Protocol):
    """What was found, as far as a summary needs it; `passage` is empty where no text may leave."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def passage(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Summary:
    text: str
    method: Literal["extractive", "llm"]


@dataclass(frozen=True, slots=True)
class _Sentence:
    item: int
    place: int
    text: str
    terms: frozenset[str]


async def summarize(
    query: str,
    passages: Sequence[Passage],
    embed: Embed | None = None,
    model: ChatModel | None = None,
    language: str | None = None,
) -> Summary | None:
    """None where nothing was found. Without `embed`, or where it fails, closeness is that of words."""
    passages = passages[:MOST_ITEMS]
    if not passages:
        return None
    if model is not None:
        told = await _told(query, passages, model, language)
        if told is not None:
            return Summary(told, "llm")
    asked = _terms(query)
    candidates = _candidates(asked, passages)
    close, alike = _by_words(asked, candidates)
    if embed is not None and len(candidates) > 1:
        try:
            vectors = np.asarray(await embed([query, *(one.text for one in candidates)]), np.float32)
            close, alike = 0.75 * (vectors[1:] @ vectors[0]) + 0.25 * close, vectors[1:] @ vectors[1:].T
        except AidreError:
            pass  # the words are enough
    return Summary(_cited(_chosen(candidates, close, alike), passages), "extractive")


def sentences(text: str) -> list[str]:
    """The whole sentences of a text, without its markup, headings, tables and code."""
    plain = _FENCED.sub("\n\n", text[:_LOOKED_AT])
    plain = _BULLET.sub("\n", _LINE.sub("\n", plain))
    plain = _MARKUP.sub("", _LINK.sub(r"\1", plain))
    found: list[str] = []
    pending = ""
    for part in _BREAK.split(plain):
        pending = f"{pending} {part}".strip() if pending else part.strip()
        if not _ABBREVIATION.search(pending, max(0, len(pending) - 8)) or len(pending) > LONGEST_SENTENCE:
            found.append(" ".join(pending.split()))
            pending = ""
    found.append(" ".join(pending.split()))
    cut = len(text) > _LOOKED_AT
    return [one for one in (found[:-1] if cut else found) if _is_whole(one)]


def _described(text: str) -> list[str]:
    """The sentences of a description; one that has none is often a phrase without its full stop."""
    return sentences(text) or sentences(f"{text.rstrip()}.")


def _is_whole(sentence: str) -> bool:
    if len(sentence) > LONGEST_SENTENCE or _WHOLE.fullmatch(sentence) is None:
        return False
    return len(sentence.split()) >= 4 or (not sentence.isascii() and len(sentence) >= 8)


def _terms(text: str) -> frozenset[str]:
    return _stems(query_words(text))


def _stems(said: Iterable[str]) -> frozenset[str]:
    stems = (term(word, "en") for word in said)
    return frozenset(stem for stem in stems if stem is not None)


def _candidates(asked: frozenset[str], passages: Sequence[Passage]) -> list[_Sentence]:
    """The sentences that share most words with the query, of better items first; none that says another's again."""
    found = [
        _Sentence(item, place, sentence, _stems(words(sentence)))
        for item, passage in enumerate(passages)
        for place, sentence in enumerate(dict.fromkeys(_described(passage.description) + sentences(passage.passage)))
    ]

    def merit(one: _Sentence) -> tuple[float, int, int]:
        return (-len(asked & one.terms) / (len(asked) or 1) + 0.05 * one.item, one.place, one.item)

    chosen: list[_Sentence] = []
    for one in sorted(found, key=merit):
        if len(chosen) == MOST_EMBEDDED:
            break
        if all(_shared(one.terms, other.terms) < _ALIKE for other in chosen):
            chosen.append(one)
    return chosen


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / (len(one | other) or 1)


def _by_words(asked: frozenset[str], candidates: Sequence[_Sentence]) -> tuple[NDArray[Any], NDArray[Any]]:
    close = np.array([len(asked & one.terms) / (len(asked) or 1) for one in candidates], np.float32)
    alike = np.array([[_shared(one.terms, other.terms) for other in candidates] for one in candidates], np.float32)
    return close, alike


def _chosen(candidates: Sequence[_Sentence], close: NDArray[Any], alike: NDArray[Any]) -> list[_Sentence]:
    """The best by closeness to the query and distance from those that were taken, in the order of the items."""
    taken: list[int] = []
    room = MOST_CHARACTERS
    left = list(range(len(candidates)))
    while left and len(taken) < MOST_SENTENCES:
        unlike = {one: max((float(alike[one, other]) for other in taken), default=0.0) for one in left}
        gain = {one: _CLOSENESS * float(close[one]) - (1 - _CLOSENESS) * unlike[one] for one in left}
        best = min(left, key=lambda one: (-gain[one], one))
        left.remove(best)
        size = len(candidates[best].text) + LONGEST_NAME + 3
        if size <= room and sum(candidates[t].item == candidates[best].item for t in taken) < MOST_OF_ONE:
            taken.append(best)
            room -= size
    return sorted((candidates[one] for one in taken), key=lambda one: (one.item, one.place))


def _cited(chosen: Sequence[_Sentence], passages: Sequence[Passage]) -> str:
    """Each sentence behind the name of its item; the names alone where there is no sentence."""
    if not chosen:
        return "; ".join(dict.fromkeys(_name(one) for one in passages)) + "."
    parts: list[str] = []
    last = -1
    for one in chosen:
        parts.append(one.text if one.item == last else f"{_name(passages[one.item])}: {one.text}")
        last = one.item
    return " ".join(parts)


def _name(passage: Passage) -> str:
    name = " ".join(passage.name.split())
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1].rstrip() + "…"


async def _told(query: str, passages: Sequence[Passage], model: ChatModel, language: str | None) -> str | None:
    results: list[Json] = [
        {"name": _name(one), "description": one.description[:1_000], "text": one.passage[:2_000]} for one in passages
    ]
    wanted = f" Write in the language with the tag {language}." if language and _is_tag(language) else ""
    told = await model.ask(_INSTRUCTIONS + wanted, {"query": query, "results": results}, MOST_CHARACTERS)
    if told is None or not _is_grounded(told, query, passages, foreign=bool(wanted)):
        return None
    return told


def _is_tag(language: str) -> bool:
    return re.fullmatch(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}", language) is not None


def _is_grounded(told: str, query: str, passages: Iterable[Passage], *, foreign: bool) -> bool:
    """Whether it is plain, brings no address and, in the language of the items, mostly words of theirs."""
    if _MARKED.search(told) is not None:
        return False
    source = "\n".join([query, *(f"{one.name}\n{one.description}\n{one.passage}" for one in passages)])
    if any(address.rstrip(".,;:!?") not in source for address in _ADDRESS.findall(told)):
        return False
    said = _terms(told)
    shared = len(said & _terms(source))
    return shared > 0 and (foreign or shared >= len(said) / 3)
