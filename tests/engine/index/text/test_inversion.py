"""Words of many texts at once: the same as those of one text after the other."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from aidre.engine.index.text.analysis import MAX_TERM_CHARACTERS, to_term, to_terms, tokenize
from aidre.engine.index.text.inversion import split_tokens, split_words
from aidre.engine.index.text.languages import LANGUAGES

_PIECES = (
    "plain", "Straße", "CAFÉ", "İstanbul", "ΟΔΟΣ", "ǅ", "fromBytes", "from_bytes", "__init__", "HTTPServer", "_", "CO2",
    "東京タワー", "検索Phone手機", "안녕하세요", "สวัสดี", "हिन्दी", "ａｂｃ", "ﬁne", "Ⅷ", "e\u0301", "a\u0301\u0323",
    "\ud800", "\0", "\n", "\u2028", "'", ".", "🙂", " ", "x" * (MAX_TERM_CHARACTERS + 1),
)  # fmt: skip
_texts = st.lists(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=5)), max_size=10).map("".join))


@pytest.mark.slow
@example([["สวัสดี.A", "हिन्दी.A", "e\u0301.A"]])
@given(st.lists(_texts, min_size=1, max_size=3))
def test_many_texts_have_the_words_of_each(blocks: list[list[str]]) -> None:
    spoken = split_words([split_tokens(texts) for texts in blocks])
    known = list(spoken.vocabulary)
    said = [tokenize(text) for texts in blocks for text in texts]
    assert [known[code] for code in spoken.codes] == [word for each in said for word in each]
    assert spoken.counts.tolist() == [len(each) for each in said]
    assert list(spoken.vocabulary.values()) == list(range(len(known)))


@pytest.mark.slow
@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(min_size=1))), st.sampled_from([*LANGUAGES, "und"]))
def test_many_words_have_the_terms_of_each(said: list[str], language: str) -> None:
    given_words = [word for text in said for word in tokenize(text)] + sorted(LANGUAGES["fr"].stop_words)
    assert to_terms(given_words, language) == [to_term(word, language) for word in given_words]
