"""The chunks of a segment that have phrases as they are written, and lack words: what quotes and `-word` of a question
ask for.

The lexicon gives the chunks that contain all terms of a phrase, and their texts decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Wording
from aidre.engine.index.text import analyze_query, comparable_text, phrase_pattern
from aidre.engine.segment.stored_chunk import StoredChunk

if TYPE_CHECKING:
    from aidre.engine.segment.view import SegmentView

Terms = Sequence[tuple[str, ...]]
"""The words of a query, each as its terms in the languages of a collection."""


def narrow(view: SegmentView, wording: Wording, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows among the allowed ones that have the wording, as a mask."""
    languages = tuple(view.languages)
    for word in wording.excluded:
        groups = list(analyze_query(word, languages))
        if groups:
            allowed = allowed.copy()
            allowed[rows_with(view, groups)] = False
    for phrase in wording.phrases:
        groups = list(analyze_query(phrase, languages))
        rows = rows_with(view, groups) if groups else np.arange(len(allowed))
        found = rows_containing(view, rows[allowed[rows]], (phrase,))
        allowed = np.zeros(len(allowed), np.bool_)
        allowed[found] = True
    return allowed


def rows_with(view: SegmentView, groups: Terms) -> NDArray[np.int64]:
    """The chunks that contain a term of each group, ascending, deleted ones included."""
    lists = []
    for terms in groups:
        present = [postings.rows for term in terms if (postings := view.postings(term)) is not None]
        if not present:
            return np.empty(0, np.int64)
        lists.append(present[0] if len(present) == 1 else reduce(np.union1d, present))
    return reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), sorted(lists, key=len)).astype(np.int64)


def rows_containing(view: SegmentView, rows: NDArray[np.int64], phrases: Iterable[str]) -> NDArray[np.int64]:
    """Those of the rows whose title, section or text has all of the phrases."""
    patterns = [pattern for phrase in phrases if (pattern := phrase_pattern(phrase)) is not None]
    found = [row for row in rows.tolist() if _contains(StoredChunk(view.segment, row), patterns)]
    return np.array(found, np.int64)


def _contains(chunk: StoredChunk, patterns: Sequence[re.Pattern[str]]) -> bool:
    text = comparable_text(chunk.text)
    return all(
        pattern.search(text) is not None
        or any(pattern.search(comparable_text(heading)) for heading in (chunk.title, chunk.section) if heading)
        for pattern in patterns
    )
