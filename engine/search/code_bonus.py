"""A bonus for chunks that contain a code of the query: a part number, an error code, a version, a file name.

Models of sentences know such words badly, and in a long question the weight of their terms is one among many. A rare
code that a chunk contains whole is a stronger sign than either: its chunks join the candidates of a hybrid search, and
their score grows by

    WEIGHT * 2 * (1 - a) * max(0, 1 - 2 * ln df / ln N)

where df of the N live chunks contain all terms of the code: nothing for a code in the square root of N chunks or more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.text import analyze_query
from aidre.engine.search.bm25 import Statistics
from aidre.engine.segment import SegmentView

WEIGHT: Final = 0.2
"""The bonus of a code that one chunk of many contains, where a = 0.5."""
_MAX_CODES: Final = 8
"""Codes of a query that count; a query of more is a list, in which none stands out."""
_WORD: Final = re.compile(r"(?<![^\W_])(?=[^\s\d]{0,63}\d)[^\W_][\w./:+#-]{1,62}[^\W_](?![^\W_])")
"""A word with a digit in it, and signs inside; every repetition is bounded, so that a long text takes linear time."""
_DIGIT: Final = re.compile(r"\d")
_SIGNS: Final = re.compile(r"[\W_]+")
_PLAIN: Final = re.compile(r"\d+(?:st|nd|rd|th|s|[a-z]{1,2})")
"""Ordinals, decades, and numbers with a unit: 21st, 1980s, 15mm."""
_MIN_DIGITS: Final = 5
"""A number of so many digits is no quantity."""

CodeChunks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Segment ordinals, rows and bonuses (n,) of the chunks that have any, in storage order."""


def find_codes(text: str) -> list[str]:
    """The words of a query that look like codes, each once, in order."""
    words = _WORD.findall(text) if _DIGIT.search(text) else []
    return [word for word in dict.fromkeys(words) if _is_code(word)][:_MAX_CODES]


def _is_code(word: str) -> bool:
    """Whether a word with a digit is none of language: letters and digits in one part (`TR4410`, `sha256`), capitals
    or few letters beside a number (`AB-1234`, `ab-1234`), a long number or one of many parts (`2.13.0`)."""
    parts = _SIGNS.split(word)
    numbers, letters = [part for part in parts if part.isdigit()], [part for part in parts if part.isalpha()]
    if any(not part.isdigit() and not part.isalpha() and not _PLAIN.fullmatch(part) for part in parts):
        return True
    if not numbers:
        return False
    if letters:
        few = all(len(part) <= 3 for part in letters) and max(map(len, numbers)) >= 3
        return few or any(part.isupper() and len(part) > 1 for part in letters)
    if len(numbers) == 2:
        is_long = max(map(len, numbers)) >= _MIN_DIGITS or sum(map(len, numbers)) >= 2 * _MIN_DIGITS - 2
        return is_long and "." not in word and not all(len(one) == 4 and one[0] in "12" for one in numbers)
    if len(numbers) == 1:
        return len(numbers[0]) >= _MIN_DIGITS
    return len(numbers) != len(parts) or not _is_date(numbers)


def _is_date(numbers: Sequence[str]) -> bool:
    return len(numbers) == 3 and sorted(map(len, numbers))[-1] == 4


def code_chunks(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, *, filter: Filter | None = None
) -> CodeChunks:
    """The chunks that pass the filter and contain a code of the query, and the sum of its bonuses where a = 0.5."""
    found: list[CodeChunks] = []
    for code in find_codes(text):
        groups = list(analyze_query(code, statistics.languages))
        rows = [_rows_of(view, groups) for view in segments] if groups else []
        frequency = sum(map(len, rows))
        bonus = WEIGHT * (1 - 2 * math.log(frequency) / math.log(max(statistics.chunks, 2))) if frequency else 0.0
        if bonus > 0:
            found += [
                (np.full(len(of_segment), segment_ord), of_segment, np.full(len(of_segment), bonus))
                for segment_ord, of_segment in enumerate(rows)
                if len(of_segment)
            ]
    return _allowed(segments, _summed(found), filter)


def _rows_of(view: SegmentView, groups: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """The live chunks of a segment that contain a term of each group, ascending."""
    lists = []
    for terms in groups:
        present = [postings.rows for term in terms if (postings := view.postings(term)) is not None]
        if not present:
            return np.empty(0, np.int64)
        lists.append(present[0] if len(present) == 1 else reduce(np.union1d, present))
    common = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), sorted(lists, key=len)).astype(np.int64)
    return common if view.live.mask is None else common[view.live.mask[common]]


def _summed(found: Sequence[CodeChunks]) -> CodeChunks:
    """Each chunk once, with the sum of its bonuses."""
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    segment_ords, rows, bonuses = (np.concatenate(column) for column in zip(*found, strict=True))
    keys, inverse = np.unique(segment_ords << 32 | rows, return_inverse=True)
    sums = np.bincount(inverse, bonuses).astype(np.float64)
    return (keys >> 32).astype(np.int64), (keys & 0xFFFFFFFF).astype(np.int64), sums


def _allowed(segments: Sequence[SegmentView], chunks: CodeChunks, filter: Filter | None) -> CodeChunks:
    segment_ords, rows, bonuses = chunks
    if filter is None or not len(rows):
        return chunks
    passes = np.ones(len(rows), np.bool_)
    for segment_ord in np.unique(segment_ords).tolist():
        own, mask = segment_ords == segment_ord, segments[segment_ord].row_mask(filter)
        if mask.mask is not None:
            passes[own] = mask.mask[rows[own]]
    return segment_ords[passes], rows[passes], bonuses[passes]
