"""Phrases that the kernel looks for in texts as they are stored: decided as their patterns do, or left undecided."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.index.text import comparable_text, phrase_pattern, plain_phrase, plain_text
from tests.support.native import kernel

pytestmark = pytest.mark.skipif(kernel is None, reason="the C kernel was not built here")

ABSENT, UNDECIDED, STANDS = 0, 1, 2
CHARACTERS = [chr(point) for point in range(0x20000) if not 0xD800 <= point < 0xE000]
PHRASES = ["ab", "ab.cd", "a.b", "1.0", "foo_bar.a", "2024-03-05", "a a b", "_ab.cd", "AB-17", "b", "ab_"]


def _texts(texts: Sequence[bytes], batch_rows: int = 1 << 16) -> kernel.Texts:
    starts = range(0, len(texts), batch_rows)
    parts = [texts[start : start + batch_rows] for start in starts]
    return kernel.Texts([(np.cumsum([0, *map(len, part)]), b"".join(part)) for part in parts], batch_rows)


def _found(texts: Sequence[str | bytes], phrase: str, batch_rows: int = 1 << 16) -> NDArray[np.uint8]:
    words = plain_phrase(phrase)
    assert words is not None
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    found = np.zeros(len(texts), np.uint8)
    _texts(encoded, batch_rows).find(np.arange(len(texts)), words, found)
    return found


def _matches(text: str, phrase: str) -> bool:
    pattern = phrase_pattern(phrase)
    return pattern is not None and pattern.search(comparable_text(text)) is not None


def _drawn(count: int) -> Iterator[str]:
    """Short texts of the phrases' words and of characters that normalizing changes, joins, drops or leaves."""
    words = ["ab", "cd", "AB", "a", "b", "foo_bar", "1", "0", "2024", "03", "05", "17", "_", "q"]
    signs = [".", "-", " ", "_", "/", "\n" * 8, "\n" * 9, "\0", "<", "\x7f", "…", "“", "”", "—", "‗", "\xa0", "·"]
    others = [
        "é",
        "ａ",
        "①",
        "ſ",
        "\u212a",
        "İ",
        "\u0301",
        "\u200b",
        "\xad",
        "手",
        "ไ",
        "ق",
        "😀",
        "ª",
        "½",
        "ﬁ",
        "𝐚",
        "✓",
    ]
    chooser = random.Random(7)
    for _ in range(count):
        kinds = chooser.choices((words, signs, others), (5, 5, chooser.choice((0, 0, 1))), k=chooser.randrange(1, 40))
        yield "".join(map(chooser.choice, kinds))


@pytest.mark.slow
def test_what_is_decided_is_what_the_pattern_says() -> None:
    texts = list(_drawn(2_000))
    for phrase in PHRASES:
        found = _found(texts, phrase).tolist()
        for text, verdict in zip(texts, found, strict=True):
            assert verdict == UNDECIDED or (verdict == STANDS) == _matches(text, phrase), (phrase, text)
        ascii_only = [verdict for text, verdict in zip(texts, found, strict=True) if text.isascii()]
        assert set(ascii_only) <= {ABSENT, STANDS}
        assert found.count(UNDECIDED) > 10


@pytest.mark.slow
def test_in_plain_texts_all_is_decided_as_the_pattern_does() -> None:
    texts = list(_drawn(1_000))
    for phrase in PHRASES:
        words = plain_phrase(phrase)
        assert words is not None
        found = _found([plain_text(text, words) for text in texts], phrase).tolist()
        assert [verdict == STANDS for verdict in found] == [_matches(text, phrase) for text in texts]
        assert UNDECIDED not in found


