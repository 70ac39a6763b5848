"""Summarizes the items of an answer (4.1.1): extracts sentences of the items, or asks a language model.

Extractive: whole sentences that are close to the query and differ from each other, by maximal marginal relevance
(Carbonell and Goldstein 1998), each after the name of its item. A model may say only what the items support: an answer
with words from elsewhere is discarded, and the extractive summary is used instead. Items have addresses of their own;
no summary repeats one of a text, nor markup that an application could take for a link or an image.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.api.protocols.nlweb.answer.llm import ChatModel
from aidre.engine.errors import AidreError
from aidre.engine.index.text import english_terms, tokenize, tokenize_query
from aidre.engine.model import Json

Embed: TypeAlias = Callable[[list[str]], Awaitable[NDArray[Any]]]
"""Embeds n texts as unit vectors: float32, shape (n, dimensions)."""

MAX_ITEMS: Final = 5
MAX_SENTENCES: Final = 3
MAX_SENTENCES_PER_ITEM: Final = 2
MAX_EMBEDDED: Final = 4
"""Sentences that are compared as vectors: embedding one takes two milliseconds."""
MAX_SUMMARY_CHARS: Final = 700
MAX_SENTENCE_CHARS: Final = 240
MAX_NAME_CHARS: Final = 120
_MAX_PASSAGE_CHARS: Final = 4_000
"""Characters of a passage that are split into sentences."""
_RELEVANCE_WEIGHT: Final = 0.7
"""Weight of the similarity to the query in maximal marginal relevance (lambda)."""
_DUPLICATE_SIMILARITY: Final = 0.8
"""Share of common terms from which one of two sentences is dropped."""

_CODE_BLOCK: Final = re.compile(r"```.*?(?:```|\Z)|<(script|style)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_LINK: Final = re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*\)")
_MARKUP: Final = re.compile(r"</?[A-Za-z][^<>]*>|[*`_]{2,}|(?<!\w)[*_`](?=\w)|(?<=\w)[*_`](?!\w)")
_BLOCK_LINE: Final = re.compile(r"^[ \t]*(?:#{1,6}[ \t].*|[|>].*|[-=*_]{3,}[ \t]*)$", re.MULTILINE)
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+", re.MULTILINE)
_SENTENCE_BREAK: Final = re.compile(r"(?<=[.!?…][\"”’)\]])\s+|(?<=[.!?…])\s+|(?<=[。！？])|\n\s*\n")
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|No|Nr|vs|etc|e\.g|i\.e|cf|al|approx|Fig|Inc|Ltd|Co|z\.B|bzw|ca)|\b[A-Za-z])\.$"
)
_WHOLE_SENTENCE: Final = re.compile(r"[\"“‘(\[]?[^\Wa-z_].*[.!?…。！？][\"”’)\]]?", re.DOTALL)
_BARE_URL: Final = re.compile(
    r"(?:https?://|www\.|(?<![\w.@-])(?:[\w-]+\.)+[a-z]{2,}(?!\w))[^\s\"'<>)\]]*", re.IGNORECASE
)
_SCHEME: Final = re.compile(
    r"[a-z][a-z0-9+.-]{1,20}://|\bwww\.(?=\w)|\b(?:javascript|vbscript|mailto):(?=\S)|\bdata:(?=[\w/+.-]*[;,])",
    re.IGNORECASE,
)
"""What makes a text an address for applications that turn addresses into links."""
_ACTIVE_MARKUP: Final = re.compile(r"<[A-Za-z/!]|!\[|\][(\[:]")
"""Text that a page which shows the summary unescaped could take for an element, an image or a link."""
_BRACKETS: Final = re.compile(r"[<>\[\]]+")

_INSTRUCTIONS: Final = (
    "Summarize search results for the user who asked `query`, in two or three sentences of plain prose. Say only what "
    "`results` say, and name the results that you speak of. If they do not answer the query, say what they are about."
)


class SentenceSource(Protocol):
    """A source of sentences; `passage` is empty if the collection does not return texts."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def passage(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AnswerSummary:
    text: str
    method: Literal["extractive", "llm"]


