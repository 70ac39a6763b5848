"""Paragraphs of any length: their words stay, and a mark costs no more in a long one than in a short one."""

from __future__ import annotations

import gc

import pytest

from aidre.ingest.formats.markup import rst

docutils = pytest.importorskip("docutils")


def text_of(body: str) -> str:
    return str(rst.parse(body.encode(), {})["text"])


def test_a_long_paragraph_keeps_its_words_and_its_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rst, "MAX_SLICE_CHARACTERS", 50)
    words = " ".join(f"*w{number}* ``c{number}``" for number in range(100))
    assert text_of(words) == words.replace("*", "").replace("``", "")
    unbroken = "x" * 175
    assert text_of(unbroken) == unbroken


def test_slices_end_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rst, "MAX_SLICE_CHARACTERS", 10)
    assert text_of("one two *three* four\nfive") == "one two three four five"


def test_beyond_many_footnotes_they_have_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "a [#]_ b\n\n.. [#] note"
    assert text_of(body).startswith("a [1] b")
    monkeypatch.setattr(rst, "MAX_FOOTNOTES", 0)
    assert text_of(body).startswith("a [] b")


def test_garbage_is_collected_again_afterwards() -> None:
    text_of("a *b*")
    assert gc.isenabled()
