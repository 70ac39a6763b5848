"""The words of a segment: which are listed and counted, and the dictionary of deletes against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.index.text import words as module
from aidre.engine.index.text.analysis import MAX_PLAIN_CHARACTERS, is_plain, tokenize
from aidre.engine.index.text.postings import LexicalText, build_lexicon
from aidre.engine.index.text.stop_words import capitals
from aidre.engine.index.text.words import (
    WordCounts,
    Words,
    hash_of,
    hashes_of_one,
    hashes_of_two,
    is_one_edit,
    is_two_edits,
)

_few_letters = st.text("abc", min_size=3, max_size=6)


def words_of(*texts: str) -> Words:
    counts = WordCounts()
    counts.add_texts(texts)
    return Words(counts.to_batch())


def listed(words: Words) -> dict[str, int]:
    return dict(zip(words.words.texts(), words.frequencies.tolist(), strict=True))


def distance(word: str, other: str) -> int:
    """Optimal string alignment: letters inserted, left out, replaced, or swapped with a neighbour."""
    rows = [list(range(len(other) + 1))]
    for i, mine in enumerate(word, 1):
        row = [i]
        for j, its in enumerate(other, 1):
            best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (mine != its))
            if i > 1 and j > 1 and mine == other[j - 2] and word[i - 2] == its:
                best = min(best, rows[i - 2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def test_plain_words_are_counted_and_no_others() -> None:
    words = words_of(
        "The cat, the CAT and fromBytes; A1B2 x 42 no", "Café über 東京の塔 ภาษาไทย snake_case " + "x" * 25
    )
    assert listed(words) == {
        "the": 2, "cat": 2, "and": 1, "from": 1, "bytes": 1, "frombytes": 1, "café": 1, "über": 1, "snake": 1,
        "case": 1, "snakecase": 1,
    }  # fmt: skip
    assert list(words.words.texts()) == sorted(listed(words))
    assert (words.frequency("cat"), words.frequency("dog"), words.frequency("\ud800")) == (2, 0, 0)


@pytest.mark.parametrize(
    "word", ["", "ab", "x" * (MAX_PLAIN_CHARACTERS + 1), "a1b2", "don't", "한국어", "नमस्ते", "\ud800ab"]
)
def test_what_is_no_plain_word_is_not_listed(word: str) -> None:
    assert not is_plain(word)


@given(st.lists(st.text(max_size=60), max_size=5))
@settings(max_examples=60)
def test_the_lexicon_counts_the_words_that_tokenizing_gives(texts: list[str]) -> None:
    expected: dict[str, int] = {}
    for word in (word for text in texts for word in tokenize(text) if is_plain(word) and word not in capitals()):
        expected[word] = expected.get(word, 0) + 1
    counts = WordCounts()
    build_lexicon(map(LexicalText, texts), counts)
    assert listed(Words(counts.to_batch())) == listed(words_of(*texts)) == expected


@given(st.lists(st.lists(_few_letters, max_size=8), max_size=5), st.data())
@settings(max_examples=60)
def test_parts_are_added_and_taken_away_as_if_counted_together(parts: list[list[str]], data: st.DataObject) -> None:
    dropped = [data.draw(st.booleans()) for _ in parts]
    counts = WordCounts()
    for part, is_dropped in zip(parts, dropped, strict=True):
        texts = [" ".join(part)]
        counts.add_words(words_of(*texts))
        if is_dropped:
            other = WordCounts()
            other.add_texts(texts)
            counts.subtract(other)
    left = [" ".join(part) for part, is_dropped in zip(parts, dropped, strict=True) if not is_dropped]
    assert counts.to_batch().equals(_batch(left), check_metadata=True)


def _batch(texts: list[str]) -> object:
    counts = WordCounts()
    counts.add_texts(texts)
    return counts.to_batch()


def test_long_texts_and_many_of_them_are_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"alpha beta{'x' * (n % 3)} gamma" for n in range(50)]
    whole = listed(words_of(*texts))
    monkeypatch.setattr(module, "_SLICE_CHARACTERS", 20)
    monkeypatch.setattr(module, "_MAX_PARTS", 3)
    assert listed(words_of(*texts)) == listed(words_of(" ".join(texts))) == whole


@given(st.sets(_few_letters, max_size=40), _few_letters)
@settings(max_examples=200)
def test_the_words_that_differ_by_one_letter_are_found(vocabulary: set[str], word: str) -> None:
    found = words_of(*vocabulary).near(word, hashes_of_one(word), 1_000)
    assert {one for one, _ in found} == {one for one in vocabulary if distance(word, one) == 1}


@given(st.lists(_few_letters, max_size=40), st.text("abc", min_size=4, max_size=7))
@settings(max_examples=200)
def test_the_words_two_letters_away_are_those_of_brute_force(vocabulary: list[str], word: str) -> None:
    words = words_of("abc", *vocabulary)  # with all letters, of which the missing ones are made
    found = {one for one, _ in words.near_two(word, hashes_of_two(word, words.letters), 1_000)}
    assert found == {one for one in listed(words) if distance(word, one) == 2}


@given(_few_letters, _few_letters)
@settings(max_examples=300)
def test_two_edits_are_a_distance_of_two(word: str, other: str) -> None:
    assert is_two_edits(word, other) is (distance(word, other) == 2)


@given(st.text(max_size=MAX_PLAIN_CHARACTERS))
def test_the_hash_of_a_word_is_the_first_of_it_and_its_deletes(word: str) -> None:
    assert [hash_of(word)] == hashes_of_one(word).tolist()[:1]


def test_words_that_may_be_listed_are_all_that_are() -> None:
    words = words_of("alpha beta")
    hashes = np.array([hash_of(word) for word in ("alpha", "gamma", "beta")], np.uint32)
    assert words.may_list(hashes).tolist() == [True, False, True]


def test_the_letters_of_the_words_are_known_without_the_rarest() -> None:
    words = words_of(*(f"{first}{second}te" for first in "abcdefgh" for second in "aeiou" for _ in "x"), "straße")
    assert set("abcdefghiout") <= set(map(chr, words.letters.tolist()))
    assert "ß" in map(chr, words_of("straße").letters.tolist())
    many = words_of(" ".join(f"word{a}{b}{c}" for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"), "øre")
    assert "ø" not in map(chr, many.letters.tolist())


@given(_few_letters, _few_letters)
@settings(max_examples=300)
def test_one_edit_is_a_distance_of_one(word: str, other: str) -> None:
    if word != other:
        assert is_one_edit(word, other) is is_one_edit(other, word) is (distance(word, other) == 1)


@given(st.text(min_size=1, max_size=MAX_PLAIN_CHARACTERS))
@settings(max_examples=100)
def test_the_hash_of_a_delete_is_that_of_the_word_it_leaves(word: str) -> None:
    hashes = hashes_of_one(word).tolist()
    assert hashes == module._hashes(module._points([word], len(word)))[0].tolist()
    assert hashes[1:] == [hash_of(left) if (left := word[:i] + word[i + 1 :]) else 0 for i in range(len(word))]


def test_words_that_only_share_a_hash_are_not_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_mixed", lambda _: 7)
    monkeypatch.setattr(module, "_hashes", lambda points: np.full((len(points), points.shape[1] + 1), 7, np.uint32))
    assert [*words_of("alpha gamma delta").near("alpah", hashes_of_one("alpah"), 10)] == [("alpha", 1)]


def test_of_too_many_words_the_most_frequent_are_compared() -> None:
    words = words_of("aaa abb " + "aab " * 3, "aac " * 2)
    assert set(words.near("aad", hashes_of_one("aad"), 2)) == {("aab", 3), ("aac", 2)}


def test_the_most_frequent_words_with_a_prefix_and_the_frequency_of_the_rest() -> None:
    words = words_of("bat " * 4 + "bar " * 3 + "bad " * 2 + "base cat \u00e9t\u00e9")
    found, left_out = words.starting("ba", 2)
    assert (sorted(found), left_out) == ([("bar", 3), ("bat", 4)], 2)
    found, left_out = words.starting("ba", 4)
    assert (len(found), left_out) == (4, 0)
    assert words.starting("\u00e9", 5) == ([("\u00e9t\u00e9", 1)], 0)
    assert words.starting("zz", 5) == ([], 0)


def test_a_file_of_another_version_is_refused() -> None:
    batch = _batch(["alpha"])
    with pytest.raises(ValueError, match="another version; compact"):
        Words(batch.replace_schema_metadata({b"version": b"0"}))  # type: ignore[attr-defined]


def test_no_text_gives_no_word() -> None:
    words = words_of()
    assert (listed(words), words.starting("a", 5)) == ({}, ([], 0))
    assert [*words.near("alpha", hashes_of_one("alpha"), 5)] == []
    assert [*words.near_two("alpha", hashes_of_two("alpha", words.letters), 5)] == []
    assert words.may_list(hashes_of_one("alpha")).tolist() == [False] * 6


def test_an_entry_takes_a_bounded_number_of_bytes() -> None:
    longest = words_of("x" * MAX_PLAIN_CHARACTERS, "".join(chr(0x10400 + n) for n in range(MAX_PLAIN_CHARACTERS)))
    sizes = [column.nbytes for column in _batch(["x"]).columns]  # type: ignore[attr-defined]
    assert len(longest._hashes) <= 2 * (MAX_PLAIN_CHARACTERS + 1)
    assert sum(sizes) < 200
