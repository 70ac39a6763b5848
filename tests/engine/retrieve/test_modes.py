"""The mode in which a question is searched: chosen by what the collection has, or refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from aidre.api.http import BadRequest, Unprocessable
from aidre.api.retrieval.question import Question, resolve_mode, text_modes
from aidre.engine.errors import AidreError, SpaceMissing
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.ports import Capabilities, Reader
from tests.support.clients import COSINE, DOT, TEXT

UNFUSED = replace(TEXT, id="text:dot", distance="dot", normalized=False)
"""A space with a model whose scores cannot be fused with BM25."""
VECTOR = np.ones(4, np.float32)


def snapshot_of(*spaces: EmbeddingSpace, lexical: bool = True, hybrid: bool = True) -> Reader:
    stored = SimpleNamespace(name="docs", spaces=spaces)
    return cast(Reader, SimpleNamespace(collection=stored, can=Capabilities(lexical=lexical, hybrid=hybrid)))


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
    assert resolve_mode(snapshot_of(*spaces), Question(10, **members)) == (mode, space)


@pytest.mark.parametrize(
    ("spaces", "members", "error", "reason"),
    [
        ((TEXT,), {"text": "tea", "space": "absent"}, SpaceMissing, "no such embedding space"),
        ((TEXT, COSINE), {"text": "tea", "space": COSINE.id}, SpaceMissing, "takes no text"),
        ((COSINE,), {"text": "tea", "mode": "dense"}, Unprocessable, "no embedding model"),
        ((COSINE,), {"text": "tea", "mode": "hybrid"}, Unprocessable, "no embedding model"),
        ((UNFUSED,), {"text": "tea", "mode": "hybrid"}, Unprocessable, "cannot be searched hybrid"),
        ((COSINE,), {"vector": VECTOR, "space": COSINE.id, "mode": "lexical"}, BadRequest, "has no words"),
        ((COSINE,), {"vector": VECTOR, "space": COSINE.id, "mode": "hybrid"}, BadRequest, "has no words"),
    ],
)
def test_what_the_collection_cannot_answer_is_refused(
    spaces: tuple[EmbeddingSpace, ...], members: dict[str, Any], error: type[AidreError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        resolve_mode(snapshot_of(*spaces), Question(10, **members))


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
        assert text_modes(snapshot_of(*spaces), lexical) == modes
        if modes:
            assert resolve_mode(snapshot_of(*spaces), Question(10, "tea"), lexical=lexical)[0] == modes[0]


def test_without_words_hybrid_is_dense_and_lexical_is_refused() -> None:
    snapshot = snapshot_of(TEXT)
    for mode in (None, "hybrid", "dense"):
        assert resolve_mode(snapshot, Question(10, "tea", mode=mode), lexical=False) == ("dense", TEXT)
    with pytest.raises(Unprocessable, match=r"collections\.docs\.lexical is false\): use mode dense"):
        resolve_mode(snapshot, Question(10, "tea", mode="lexical"), lexical=False)
    cases: list[tuple[Mode | None, str]] = [(None, "takes no text"), ("dense", "send query_vector")]
    for mode, reason in cases:
        with pytest.raises(Unprocessable, match=reason):
            resolve_mode(snapshot_of(COSINE), Question(10, "tea", mode=mode), lexical=False)


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_an_engine_that_cannot_search_by_words_is_named(mode: Mode) -> None:
    reader = snapshot_of(TEXT, lexical=False, hybrid=False)
    assert text_modes(reader, True) == ["dense"]
    assert resolve_mode(reader, Question(10, text="tea")) == ("dense", TEXT)
    with pytest.raises(Unprocessable, match=r"lacks the capability lexical.*use mode dense"):
        resolve_mode(reader, Question(10, text="tea", mode=mode))
    with pytest.raises(Unprocessable, match=r"lacks the capability lexical.*takes no text"):
        resolve_mode(snapshot_of(COSINE, lexical=False), Question(10, text="tea"))


def test_an_engine_that_cannot_fuse_is_named() -> None:
    reader = snapshot_of(TEXT, hybrid=False)
    assert text_modes(reader, True) == ["dense", "lexical"]
    with pytest.raises(Unprocessable, match=r"lacks the capability hybrid, cannot be .*: use mode dense or lexical"):
        resolve_mode(reader, Question(10, text="tea", mode="hybrid"))
