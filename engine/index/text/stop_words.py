"""Neighbouring stop words as terms, so that a question of stop words alone finds the text that has them in its order.

Postings of all stop words would make a lexicon larger by a third to a half, those of all pairs of neighbours by a
quarter. Any three, and two of which the second has a capital, as in "The Who", add some hundredths.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.text.languages import all_stop_words

REQUEST_WORDS: Final[frozenset[str]] = frozenset(
    """
    anything find get give i'd i'm it's let like list look looking looks lots need needs please recommend search
    searching see show some someone something sort suggest tell thing things try user want wants what's user's
    """.split()  # noqa: SIM905 -- a list of seventy quoted words is harder to read
)
"""Words of a request that say nothing about its object, in addition to the stop words of its language."""


class Runs(NamedTuple):
    """The distinct runs, and the number and the row of each occurrence of one."""

    terms: list[str]
    codes: NDArray[np.int32]
    rows: NDArray[np.int32]


@cache
def capitals() -> frozenset[str]:
    """The stop words of all languages as the analysis has them with capitals, before themselves."""
    forms = (form for word in all_stop_words() for form in (word.capitalize(), word.upper()))
    return frozenset(form for form in forms if form[0].isupper())


def find_runs(
    words: Sequence[str],
    codes: NDArray[np.int32],
    rows: NDArray[np.int32],
    is_stop_word: NDArray[np.bool_],
    has_capital: NDArray[np.bool_],
) -> Runs:
    """The runs of a sequence of words, given by their codes; `has_capital` marks `capitals`."""
    uncapitalized = np.flatnonzero(~has_capital)
    follows_capital = np.concatenate([[False], has_capital[:-1]])[uncapitalized]
    codes, rows, is_stop_word = codes[uncapitalized], rows[uncapitalized], is_stop_word[uncapitalized]
    used, ordinals = np.unique(codes[is_stop_word], return_inverse=True)
    numbers = np.zeros(len(codes), np.int64)
    numbers[is_stop_word] = ordinals
    is_pair = is_stop_word[:-1] & is_stop_word[1:] & (rows[:-1] == rows[1:])
    is_triple = is_pair[:-1] & is_pair[1:]
    pairs = np.flatnonzero(is_pair & follows_capital[1:])
    triples = np.flatnonzero(is_triple)
    size = len(used) + 1  # 0: no third word
    keys = np.concatenate(
        [
            (numbers[pairs] * size + numbers[pairs + 1]) * size,
            (numbers[triples] * size + numbers[triples + 1]) * size + numbers[triples + 2] + 1,
        ]
    )
    distinct, run_codes = np.unique(keys, return_inverse=True)
    names = [words[code] for code in used.tolist()]
    terms = [
        " ".join((names[key // size // size], names[key // size % size], *names[key % size - 1 : key % size]))
        if key % size
        else f"{names[key // size // size]} {names[key // size % size]}"
        for key in distinct.tolist()
    ]
    return Runs(terms, run_codes.astype(np.int32), np.concatenate([rows[pairs], rows[triples]]))
