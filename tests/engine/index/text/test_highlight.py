"""The words of a query in a text: as the analyser has them, whole, in places of the text; and its best sentences."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from aidre.engine.index.text import WordFinder, without_headings
from aidre.engine.index.text.analysis import to_term, tokenize
from aidre.engine.index.text.highlight import MAX_HIGHLIGHTED
from tests.support.terms import analyze_query

_PIECES = (
    "restore", "Restoring", "backups", "fromBytes", "from_bytes", "bytes", "the", "café", "cafe\u0301", "ﬁle", "½",
    "単一サインオン", "サイン", "東京都", "京", "สวัสดี", "الكتاب", "كتاب", "Şifre", "sifre", "한국어를", "한국어", "x",
    "_", " ", "\n", ". ", "，", "1234", "A-12/B", "x.y", "😀",
)  # fmt: skip
_texts = st.lists(st.one_of(st.sampled_from(_PIECES), st.just(" "), st.text(max_size=4)), max_size=14).map("".join)


def finder(query: str, *languages: str) -> WordFinder:
    return WordFinder([(terms, 1.0) for terms in analyze_query(query, languages or ("en",))])


def marked(query: str, text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end, _ in finder(query, language).find(text, language)]


@given(_texts, _texts, st.sampled_from(["en", "de", "tr", "ar", "ja", "th", "und"]))
def test_the_words_that_are_found_are_those_that_the_text_is_indexed_by(query: str, text: str, language: str) -> None:
    words = [(terms, 1.0) for terms in analyze_query(query, (language,))]
    spans = WordFinder(words).find(text, language)
    terms = {to_term(word, language) for word in tokenize(text)}
    found = 0
    for start, end, bits in spans:
        inside = {to_term(word, language) for word in tokenize(text[start:end])}
        assert all(inside & set(words[n][0]) for n in range(len(words)) if bits >> n & 1)
        found |= bits
    assert [bool(found >> n & 1) for n in range(len(words))] == [bool(terms & set(word)) for word, _ in words]
    assert all(0 <= start < end <= len(text) for start, end, _ in spans)
    assert all(before.end <= after.start for before, after in itertools.pairwise(spans))


@given(_texts, st.sampled_from(["restore", "bytes café", "サイン 京", "كتاب"]))
def test_every_occurrence_of_a_word_is_marked(text: str, query: str) -> None:
    """What is left of a text without its marked parts has none of the words."""
    spans = finder(query).find(text, "en")
    terms = {term for words in analyze_query(query, ("en",)) for term in words}
    rest, place = [], 0
    for start, end, _ in spans:
        rest.append(text[place:start])
        place = end
    left = "\u3000".join([*rest, text[place:]])
    assert not terms & {to_term(word, "en") for word in tokenize(left)}


@pytest.mark.parametrize(
    ("query", "text", "words"),
    [
        ("restore a backup", "Restoring the Backups.", ["Restoring", "Backups"]),
        ("the", "the cat", []),
        ("bytes", "call fromBytes(x) and to_bytes", ["fromBytes", "to_bytes"]),
        ("cafe", "un café, un cafe\u0301", ["café", "cafe\u0301"]),
        ("file", "a ﬁle here", ["ﬁle"]),
        ("サイン", "単一サインオン", ["サイン"]),
        ("東京 大阪", "東京大阪", ["東京", "大阪"]),
        ("X-100", "model X-100 and X-200", ["X", "100", "X"]),
        ("art", "a party of smart art", ["art"]),
        ("key", "🔑 key", ["key"]),
    ],
)
def test_words_are_marked_whole(query: str, text: str, words: list[str]) -> None:
    assert marked(query, text) == words


def test_a_word_is_stemmed_by_the_language_of_the_text() -> None:
    assert marked("Häuser", "Das Haus, die Häuser", "de") == ["Haus", "Häuser"]
    assert marked("كتاب", "قرأت الكتاب", "ar") == ["الكتاب"]


def test_snippets_are_the_sentences_with_the_words_that_weigh_most() -> None:
    text = "Apples are red. Pears and apples are sweet! A quince\nis rare? No."
    words = WordFinder([(("appl",), 1.0), (("quinc",), 5.0), (("pear",), 1.0)])
    found = words.find(text, "en")

    def shown(count: int) -> list[str]:
        return [text[start:end] for start, end in words.snippets(text, found, count, 100)]

    assert shown(0) == []
    assert shown(1) == ["A quince"]
    assert shown(2) == ["Pears and apples are sweet!", "A quince"]
    assert shown(9) == ["Apples are red.", "Pears and apples are sweet!", "A quince"]
    assert words.snippets("  \n ", [], 1, 10) == []
    assert words.snippets("", [], 1, 10) == []


def test_without_a_word_the_snippet_is_the_first_sentence() -> None:
    text = "  First one. Second one."
    assert [text[slice(*span)] for span in finder("apple").snippets(text, [], 3, 100)] == ["First one."]


def test_a_heading_is_no_snippet_and_its_words_count_for_the_sentence_below_it() -> None:
    words = finder("oxalic acid")

    def shown(text: str, most: int = 100) -> list[str]:
        return [text[slice(*span)] for span in words.snippets(text, words.find(text, "en"), 1, most)]

    assert shown("# Mites\n\n## 2. Oxalic acid\n\nTrickle 30 ml. No acid else.\n") == ["Trickle 30 ml."]
    assert shown("# Mites\n\nCount them. Wait.\n") == ["Count them."]
    assert shown("# Oxalic acid\n\n" + "trickle " * 9, 33) == ["trickle trickle trickle trickle"]
    assert shown("Wait.\n\n## 2. Oxalic acid\n") == ["Wait."]
    assert shown("## 2. Oxalic acid\n") == ["2. Oxalic acid"]
    assert shown("#acid is a tag. Wait.") == ["#acid is a tag."]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("```md\nTrickle acid.\n```", "Trickle acid."),
        ("~~~ sh acid\nacid --trickle\n~~~", "acid --trickle"),
        ("Oxalic acid\n===========\n\nTrickle it.", "Trickle it."),
        ("Oxalic acid\n-----------\nTrickle it.", "Trickle it."),
        ("**Oxalic acid**\n\nTrickle it.", "Trickle it."),
        ("| acid | ml |\n|---|:-:|\n| formic | 30 |", "| formic | 30 |"),
        ("acid | ml\n--- | ---\nformic | 30", "formic | 30"),
        ("Acids\n\nTrickle it.", "Trickle it."),
        ("---\n\n{\n  acid: 3\n}", "acid: 3"),
        ("  ## Oxalic acid\n\n  Trickle it.", "Trickle it."),
        ("Trickle **oxalic acid**\nslowly.", "Trickle **oxalic acid**"),
    ],
)
@pytest.mark.parametrize("query", ["acid", "nothing"])
def test_no_heading_mark_of_code_or_name_of_a_column_is_a_snippet(text: str, shown: str, query: str) -> None:
    words = finder(query)
    [span] = words.snippets(text, words.find(text, "en"), 1, 100, {"Acids"})
    assert text[slice(*span)] == shown
    assert without_headings(text, {"Acids"}).partition("\n")[0].strip() in (shown, "{")


def test_a_text_of_headings_alone_is_itself() -> None:
    assert without_headings("# Acids\n\n## Oxalic") == "# Acids\n\n## Oxalic"
    assert without_headings("Trickle it.\n\n# Acids\n\nAnd wait.") == "Trickle it.\n\n\nAnd wait."


@given(st.text(alphabet="ab c.\n#|-`*", max_size=200), st.integers(1, 60), st.integers(0, 4))
def test_a_snippet_is_never_longer_than_asked_and_lies_in_the_text(text: str, most: int, count: int) -> None:
    words = finder("ab")
    spans = words.snippets(text, words.find(text, "en"), count, most)
    assert len(spans) <= count
    assert spans == sorted(set(spans))
    assert all(0 <= start < end <= len(text) and end - start <= most for start, end in spans)


def test_a_long_sentence_is_cut_around_its_words() -> None:
    text = "filler " * 100 + "restore the backup " + "filler " * 100
    words = finder("restore backup")
    [(start, end)] = words.snippets(text, words.find(text, "en"), 1, 60)
    assert "restore the backup" in text[start:end]
    assert text[start - 1].isspace()
    assert text[end].isspace()
    assert end - start <= 60


@pytest.mark.parametrize("piece", ["word ", "漢字", "a", "ﬁ", "한", "e\u0301"])
def test_words_are_looked_for_in_a_bounded_part_of_a_text(piece: str) -> None:
    text = "word " + piece * (3 * MAX_HIGHLIGHTED // len(piece)) + " word"
    found = finder("word").find(text, "en")
    assert found[0][:2] == (0, 4)
    assert found[-1].end <= MAX_HIGHLIGHTED
    assert finder("word").snippets(text, found, 1, 50)[0][1] <= 50