@pytest.mark.slow
def test_no_character_makes_a_phrase_that_the_kernel_says_is_absent() -> None:
    for text, verdict in zip(CHARACTERS, _found([f"({one})" for one in CHARACTERS], "zz").tolist(), strict=True):
        normal = comparable_text(f"({text})")[1:-1]
        is_foreign = bool(normal) and not any(one.isascii() and (one.isalnum() or one == "_") for one in normal)
        assert text.isascii() or verdict == UNDECIDED or is_foreign, hex(ord(text))
    for text in ("{}ab.cd", "ab.cd{}", "ab{}cd", "ab.{}cd", "ab{}.cd"):
        texts = [text.format(one) for one in CHARACTERS]
        for whole, verdict in zip(texts, _found(texts, "ab.cd").tolist(), strict=True):
            assert verdict == UNDECIDED or (verdict == STANDS) == _matches(whole, "ab.cd"), ascii(whole)


def test_quotation_marks_and_dashes_beside_a_phrase_leave_it_decided() -> None:
    assert _found(["“ab.cd”", "—ab.cd…", "é ab.cd ü", "日本 (ab.cd) 語"], "ab.cd").tolist() == [STANDS] * 4
    assert _found(["“ab.ce”", "naïve", "日本語", "😀"], "ab.cd").tolist() == [ABSENT] * 4


@pytest.mark.parametrize("before", range(0, 140, 9))
def test_a_phrase_is_found_wherever_it_stands_in_a_long_text(before: int) -> None:
    for length in (1, 2, 5, 6, 70):
        word = "a" * (length - 1) + "z"
        texts = ["." * before + word + "." * behind for behind in (0, 1, 63, 64, 65, 200)]
        assert set(_found(texts, word).tolist()) == {STANDS}
        assert set(_found([text.replace("z", "y") for text in texts], word).tolist()) == {ABSENT}


def test_rows_are_found_in_their_batches_and_verdicts_only_rise() -> None:
    texts, found = _texts([b"ab", b"cd", "\ufeff".encode(), b"ab cd", b""], 2), np.zeros(5, np.uint8)
    texts.find(np.array([4, 3, 2, 1, 0]), b"ab", found)
    assert found.tolist() == [ABSENT, STANDS, UNDECIDED, ABSENT, STANDS]
    texts.find(np.array([0, 1, 1, 2, 4]), b"ab", found)
    assert found.tolist() == [STANDS, STANDS, UNDECIDED, UNDECIDED, STANDS]
    texts.find(np.array([-1, 5, 6, 1 << 40, -(1 << 63)]), b"ab", found := np.zeros(5, np.uint8))
    assert found.tolist() == [UNDECIDED] * 5


@pytest.mark.parametrize("offsets", [[-1, 5, 10], [5, 0, 3], [0, 1 << 62, 1 << 61], [11, 12, 1_000]])
def test_damaged_offsets_leave_a_row_undecided(offsets: list[int]) -> None:
    found = np.zeros(2, np.uint8)
    kernel.Texts([(np.array(offsets, np.int64), b"0123456789")], 2).find(np.arange(2), b"zz", found)
    assert UNDECIDED in found.tolist()


@pytest.mark.parametrize(
    ("rows", "phrase", "found"),
    [
        (np.arange(2, dtype=np.int32), b"a", np.zeros(2, np.uint8)),
        (np.arange(2), b"a", np.zeros(3, np.uint8)),
        (np.arange(2), "a", np.zeros(2, np.uint8)),
        (np.arange(2), b"a", b"\0\0"),
    ],
)
def test_what_cannot_be_looked_into_is_refused(rows: Any, phrase: Any, found: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        _texts([b"a", b"b"]).find(rows, phrase, found)


def test_columns_without_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="no rows"):
        kernel.Texts([], 0)
    with pytest.raises((ValueError, TypeError)):
        kernel.Texts([(np.zeros(2, np.int32), b"")], 1)


@pytest.mark.parametrize("phrase", ["café noir", "手机", "a _b", "?!", f"{string.ascii_lowercase}.{string.digits}"])
def test_some_phrases_are_no_plain_ones(phrase: str) -> None:
    assert plain_phrase(phrase) is None
