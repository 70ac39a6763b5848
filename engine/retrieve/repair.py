"""Which of two texts is answered, as typed or repaired: a question with words that its collection lacks is asked twice.

The repaired question is answered instead only where the one as typed finds nothing relevant, or where a word of it is
surely no word and its best hit has less than 1 / CLEARLY_MORE of the share that the best hit of the repaired one has:
so much less is what a typing error costs, not what another word finds. In every other case the repaired text is a
suggestion. A question all of whose words the collection has is never searched twice.

CLEARLY_MORE was chosen on the nine test collections of `relevance.py`, from a wrong letter in a third of the words of
their queries. `python -m benchmarks.bench_typos` measures what it gives back, and prints the queries without an error
whose results change: a set has some that are misspelled in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from aidre.engine.embedding import default_vocabulary
from aidre.engine.errors import Busy, ModelUnavailable
from aidre.engine.index.text import normalize
from aidre.engine.retrieve.relevance import Finding

T = TypeVar("T")

CLEARLY_MORE: Final = 1.11
_MIN_STEM: Final = 5
"""Letters that two words share if they may be forms of one."""
_WORD: Final = re.compile(r"[^\W\d_]+")


def better_of(
    typed: T,
    texts: tuple[str, str],
    ask: Callable[[str], Generator[Any, Any, T]],
    judge: Callable[[T], Finding | None],
) -> Generator[Any, Any, tuple[T, str | None, str | None]]:
    """What a question found as it is `typed`, or what `ask` finds for the repaired one; the text that was answered in
    place of it, or a suggestion that finds something, too.

    `texts` are the two; `judge` is None for what cannot be judged, which is not asked again.
    """
    as_typed, repaired = texts
    before = judge(typed)
    if before is None:
        return typed, None, repaired
    try:
        other = yield from ask(repaired)
    except (Busy, ModelUnavailable):  # the text as typed has been answered
        return typed, None, repaired
    after = judge(other) or Finding(True, 0.0)
    if is_answered_instead(after, before, is_sure=is_surely_error(as_typed, repaired)):
        return other, repaired, None
    return typed, None, repaired if after.is_relevant else None


def is_answered_instead(repaired: Finding, typed: Finding, *, is_sure: bool) -> bool:
    """Whether the repaired question is answered in place of the one as typed; for `is_sure` see `is_surely_error`."""
    if not repaired.is_relevant:
        return False
    return not typed.is_relevant or (is_sure and repaired.share > typed.share * CLEARLY_MORE > 0)


def is_surely_error(typed: str, repaired: str) -> bool:
    """Whether a word that was repaired cannot be meant: it is not two words in one, nor another form of the repair."""
    words, repairs = (_WORD.findall(text.lower()) for text in (normalize(typed), repaired))
    if len(words) != len(repairs):
        return False
    pairs = zip(words, repairs, strict=True)
    return any(word != repair and not (_is_form(word, repair) or _is_compound(word)) for word, repair in pairs)


def _is_form(word: str, repair: str) -> bool:
    """Whether two words differ in their last letter alone, as forms of one word may."""
    return len(word) > _MIN_STEM and (word[:-1] in {repair, repair[:-1]} or repair[:-1] == word)


def _is_compound(word: str) -> bool:
    """Whether a word is two English ones, such as superset and unread, of at least two letters each."""
    vocabulary = default_vocabulary()
    return any(word[:end] in vocabulary and word[end:] in vocabulary for end in range(2, len(word) - 1))
