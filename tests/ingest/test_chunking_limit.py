"""The limit of a chunk: sentences that fit apart are counted again together, and cut where they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from aidre.engine.model import Document
from aidre.ingest.chunking import Chunker

TokenCounter = Callable[[Sequence[str]], list[int]]


def longer_than(characters: int, tokens: int) -> TokenCounter:
    """One token, but `tokens` of them for a text of more than so many characters: more than the sum of its parts."""
    return lambda texts: [tokens if len(text) > characters else 1 for text in texts]


def cut(text: str, count: TokenCounter, limit: int = 8, target: int = 4) -> list[tuple[str, int | None]]:
    chunks = Chunker(count, limit, target).chunks(Document("d", text))
    return [(chunk.text, chunk.token_count) for chunk in chunks]


def test_parts_that_have_too_many_tokens_together_are_halved() -> None:
    assert cut("abcd", longer_than(2, 9)) == [("ab", 1), ("cd", 1)]
    assert cut("abcdefgh", longer_than(4, 9)) == [("abcd", 1), ("efgh", 1)]
    assert cut("ab", longer_than(1, 9)) == [("a", 1), ("b", 1)]


def test_parts_that_have_as_many_tokens_as_the_limit_stay_together() -> None:
    assert cut("abcd", longer_than(2, 8)) == [("abcd", 8)]


def test_halves_are_cut_between_words_anywhere_in_a_text() -> None:
    text = "aa bb\n\ncc dd"
    assert [chunk for chunk, _ in cut(text, longer_than(5, 9), target=2)] == ["aa bb", "cc dd"]
    assert [chunk for chunk, _ in cut(text, longer_than(2, 9))] == ["aa", "bb", "cc", "dd"]


def test_one_character_beyond_the_limit_is_a_chunk_wherever_it_stands() -> None:
    def ten_each(texts: Sequence[str]) -> list[int]:
        return [10 * len(text) for text in texts]

    assert cut("abc", ten_each) == [("a", 10), ("b", 10), ("c", 10)]


@pytest.mark.parametrize("size", [199, 200, 201, 202])
def test_no_chunk_exceeds_the_limit_by_the_spaces_between_its_sentences(size: int) -> None:
    first, second = "a" * 100, "b" * (size - 101)
    chunks = cut(f"{first} {second}", lambda texts: [len(text) for text in texts], limit=200, target=200)
    assert chunks == ([(f"{first} {second}", size)] if size <= 200 else [(first, 100), (second, size - 101)])
