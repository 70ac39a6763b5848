"""Phrases and codes as they are written: what stands in a text."""

from __future__ import annotations

import pytest

from aidre.engine.index.text.words import comparable_text, phrase_pattern


def stands_in(phrase: str, text: str) -> bool:
    pattern = phrase_pattern(phrase)
    return pattern is not None and pattern.search(comparable_text(text)) is not None


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("dog bites man", "Again: DOG bites man!"),
        ("dog bites man", "dog\n  bites, man"),
        ("connection reset by peer", "(connection reset by peer)"),
        ("AB-4711", "part AB-4711."),
        ("AB 4711", "part AB-4711."),
        ("from_bytes", "call from_bytes()"),
        ("ｆｕｌｌ width", "full width"),
        ("cafe\u0301 noir", "café noir"),
        ("苹果手机", "我喜欢苹果手机。"),
        ("iPhone 手机", "新iPhone手机"),
        ("по улице", "Он шёл по улице."),
        ("हिन्दी भाषा", "यह हिन्दी भाषा है"),
        ("to be or not", "To be, or not to be"),
    ],
)
def test_a_phrase_stands_where_its_words_follow_each_other(phrase: str, text: str) -> None:
    assert stands_in(phrase, text)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("dog bites man", "man bites dog"),
        ("dog bites man", "dog bites a man"),
        ("dog bites man", "dog bites mankind"),
        ("bites man", "dogbites man"),
        ("1.0.0.1", "1.0.0.10"),
        ("1.0.0.1", "11.0.0.1"),
        ("café noir", "cafe noir"),
        ("苹果手机", "手机苹果"),
        ("alpha beta", "alpha ......... beta"),
    ],
)
def test_it_does_not_where_they_do_not(phrase: str, text: str) -> None:
    assert not stands_in(phrase, text)


def test_signs_alone_are_no_phrase() -> None:
    assert phrase_pattern("?! …") is None
    assert phrase_pattern("___") is None


def test_a_long_phrase_in_a_long_text_takes_no_long_time() -> None:
    assert not stands_in("a " * 60 + "b", "a " * 2_000)
    assert not stands_in("a-" * 60 + "b", "a" + "-" * 50_000)
