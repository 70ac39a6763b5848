"""Words with accents and without: each finds the other, in the languages whose stemmers read accents, too."""

from __future__ import annotations

import pytest

from aidre.engine.index.text import WordFinder, query_terms
from aidre.engine.index.text.characters import fold
from aidre.engine.index.text.languages import unify_vietnamese
from aidre.engine.index.text.postings import LexicalText, Lexicon, build_lexicon

WORDS = {
    "en": "résumé fiancé cliché soufflé Beyoncé café naïve façade jalapeño Brontë Zoë rosé pâté sauté protégé exposé "
    "coöperation Æsop smørrebrød Łódź décor entrée matinée fête crêpe touché déjà purée señor piñata El_Niño",
    "fr": "élève forêt garçon cœur œuvre sœur naïveté déjeuner théâtre événement hôtel français",
    "de": "Häuser München Straße schön Öl größer Übung Äpfel Fußgänger süß",
    "es": "canción mañana niño corazón información teléfono pingüino árboles lección",
    "pl": "Łódź żółć źródło książka ścieżka Wałęsa pieniądze gęś zażółć łąka",
    "da": "smørrebrød københavn æble rødgrød Ærø",
    "sv": "smörgås Göteborg ärlig räksmörgås företag",
    "no": "blåbær Tromsø lærer kjøleskap ørken",
    "tr": "Diyarbakır ışık kapı çocuklar İstanbul kadının",
    "hr": "Đakovo čovjek škola Živković đak",
    "cs": "příliš žluťoučký kůň Dvořák účet",
    "vi": "Đà Nẵng đường người Việt phở trường",
    "ro": "București țară înțelege ştiinţă mâine",
    "hu": "könyvtár házakból őszi tűz kérdések",
    "is": "Þórður Ísland æði öxi",
}


def _found(lexicon: Lexicon, word: str) -> bool:
    return all(
        any(lexicon.postings(term) is not None for term in asked.terms) for asked in query_terms(word, lexicon.tags)
    )


@pytest.mark.parametrize("language", WORDS)
def test_plain_words_find_words_with_accents_and_the_other_way_round(language: str) -> None:
    for word in WORDS[language].split():
        plain = fold(word.lower())
        for written, asked in ((word, plain), (plain, word), (word.upper(), plain), (plain.upper(), word)):
            lexicon = Lexicon(build_lexicon([LexicalText(f"1 {written} 2", language)]))
            assert query_terms(asked, lexicon.tags)
            assert _found(lexicon, asked), (written, asked)


@pytest.mark.parametrize("language", WORDS)
def test_a_plain_spelling_is_marked_in_a_text(language: str) -> None:
    for word in WORDS[language].split():
        asked = query_terms(fold(word.lower()), (language,))
        found = WordFinder([(one.terms, 1.0) for one in asked]).find(f"1 {word} 2", language)
        assert [(start, end) for start, end, _ in found] == [(2, 2 + len(word))]


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("łódź", "lodz"), ("smørrebrød", "smorrebrod"), ("đà", "da"), ("ısı", "isi"), ("æsop", "aesop"),
        ("œuvre", "oeuvre"),
        ("þórður", "thordur"), ("straße", "strasse"), ("ħaġra", "hagra"), ("ŧŋ", "tn"), ("ɓƙ", "bk"),
        ("hawaiʻi", "hawaii"),
        ("i̇stanbul", "istanbul"), ("ǿ", "o"), ("हिन्दी", "हिन्दी"), ("йод", "йод"), ("ελλάς", "ελλάς"),
    ],
)  # fmt: skip
def test_letters_have_a_plain_spelling_where_they_are_latin(word: str, plain: str) -> None:
    assert fold(word) == plain


def test_a_word_with_accents_keeps_its_forms() -> None:
    """The plain spelling of a suffix is none that the stemmer knows."""
    for written, asked in (("házakból", "ház"), ("żółtych", "żółty"), ("canciones", "canción")):
        tag = {"h": "hu", "ż": "pl", "c": "es"}[written[0]]
        assert _found(Lexicon(build_lexicon([LexicalText(written, tag)])), asked)


def test_a_word_counts_once_in_a_chunk_and_its_plain_spelling_is_no_part_of_the_length() -> None:
    lexicon = Lexicon(build_lexicon([LexicalText("házakból", "hu"), LexicalText("résumé", "en")]))
    assert lexicon.lengths.tolist() == [1, 1]
    for word in ("házakból", "hazakbol", "résumé"):
        terms = [term for one in query_terms(word, ("hu",)) for term in one.terms]
        assert sum(lexicon.postings(term) is not None for term in set(terms)) <= 1


def test_vietnamese_words_that_differ_in_tone_are_different_and_two_spellings_are_one() -> None:
    assert unify_vietnamese("hòa") == unify_vietnamese("hoà") != unify_vietnamese("hóa")
    lexicon = Lexicon(build_lexicon([LexicalText("phở hòa", "vi")]))
    assert _found(lexicon, "hoà") and _found(lexicon, "hoa") and not _found(lexicon, "hóa")


@pytest.mark.parametrize("sign", ["\u02bb", "\u02bc", "\u02be", "\u02bf"])
def test_a_sign_between_letters_is_no_letter_and_alone_it_is_itself(sign: str) -> None:
    assert fold(f"hawai{sign}i") == "hawaii"
    for text in (sign, f"{sign} {sign}", f"%%s{sign}"):
        assert all(all(asked.terms) for asked in query_terms(text, ("en",)))
