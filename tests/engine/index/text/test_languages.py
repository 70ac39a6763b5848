"""Languages: recognised by their small words, or declared; each with a stemmer and stop words."""

from __future__ import annotations

import pytest

from aidre.engine.index.text.analysis import to_term, tokenize
from aidre.engine.index.text.languages import (
    LANGUAGES,
    UNKNOWN,
    declared_language,
    language_of_word,
    language_tag,
    load_stop_words,
)
from aidre.engine.index.text.postings import LexicalText, Lexicon, build_lexicon
from tests.support.terms import analyze_query


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Hund und die Katze sind nicht in dem Haus", "de"),
        ("Le chien et le chat ne sont pas dans la maison", "fr"),
        ("Собака и кошка не были в этом доме", "ru"),
        ("Numbers 1 2 3", "en"),
        ("dog food, dog toys, dog beds and more for over a dog", "en"),
        ("the war in the East and men of the army", "en"),
        ("", "en"),
    ],
)
def test_a_language_is_recognised_by_its_small_words(text: str, language: str) -> None:
    assert Lexicon(build_lexicon([LexicalText(text)])).tags == (language,)


def test_a_declared_language_is_believed() -> None:
    assert Lexicon(build_lexicon([LexicalText("the houses and the rivers", "fr")])).tags == ("fr",)
    lexicon = Lexicon(build_lexicon([LexicalText("kirjastot", "fi")]))
    assert any(lexicon.postings(term) for terms in analyze_query("kirjasto", lexicon.tags) for term in terms)


@pytest.mark.parametrize(
    ("declared", "tag"),
    [("de-AT", "de"), ("German", "de"), ("EN_us", "en"), ("nb", "no"), ("zh-Hant", "zh"), ("xh", UNKNOWN), ("", None),
     ("x1", None), (7, None), (["fr", "en"], "fr"), ({"@type": "Language", "name": "Spanish"}, "es"), ([], None)],
)  # fmt: skip
def test_declared_languages_are_read(declared: object, tag: str | None) -> None:
    assert language_tag(declared) == tag


def test_metadata_declare_a_language_before_the_object_does() -> None:
    assert declared_language({"lang": "de"}, {"inLanguage": "fr"}) == "de"
    assert declared_language({"language": 7}, {"inLanguage": "fr"}) == "fr"
    assert declared_language(None, None) is None


def test_every_language_has_a_stemmer_or_none_and_its_stop_words_are_words_of_documents() -> None:
    for tag, language in LANGUAGES.items():
        assert to_term("x1y2", tag) is not None
        for word in language.stop_words:
            assert tokenize(word) == [word]
            assert to_term(word, tag) is None
    assert set(load_stop_words()) <= set(LANGUAGES)


@pytest.mark.parametrize(
    ("word", "tag", "expected"),
    [
        ("حزمة", "en", "ar"), ("حزمة", "fa", "fa"), ("packages", "ar", "en"), ("packages", "zh", "en"),
        ("packages", "fr", "fr"), ("paketi", "sr", "sr"), ("пакети", "sr", "sr"), ("пакеты", "de", "ru"),
        ("ᚠᚢᚦ", "en", None), ("пакеты", UNKNOWN, None), ("検索", "en", "zh"),
    ],
)  # fmt: skip
def test_a_word_in_another_script_is_of_the_first_language_of_that_script(
    word: str, tag: str, expected: str | None
) -> None:
    language = language_of_word(word, tag)
    assert (None if language is None else language.tag) == expected
