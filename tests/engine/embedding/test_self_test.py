"""Languages of a tokenizer, by frequent words that fall apart when they are spelled backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, reads_language
from aidre.engine.embedding.self_test import known_languages, with_languages
from aidre.engine.index.text import LANGUAGES
from aidre.engine.model import EmbeddingSpace

MODEL = EmbeddingSpace("other", 8, "cosine", model="/models/other")
Count = Callable[[Sequence[str]], list[int]]


def _tokens(vocabulary: frozenset[str]) -> Count:
    return lambda texts: [1 if text in vocabulary else len(text) for text in texts]


def _words_of(tag: str) -> frozenset[str]:
    asked: list[str] = []

    def note(texts: Sequence[str]) -> list[int]:
        asked.extend(texts)
        return [1] * len(texts)

    known_languages(note)
    return frozenset(word for word in asked if word in LANGUAGES[tag].stop_words)


def test_the_vocabulary_of_the_default_model_is_english(default_embedder: Embedder) -> None:
    assert known_languages(default_embedder.count_tokens) == ("en",)


def test_a_vocabulary_is_of_the_languages_whose_words_it_has_whole() -> None:
    found = known_languages(_tokens(_words_of("de") | _words_of("ru")))
    assert found is not None and {"de", "ru"} <= set(found)
    assert not {"en", "fr", "ar", "zh"} & set(found)


@pytest.mark.parametrize("count", [lambda text: 1, len], ids=["one", "letters"])
def test_a_tokenizer_that_tells_nothing_has_no_languages(count: Callable[[str], int]) -> None:
    assert known_languages(lambda texts: [count(text) for text in texts]) is None


def test_declared_languages_and_the_default_model_are_not_looked_into() -> None:
    declared = replace(MODEL, languages=("de",))
    assert with_languages(declared, _refused) == declared
    assert with_languages(DEFAULT_SPACE, _refused) == DEFAULT_SPACE
    assert with_languages(MODEL, lambda texts: [1] * len(texts)).languages is None


def _refused(texts: Sequence[str]) -> list[int]:
    raise AssertionError(texts)


@pytest.mark.parametrize(
    ("space", "tags"),
    [
        (DEFAULT_SPACE, {"en"}),
        (replace(DEFAULT_SPACE, languages=("en", "de")), {"en", "de"}),
        (replace(MODEL, languages=("de",)), {"de"}),
        (MODEL, {"en", "de", "und"}),
    ],
)
def test_a_space_reads_what_it_declares_the_default_one_english_and_another_all(
    space: EmbeddingSpace, tags: set[str]
) -> None:
    assert {tag for tag in ("en", "de", "und") if reads_language(space, tag)} == tags