@dataclass(frozen=True, slots=True)
class _Sentence:
    """`item` and `position` are the index of its item and its index among the sentences of the item."""

    item: int
    position: int
    text: str
    terms: set[str]


async def summarize(
    query: str,
    passages: Sequence[SentenceSource],
    embed: Embed | None = None,
    model: ChatModel | None = None,
    language: str | None = None,
) -> AnswerSummary | None:
    """None without passages. Without `embed`, or if it fails, similarity is that of words."""
    passages = passages[:MAX_ITEMS]
    if not passages:
        return None
    if model is not None:
        text = await _summarize_with_model(query, passages, model, language)
        if text is not None:
            return AnswerSummary(text, "llm")
    query_stems = english_terms(tokenize_query(query))
    candidates = _candidates(query_stems, passages)
    relevance, similarity = _word_similarity(query_stems, candidates)
    if embed is not None and len(candidates) > 1:
        try:
            vectors = np.asarray(await embed([query, *(sentence.text for sentence in candidates)]), np.float32)
            relevance = 0.75 * (vectors[1:] @ vectors[0]) + 0.25 * relevance
            similarity = vectors[1:] @ vectors[1:].T
        except AidreError:
            pass  # similarity of words remains
    return AnswerSummary(_cite(_select(candidates, relevance, similarity), passages), "extractive")


# -- sentences -------------------------------------------------------------------------------------------------


def split_sentences(text: str) -> list[str]:
    """The whole sentences of a Markdown or HTML text, without its markup, headings, tables and code."""
    plain = _CODE_BLOCK.sub("\n\n", text[:_MAX_PASSAGE_CHARS])
    plain = _BULLET.sub("\n", _BLOCK_LINE.sub("\n", plain))
    plain = _MARKUP.sub("", _LINK.sub(r"\1", plain))
    sentences: list[str] = []
    pending = ""
    for part in _SENTENCE_BREAK.split(plain):
        pending = f"{pending} {part}".strip() if pending else part.strip()
        if not _ABBREVIATION.search(pending, max(0, len(pending) - 8)) or len(pending) > MAX_SENTENCE_CHARS:
            sentences.append(" ".join(pending.split()))
            pending = ""
    sentences.append(" ".join(pending.split()))
    is_truncated = len(text) > _MAX_PASSAGE_CHARS
    return [sentence for sentence in (sentences[:-1] if is_truncated else sentences) if _is_whole(sentence)]


def _split_description(text: str) -> list[str]:
    """The sentences of a description; one without any may be a phrase without its full stop."""
    return split_sentences(text) or split_sentences(f"{text.rstrip()}.")


def _is_whole(sentence: str) -> bool:
    if len(sentence) > MAX_SENTENCE_CHARS or _WHOLE_SENTENCE.fullmatch(sentence) is None or _is_active(sentence):
        return False
    return len(sentence.split()) >= 4 or (not sentence.isascii() and len(sentence) >= 8)


def _is_active(text: str) -> bool:
    return _SCHEME.search(text) is not None or _ACTIVE_MARKUP.search(text) is not None


# -- extractive summary ----------------------------------------------------------------------------------------


def _candidates(query_stems: set[str], passages: Sequence[SentenceSource]) -> list[_Sentence]:
    """The sentences that share most words with the query, of better items first, without near duplicates."""
    sentences = [
        _Sentence(item, position, text, english_terms(tokenize(text)))
        for item, passage in enumerate(passages)
        for position, text in enumerate(
            dict.fromkeys(_split_description(passage.description) + split_sentences(passage.passage))
        )
    ]

    def cost(sentence: _Sentence) -> tuple[float, int, int]:
        shared = len(query_stems & sentence.terms) / (len(query_stems) or 1)
        return (-shared + 0.05 * sentence.item, sentence.position, sentence.item)

    candidates: list[_Sentence] = []
    for sentence in sorted(sentences, key=cost):
        if len(candidates) == MAX_EMBEDDED:
            break
        if all(_jaccard(sentence.terms, other.terms) < _DUPLICATE_SIMILARITY for other in candidates):
            candidates.append(sentence)
    return candidates


def _jaccard(first: set[str], second: set[str]) -> float:
    return len(first & second) / (len(first | second) or 1)


