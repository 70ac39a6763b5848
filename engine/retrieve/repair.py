"""Which of two texts is answered, as typed or repaired: a question with words that its collection lacks is asked twice.

The repaired question is answered instead only where the one as typed finds nothing relevant, or where a word of it is
surely no word and its best hit has less than 1 / CLEARLY_MORE of the share that the best hit of the repaired one has:
so much less is what a typing error costs, not what another word finds. Where the letters are the same, since words were
only split, or joined to a function word, it is enough that the question as typed finds not clearly more. In every other
case the repaired text is a suggestion. A question in which nothing is repaired is never searched twice.

CLEARLY_MORE was chosen on the nine test collections of `relevance.py`, from a wrong letter in a third of the words of
their queries; how little the same letters need, on six of them. `python -m benchmarks typos` measures what it
gives back, and prints the queries without an error whose results change: a set has some that are misspelled in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from math import inf
from typing import Any, Final, TypeVar

from aidre.engine.embedding import default_vocabulary
from aidre.engine.errors import Busy, ModelUnavailable
from aidre.engine.index.text import LANGUAGES, likely_language, normalize
from aidre.engine.retrieve.relevance import QuestionRelevance

T = TypeVar("T")

CLEARLY_MORE: Final = 1.11
_MIN_STEM: Final = 5
"""Letters that two words share if they may be forms of one."""
_MAX_ENDING: Final = 2
_WORD: Final = re.compile(r"[^\W\d_]+")


def better_of(
    typed: T,
    texts: tuple[str, str],
    ask: Callable[[str], Generator[Any, Any, T]],
    judge: Callable[[T], QuestionRelevance | None],
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
    after = judge(other) or QuestionRelevance(True, 0.0)
    if is_answered_instead(after, before, needed=needed_more(as_typed, repaired)):
        return other, repaired, None
    return typed, None, repaired if after.is_relevant else None


def is_answered_instead(repaired: QuestionRelevance, typed: QuestionRelevance, *, needed: float) -> bool:
    """Whether the repaired question is answered in place of the one as typed; for `needed` see `needed_more`."""
    if not repaired.is_relevant:
        return False
    return not typed.is_relevant or repaired.share > typed.share * needed > 0


def needed_more(typed: str, repaired: str) -> float:
    """How many times as much the repaired question has to find; infinitely many where all words may be meant."""
    language = likely_language(_WORD.findall(typed.lower()), LANGUAGES)
    function_words = LANGUAGES[language].stop_words
    needed = [_needed(words, repairs, function_words) for words, repairs in _differences(typed, repaired)]
    sure = [each for each in needed if each < inf]
    if len(sure) == len(needed):
        return max(sure, default=inf)
    return CLEARLY_MORE if sure else inf


def _needed(words: Sequence[str], repairs: Sequence[str], function_words: Container[str]) -> float:
    """`needed_more` for one difference. A word may be meant that is another form of its repair, or two words in one.

    What was only split or joined has the same letters and the same meaning; but two words of which none is a function
    word may be one that the collection lacks.
    """
    if len(words) == len(repairs) == 1:
        return inf if _is_form(words[0], repairs[0]) or _is_compound(words[0]) else CLEARLY_MORE
    is_sure = len(words) > 1 or any(part in function_words for part in repairs)
    return 1 / CLEARLY_MORE if is_sure else CLEARLY_MORE


def _differences(typed: str, repaired: str) -> Iterator[tuple[list[str], list[str]]]:
    """What was repaired: a word and another one, two words and one of the same letters, or one word and two."""
    words, repairs = (_WORD.findall(text.lower()) for text in (normalize(typed), repaired))
    while words and repairs:
        counts = next(
            (two for two in ((2, 1), (1, 2)) if "".join(words[: two[0]]) == "".join(repairs[: two[1]])), (1, 1)
        )
        if words[0] != repairs[0]:
            yield words[: counts[0]], repairs[: counts[1]]
        else:
            counts = 1, 1
        del words[: counts[0]], repairs[: counts[1]]


def _is_form(word: str, repair: str) -> bool:
    """Whether two words differ in their last letter or their last two alone, as forms of one word may; swapped letters
    make no other form."""
    shared = 0
    while word[shared : shared + 1] == repair[shared : shared + 1] != "":
        shared += 1
    typed_end, other = word[shared:], repair[shared:]
    is_ending = (
        max(len(typed_end), len(other)) <= _MAX_ENDING and typed_end[-1:] != other[-1:] and typed_end != other[::-1]
    )
    return shared >= _MIN_STEM and is_ending


def _is_compound(word: str) -> bool:
    """Whether a word is two English ones, such as superset and unread, of at least two letters each."""
    vocabulary = default_vocabulary()
    return any(word[:end] in vocabulary and word[end:] in vocabulary for end in range(2, len(word) - 1))
