"""The words of a question that say what it is about."""

from __future__ import annotations

import pytest

from aidre.engine.retrieve.relevance import MAX_TEXT_CHARS, content_words, word_count


def test_words_that_say_nothing_are_left_out() -> None:
    assert content_words("I need something for dinner with 2 eggs") == ["dinner", "2", "eggs"]


def test_stop_words_of_the_language_are_left_out_beside_the_english_ones() -> None:
    assert content_words("the soup und die Nudeln", "de-AT") == ["soup", "Nudeln"]
    assert content_words("the soup und Nudeln", "tlh") == ["soup", "und", "Nudeln"]


@pytest.mark.parametrize(("text", "count"), [("", 0), ("the of", 0), ("tomato soup", 2), ("番茄汤谱", 2), ("汤", 0)])
def test_two_characters_of_an_unspaced_script_count_as_one_word(text: str, count: float) -> None:
    assert word_count(text) == count


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    assert len(content_words("soup " * MAX_TEXT_CHARS)) == MAX_TEXT_CHARS / len("soup ")
