"""Words of many texts at once: the same as those of one text after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aidre.engine.analysis import LONGEST, term, terms, words
from aidre.engine.languages import LANGUAGES
from aidre.engine.vocabulary import read_tokens, read_words

_PIECES = (
    "plain", "Straße", "CAFÉ", "İstanbul", "ΟΔΟΣ", "ǅ", "fromBytes", "from_bytes", "__init__", "HTTPServer", "_", "CO2",
    "東京タワー", "検索Phone手機", "안녕하세요", "สวัสดี", "हिन्दी", "ａｂｃ", "ﬁne", "Ⅷ", "e\u0301", "a\u0301\u0323",
    "\ud800", "\0", "\n", "\u2028", "'", ".", "🙂", " ", "x" * (LONGEST + 1),
)  # fmt: skip
_texts = st.lists(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=5)), max_size=10).map("".join))


@given(st.lists(_texts, min_size=1, max_size=3))
def test_many_texts_have_the_words_of_each(blocks: list[list[str]]) -> None:
    spoken = read_words([read_tokens(texts) for texts in blocks])
    known = list(spoken.places)
    said = [words(text) for texts in blocks for text in texts]
    assert [known[code] for code in spoken.codes] == [word for each in said for word in each]
    assert spoken.counts.tolist() == [len(each) for each in said]
    assert list(spoken.places.values()) == list(range(len(known)))


@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(min_size=1))), st.sampled_from([*LANGUAGES, "und"]))
def test_many_words_have_the_terms_of_each(said: list[str], language: str) -> None:
    given_words = [word for text in said for word in words(text)] + sorted(LANGUAGES["fr"].stop_words)
    assert terms(given_words, language) == [term(word, language) for word in given_words]
