"""Relevance of a hit from 0 to 1, one scale for all modes and collections; hits below RELEVANT (0.51) are irrelevant.

Scores of different modes and collections cannot be compared, relevance can. A score is first mapped to a share of the
best possible score, then so that the bound of the answer has the relevance RELEVANT:

    below the bound    RELEVANT * share / bound
    from the bound on  1 - (1 - RELEVANT) * ((1 - share) / (1 - bound)) ** 3

The bound is the share at which the hit with the most evidence, of the first three, would have just what is demanded
(`evidence.py`): its own share divided by its strength, which is 1 where the log odds are 0. A hit with less evidence
than that is irrelevant whatever its score is, and so is one with less than a quarter of the log odds of that hit:
beside a hit that surely answers, what is only about the same subject is not an answer. So relevance falls with the
score, but for hits that nobody would take for an answer.

NLWeb's percentages, an intake's `min_score` and AIDRE's `relevance` are views of this scale. Where there is no evidence
(models that are not calibrated), there is no bound, and every hit has at least RELEVANT. Where ranks are fused, scores
order the hits and say nothing more: the share of a hit is told by its evidence, at a bound that is usual where scores
are fused, so that a hit is about as relevant as there; and no text is answered in place of another that finds something
relevant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from aidre.engine.index.text import LANGUAGES, REQUEST_WORDS
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.types import Hit

RELEVANT: Final = 0.51
"""The relevance from which on a hit counts as relevant. NLWeb's first implementation demands a score above 51."""
FIRST_HITS: Final = 3
"""Hits of which one has to be relevant, so that anything was found."""

_HIGHEST_IRRELEVANT: Final = RELEVANT - 0.0001
_LEAST_PART: Final = 0.25
"""The part of the log odds of the hit with the most evidence that a relevant hit has at least."""
_ODDS_SCALE: Final = 2.0
"""Log odds at which a hit has twice the strength that is demanded."""
_EXPONENT: Final = 3
"""Steepness above the bound."""
_BM25_SATURATION: Final = 15.0
"""The BM25 score that is a share of one half."""
_MAX_HYBRID: Final = 1.2
"""The highest hybrid score with equal weights and without a code: feedback adds a fifth."""
_MAX_BOUND: Final = 0.95
_RANK_BOUND: Final = 0.11
"""The bound where ranks are fused: usual for hybrid scores."""

OddsOf = Callable[[Sequence[Hit]], list[float]]
"""The log odds that each of some hits answers the question."""


@dataclass(frozen=True, slots=True)
class RelevanceScale:
    """Maps the hits of one search to relevance. `space` is None for lexical scores; `bound` is a share of 1."""

    mode: Mode
    space: EmbeddingSpace | None
    bound: float
    odds: OddsOf | None = None
    least: float = 0.0
    """The least log odds of a relevant hit."""
    page: Sequence[Hit] = ()
    page_odds: Sequence[float] = ()
    """The log odds of the hits in `page`, if they are known."""
    by_rank: bool = False
    """Scores give the order of hits and nothing more."""

    def relevances(self, hits: Sequence[Hit]) -> list[float]:
        """The relevance of each hit, from 0 to 1, rounded to four places."""
        if self.odds is None or not hits:
            return self.by_score(hits)
        hit_odds = self.page_odds if hits is self.page else self.odds(hits)
        found = self._at([_RANK_BOUND * strength(odds) for odds in hit_odds]) if self.by_rank else self.by_score(hits)
        for place, odds in enumerate(hit_odds):
            if odds < self.least and found[place] >= RELEVANT:
                found[place] = min(round(RELEVANT * strength(odds - self.least), 4), _HIGHEST_IRRELEVANT)
        return found

    def by_score(self, hits: Iterable[Hit]) -> list[float]:
        """The relevance as far as scores tell, rising with them: no hit has more, unless ranks are fused."""
        return self._at([to_share(hit.score, self.mode, self.space) for hit in hits])

    def _at(self, shares: Iterable[float]) -> list[float]:
        bound, reach, above = self.bound, 1 - self.bound, 1 - RELEVANT
        return [
            round(
                RELEVANT * share / bound if share < bound else 1 - above * ((1 - min(share, 1)) / reach) ** _EXPONENT, 4
            )
            for share in shares
        ]


class QuestionRelevance(NamedTuple):
    """How well a question does: whether anything relevant was found, and the share of its best hit; 0 if shares of the
    collection have no bound, and so cannot be compared."""

    is_relevant: bool
    share: float


