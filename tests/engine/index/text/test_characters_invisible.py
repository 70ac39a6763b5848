"""Characters that no reader sees: gone from words, in documents, questions and highlights; joiners stay in texts."""

from __future__ import annotations

import pytest

from aidre.engine.index.text import WordFinder, strip_layout, tokenize
from aidre.engine.index.text.analysis import normalize
from aidre.engine.index.text.highlight import align
from aidre.engine.index.text.inversion import split_tokens, split_words
from tests.support.terms import analyze_query

INVISIBLE = [
    *"\u00ad\u200b\u2060\ufeff\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufe0f\u200c\u200d"
]


def _bulk(text: str) -> list[str]:
    spoken = split_words([split_tokens([text])])
    known = list(spoken.vocabulary)
    return [known[code] for code in spoken.codes]


@pytest.mark.parametrize("character", INVISIBLE, ids=ascii)
def test_words_are_the_same_with_them_and_without(character: str) -> None:
    for word in ("förderung", "résumé", "word", "слово", "पुस्तक", "検索", "서버", "สวัสดี"):
        hidden = character.join(word)
        assert tokenize(hidden) == tokenize(word) == _bulk(f"{character}{hidden}")
        assert analyze_query(hidden, ["en"]) == analyze_query(word, ["en"])
        asked = WordFinder([(terms, 1.0) for terms in analyze_query(word, ["en"])])
        [found] = {(words[0].start, words[-1].end) for words in [asked.find(f"a1 {hidden}, b2", "en")]}
        assert found == (3, 3 + len(hidden))


def test_a_combining_mark_behind_one_joins_its_letter() -> None:
    assert tokenize("cafe\u00ad\u0301") == ["café"]


def test_a_non_joiner_between_arabic_letters_is_a_seam_and_no_gap() -> None:
    assert tokenize("می\u200cخواهم") == ["میخواهم", "می", "خواهم"] == _bulk("می\u200cخواهم")
    assert tokenize("می\u200c خواهم\u200c") == ["می", "خواهم"]


@pytest.mark.parametrize(
    "text", ["a\u00adﬁ\u200bne", "\ufeffﬁ", "e\u00ad\u0301x", "می\u200cخ\u200dx", "x\u200c\u200cy½\u2060"]
)
def test_each_character_of_the_words_knows_its_place(text: str) -> None:
    aligned = align(text)
    assert aligned.text == normalize(text)
    spans = [aligned.span(n, n + 1) for n in range(len(aligned.text))]
    assert spans == sorted(spans) and all(0 <= start < end <= len(text) for start, end in spans)


def test_texts_lose_layout_and_keep_joiners_and_shapes() -> None:
    assert (
        strip_layout("\ufeffa\u00adb\u200bc\u2060d\u202ee\u200f می\u200cخ क्\u200dष ✔\ufe0f")
        == "abcde می\u200cخ क्\u200dष ✔\ufe0f"
    )
