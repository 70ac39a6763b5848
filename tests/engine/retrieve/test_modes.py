"""The mode in which a question is searched: chosen by what the collection has, or refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from aidre.engine.errors import AidreError, InvalidInput, SpaceMissing, Unanswerable
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.ports import Capabilities, Reader
from aidre.engine.retrieve.modes import resolve_mode, text_modes
from aidre.engine.retrieve.question import Policy, Question, State
from tests.support.clients import COSINE, DOT, TEXT

UNFUSED = replace(TEXT, id="text:dot", distance="dot", normalized=False)
"""A space with a model whose scores cannot be fused with BM25."""
VECTOR = np.ones(4, np.float32)


def state_of(
    *spaces: EmbeddingSpace, lexical: bool = True, hybrid: bool = True, words: bool = True, language: str | None = None
) -> State:
    stored = SimpleNamespace(name="docs", spaces=spaces)
    can = Capabilities(lexical=lexical, hybrid=hybrid)
    reader = SimpleNamespace(collection=stored, can=can, question_language=lambda text: language)
    return State(cast(Reader, reader), Policy(lexical=words))


@pytest.mark.parametrize(
    ("spaces", "members", "mode", "space"),
    [
        ((COSINE, TEXT), {"text": "tea"}, "hybrid", TEXT),
        ((UNFUSED, TEXT), {"text": "tea"}, "dense", UNFUSED),
        ((COSINE,), {"text": "tea"}, "lexical", None),
        ((), {"text": "tea"}, "lexical", None),
        ((TEXT,), {"text": "tea", "mode": "lexical"}, "lexical", None),
        ((TEXT,), {"text": "tea", "mode": "dense"}, "dense", TEXT),
        ((TEXT, UNFUSED), {"text": "tea", "space": "text:dot"}, "dense", UNFUSED),
        ((TEXT, DOT), {"vector": VECTOR, "space": DOT.id}, "dense", DOT),
        ((TEXT, DOT), {"vector": VECTOR, "space": DOT.id, "mode": "dense"}, "dense", DOT),
    ],
)
def test_the_mode_follows_from_the_question_and_the_spaces(
    spaces: tuple[EmbeddingSpace, ...], members: dict[str, Any], mode: Mode, space: EmbeddingSpace | None
) -> None:
    assert resolve_mode(state_of(*spaces), Question(10, **members)) == (mode, space)


@pytest.mark.parametrize(
    ("spaces", "members", "error", "reason"),
    [
        ((), {"vector": VECTOR}, SpaceMissing, "no embedding space"),
        ((TEXT,), {"text": "tea", "space": "absent"}, SpaceMissing, "does not exist; the collection has: aidre"),
        ((TEXT, COSINE), {"text": "tea", "space": COSINE.id}, SpaceMissing, "takes no text"),
        ((COSINE,), {"text": "tea", "mode": "dense"}, Unanswerable, "no embedding model"),
        ((COSINE,), {"text": "tea", "mode": "hybrid"}, Unanswerable, "no embedding model"),
        ((UNFUSED,), {"text": "tea", "mode": "hybrid"}, Unanswerable, "cannot be searched hybrid"),
        ((COSINE,), {"vector": VECTOR, "space": COSINE.id, "mode": "lexical"}, InvalidInput, "has no words"),
        ((COSINE,), {"vector": VECTOR, "space": COSINE.id, "mode": "hybrid"}, InvalidInput, "has no words"),
    ],
)
def test_what_the_collection_cannot_answer_is_refused(
    spaces: tuple[EmbeddingSpace, ...], members: dict[str, Any], error: type[AidreError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        resolve_mode(state_of(*spaces), Question(10, **members))


@pytest.mark.parametrize(
    ("spaces", "with_words", "without"),
    [
        ((TEXT,), ["hybrid", "dense", "lexical"], ["dense"]),
        ((UNFUSED, TEXT), ["dense", "hybrid", "lexical"], ["dense"]),
        ((UNFUSED,), ["dense", "lexical"], ["dense"]),
        ((COSINE,), ["lexical"], []),
        ((), ["lexical"], []),
    ],
)
def test_the_modes_of_a_text_follow_from_the_spaces_and_the_setting(
    spaces: tuple[EmbeddingSpace, ...], with_words: list[Mode], without: list[Mode]
) -> None:
    """The first one is what a question without a mode gets."""
    for lexical, modes in ((True, with_words), (False, without)):
        state = state_of(*spaces, words=lexical)
        assert text_modes(state) == modes
        if modes:
            assert resolve_mode(state, Question(10, "tea"))[0] == modes[0]


def test_without_words_hybrid_is_dense_and_lexical_is_refused() -> None:
    state = state_of(TEXT, words=False)
    for mode in (None, "hybrid", "dense"):
        assert resolve_mode(state, Question(10, "tea", mode=mode)) == ("dense", TEXT)
    with pytest.raises(Unanswerable, match=r"collections\.docs\.lexical is false\): use mode dense"):
        resolve_mode(state, Question(10, "tea", mode="lexical"))
    cases: list[tuple[Mode | None, str]] = [(None, "takes no text"), ("dense", "ask by a vector")]
    for mode, reason in cases:
        with pytest.raises(Unanswerable, match=reason):
            resolve_mode(state_of(COSINE, words=False), Question(10, "tea", mode=mode))


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_an_engine_that_cannot_search_by_words_is_named(mode: Mode) -> None:
    state = state_of(TEXT, lexical=False, hybrid=False)
    assert text_modes(state) == ["dense"]
    assert resolve_mode(state, Question(10, text="tea")) == ("dense", TEXT)
    with pytest.raises(Unanswerable, match=r"lacks the capability lexical.*use mode dense"):
        resolve_mode(state, Question(10, text="tea", mode=mode))
    with pytest.raises(Unanswerable, match=r"lacks the capability lexical.*takes no text"):
        resolve_mode(state_of(COSINE, lexical=False), Question(10, text="tea"))
    with pytest.raises(Unanswerable, match=r"lacks the capability lexical.*ask by the vector alone"):
        resolve_mode(state, Question(10, "tea", VECTOR, mode=None if mode == "lexical" else mode))


def test_an_engine_that_cannot_fuse_is_named() -> None:
    state = state_of(TEXT, hybrid=False)
    assert text_modes(state) == ["dense", "lexical"]
    with pytest.raises(Unanswerable, match=r"lacks the capability hybrid, cannot be .*: use mode dense or lexical"):
        resolve_mode(state, Question(10, text="tea", mode="hybrid"))


def test_a_text_and_a_vector_together_are_searched_hybrid() -> None:
    state = state_of(COSINE, TEXT)
    assert resolve_mode(state, Question(10, "tea", VECTOR)) == ("hybrid", COSINE)
    assert resolve_mode(state, Question(10, "tea", VECTOR, TEXT.id, mode="hybrid")) == ("hybrid", TEXT)
    with pytest.raises(InvalidInput, match="both are searched hybrid"):
        resolve_mode(state, Question(10, "tea", VECTOR, mode="dense"))
    with pytest.raises(InvalidInput, match="cannot be fused"):
        resolve_mode(state_of(UNFUSED), Question(10, "tea", VECTOR))
    with pytest.raises(Unanswerable, match="lexical is false"):
        resolve_mode(state_of(COSINE, words=False), Question(10, "tea", VECTOR))


ENGLISH = replace(TEXT, languages=("en",))
GERMAN = replace(TEXT, id="german", languages=("de", "fr"))
UNTOLD = replace(TEXT, id="untold")


@pytest.mark.parametrize(
    ("spaces", "language", "space"),
    [
        ((ENGLISH, GERMAN), "en", ENGLISH),
        ((ENGLISH, GERMAN), "de", GERMAN),
        ((GERMAN, ENGLISH), "de", GERMAN),
        ((ENGLISH, GERMAN), "ru", ENGLISH),
        ((ENGLISH, GERMAN), None, ENGLISH),
        ((ENGLISH, UNTOLD), "ru", UNTOLD),
        ((UNTOLD, ENGLISH), "en", UNTOLD),
        ((ENGLISH, COSINE), "de", ENGLISH),
    ],
)
def test_a_text_goes_to_the_first_space_whose_model_knows_its_language(
    spaces: tuple[EmbeddingSpace, ...], language: str | None, space: EmbeddingSpace
) -> None:
    state = state_of(*spaces, language=language)
    assert resolve_mode(state, Question(10, text="tea")) == ("hybrid", space)
    named = resolve_mode(state, Question(10, text="tea", space=ENGLISH.id))
    assert named == ("hybrid", ENGLISH)