def finding(hits: Sequence[Hit], scale: RelevanceScale) -> QuestionRelevance:
    """Of the hits of the first page, best first."""
    if not hits:
        return QuestionRelevance(False, 0.0)
    # Every word more raises a lexical score, and something always comes first.
    is_compared = scale.bound > 0 and scale.mode != "lexical" and not scale.by_rank
    share = to_share(hits[0].score, scale.mode, scale.space) if is_compared else 0.0
    return QuestionRelevance(max(scale.relevances(hits[:FIRST_HITS])) >= RELEVANT, share)


def scale_for(
    hits: Sequence[Hit],
    mode: Mode,
    space: EmbeddingSpace | None,
    odds: OddsOf | None,
    *,
    first: Sequence[Hit] | None = None,
    by_rank: bool = False,
) -> RelevanceScale:
    """The scale for the hits of a page; without a bound where there are no `odds`. `first` are the first hits of all
    pages, where the page is a later one."""
    if odds is None or not (hits or first):
        return RelevanceScale(mode, space, 0.0)
    hit_odds = odds(hits)
    leading = hit_odds if first is None else odds(first)
    hits_leading = hits if first is None else first
    best = max(range(min(len(leading), FIRST_HITS)), key=lambda place: leading[place])
    share = to_share(hits_leading[best].score, mode, space)
    least = max(0.0, _LEAST_PART * leading[best])
    bound = _RANK_BOUND if by_rank else bound_at(share, leading[best])
    return RelevanceScale(mode, space, bound, odds, least, hits, hit_odds, by_rank)


def bound_at(share: float, odds: float) -> float:
    """The bound of an answer whose hit with the most evidence has a share of the best possible score."""
    return min(max(share / strength(odds), 1e-6), _MAX_BOUND)


def strength(odds: float) -> float:
    """Log odds as a number above 0, which is 1 where they are 0."""
    return 1 + odds / _ODDS_SCALE if odds >= 0 else 1 / (1 - odds / _ODDS_SCALE)


def to_share(score: float, mode: Mode, space: EmbeddingSpace | None = None) -> float:
    """The score as a share of the best possible one, 0 to 1, monotonically; `space` is None for lexical scores.

    Cosines are shares of 1 already. BM25 has no upper end and is saturated.
    """
    distance = "cosine" if space is None else space.distance
    if mode == "lexical":
        share = score / (score + _BM25_SATURATION) if score > 0 else 0.0
    elif mode == "hybrid":
        share = score / _MAX_HYBRID
    elif distance == "cosine":
        share = score
    elif distance == "euclidean":
        share = 1 / (1 - score) if score < 0 else 1.0
    else:
        share = 0.5 + math.atan(score) / math.pi
    return min(max(share, 0.0), 1.0)


# -- content words -----------------------------------------------------------------------------------------------

WORD: Final = re.compile(r"\w+(?:['’.-]\w+)*")
MAX_TEXT_CHARS: Final = 2_000
"""Characters of a text whose words are read."""
_UNSPACED: Final = "\u2e80"
"""Code point from which scripts put no spaces between words, roughly."""


def content_words(text: str, language: str | None = None) -> list[str]:
    """The content words in their original case; `language` is a tag such as "de-AT", if it is known."""
    return words_except(text, _ignored_in_english() if language is None else REQUEST_WORDS | stop_words(language))


def word_count(text: str, language: str | None = None) -> float:
    """The number of content words; two characters of a script without spaces count as one."""
    return count_words(content_words(text, language))


def words_except(text: str, ignored: Collection[str]) -> list[str]:
    """The words of a text without the ignored ones and without single characters, except digits."""
    words = (word for word in WORD.findall(text[:MAX_TEXT_CHARS]) if len(word) > 1 or word.isdigit())
    return [word for word in words if word.lower() not in ignored]


def stop_words(language: str | None) -> frozenset[str]:
    """English stop words and those of the language."""
    tag = (language or "en").replace("_", "-").partition("-")[0].lower()
    analysis = LANGUAGES.get(tag)
    return LANGUAGES["en"].stop_words | (analysis.stop_words if analysis is not None else frozenset())


def count_words(words: Iterable[str]) -> float:
    """The number of words; two characters of a script without spaces count as one."""
    return sum(max(1, len(word) / 2) if word[0] >= _UNSPACED else 1 for word in words)


@cache
def _ignored_in_english() -> frozenset[str]:
    return REQUEST_WORDS | stop_words(None)
