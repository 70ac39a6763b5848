"""The words of a query by their terms, as tests compare them."""

from __future__ import annotations

from collections.abc import Sequence

from aidre.engine.index.text import query_terms


def analyze_query(text: str, languages: Sequence[str]) -> dict[tuple[str, ...], float]:
    """The terms of each word, with the number of its occurrences."""
    return {word.terms: word.occurrences for word in query_terms(text, languages)}