def _word_similarity(query_stems: set[str], candidates: Sequence[_Sentence]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The share of the query's words in each of n sentences, shape (n,), and the sentences' Jaccard similarity to each
    other, shape (n, n); both float32."""
    shares = [len(query_stems & sentence.terms) / (len(query_stems) or 1) for sentence in candidates]
    pairwise = [[_jaccard(first.terms, second.terms) for second in candidates] for first in candidates]
    return np.array(shares, np.float32), np.array(pairwise, np.float32)


def _select(candidates: Sequence[_Sentence], relevance: NDArray[Any], similarity: NDArray[Any]) -> list[_Sentence]:
    """Selects sentences by maximal marginal relevance, within the length of a summary; in the order of the items."""
    selected: list[int] = []
    chars_left = MAX_SUMMARY_CHARS
    remaining = list(range(len(candidates)))
    while remaining and len(selected) < MAX_SENTENCES:
        redundancy = {i: max((float(similarity[i, j]) for j in selected), default=0.0) for i in remaining}
        gain = {i: _RELEVANCE_WEIGHT * float(relevance[i]) - (1 - _RELEVANCE_WEIGHT) * redundancy[i] for i in remaining}
        best = min(remaining, key=lambda i: (-gain[i], i))
        remaining.remove(best)
        size = len(candidates[best].text) + MAX_NAME_CHARS + 3
        same_item = sum(candidates[i].item == candidates[best].item for i in selected)
        if size <= chars_left and same_item < MAX_SENTENCES_PER_ITEM:
            selected.append(best)
            chars_left -= size
    return sorted((candidates[i] for i in selected), key=lambda sentence: (sentence.item, sentence.position))


def _cite(selected: Sequence[_Sentence], passages: Sequence[SentenceSource]) -> str:
    """The sentences, each after the name of its item; only the names if there are no sentences."""
    if not selected:
        return "; ".join(dict.fromkeys(_short_name(passage) for passage in passages)) + "."
    parts: list[str] = []
    last_item = -1
    for sentence in selected:
        is_continued = sentence.item == last_item
        parts.append(sentence.text if is_continued else f"{_short_name(passages[sentence.item])}: {sentence.text}")
        last_item = sentence.item
    return " ".join(parts)


def _short_name(passage: SentenceSource) -> str:
    name = passage.name
    if _is_active(name):  # the title of a document is its author's, too
        name = _BRACKETS.sub(" ", _SCHEME.sub("", _MARKUP.sub("", _LINK.sub(r"\1", name))))
    name = " ".join(name.split())
    return name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1].rstrip() + "…"


# -- summary of a language model -------------------------------------------------------------------------------


async def _summarize_with_model(
    query: str, passages: Sequence[SentenceSource], model: ChatModel, language: str | None
) -> str | None:
    """None if the model gives no text, or one that the passages do not support."""
    results: list[Json] = [
        {
            "name": _short_name(passage),
            "description": passage.description[:1_000],
            "text": passage.passage[:2_000],
        }
        for passage in passages
        if passage.description or passage.passage
    ]
    is_foreign = bool(language) and _is_language_tag(language or "")
    instructions = _INSTRUCTIONS + (f" Write in the language with the tag {language}." if is_foreign else "")
    text = await model.complete(instructions, {"query": query, "results": results}, MAX_SUMMARY_CHARS)
    if text is None or not _is_grounded(text, query, passages, is_foreign=is_foreign):
        return None
    return text


def _is_language_tag(language: str) -> bool:
    return re.fullmatch(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}", language) is not None


def _is_grounded(text: str, query: str, passages: Iterable[SentenceSource], *, is_foreign: bool) -> bool:
    """Whether a summary has no markup, no address and shares a third of its words with the passages.

    One shared word is enough if the summary may be in another language than the passages.
    """
    if _is_active(text):
        return False
    source = "\n".join([query, *(f"{item.name}\n{item.description}\n{item.passage}" for item in passages)])
    if any(url.rstrip(".,;:!?") not in source for url in _BARE_URL.findall(text)):
        return False
    stems = english_terms(tokenize_query(text))
    shared = len(stems & english_terms(tokenize_query(source)))
    return shared > 0 and (is_foreign or shared >= len(stems) / 3)
