"""Alignment: the normalised text is that of the analyser, and each of its characters knows where it comes from."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, strategies as st

from aidre.engine.index.text.analysis import normalize
from aidre.engine.index.text.highlight import align

_PIECES = (
    "ﬁ",
    "½",
    "①",
    "e\u0301",
    "\u0301",
    "ｶﾞ",
    "한",
    "\u1112\u1161\u11ab",
    "，",
    "漢",
    "…",
    "\u09c7\u09be",
    " ",
    "a",
)


@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=4))).map("".join))
@example("ᄒ" + "\u1161\u11ab")
@example("a\u0323\u0307")
def test_the_text_is_the_normalised_one_and_parts_of_it_come_from_the_parts_that_they_are_the_form_of(
    text: str,
) -> None:
    aligned = align(text)
    assert aligned.text == normalize(text)
    spans = [aligned.span(n, n + 1) for n in range(len(aligned.text))]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert spans == sorted(spans)
    for start, end in set(spans):
        inside = [n for n, span in enumerate(spans) if span == (start, end)]
        form = aligned.text[inside[0] : inside[-1] + 1]
        assert unicodedata.normalize("NFKC", text[start:end]) == form


def test_every_character_that_composes_with_the_one_before_it_stays_with_it() -> None:
    for point in (*range(0xD800), *range(0xE000, 0x32000)):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            text = "".join(chr(int(part, 16)) for part in parts)
            aligned = align(f"½{text}x")
            assert aligned.text == normalize(f"½{text}x")
            assert aligned.span(len(aligned.text) - 1, len(aligned.text)) == (len(text) + 1, len(text) + 2)


@pytest.mark.parametrize(("text", "part", "span"), [("ﬁne café", "café", (4, 8)), ("½ apple", "apple", (2, 7))])
def test_a_word_after_a_character_that_grows_is_found_in_its_place(text: str, part: str, span: tuple[int, int]) -> None:
    aligned = align(text)
    start = aligned.text.index(part)
    assert aligned.span(start, start + len(part)) == span
