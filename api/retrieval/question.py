"""The question of a caller, independent of any protocol, and its search mode in a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.api.http import BadRequest, Unprocessable
from aidre.engine.errors import SpaceMissing
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.ports import Reader, can_fuse


@dataclass(frozen=True, slots=True)
class Question:
    """Exactly one of `text` and `vector` is set; `vector` is float32 of shape (dimensions,). `filter` is JSON as
    received. Without `mode` a text is searched hybrid, dense if its space cannot be fused or the collection is not
    searched by words, lexical without a model."""

    top_k: int
    text: str | None = None
    vector: NDArray[np.float32] | None = None
    space: str | None = None
    filter: Any = None
    cursor: str | None = None
    mode: Mode | None = None


def text_modes(reader: Reader, lexical: bool, order: Sequence[str] | None = None) -> list[Mode]:
    """The modes in which a text can be searched, the default one first; none without a model and without `lexical`.

    `lexical` and `order`, the ids of its spaces, are settings of the collection.
    """
    models = text_spaces(reader.collection.spaces, order)
    modes: list[Mode] = ["dense"] if models else []
    if lexical and reader.can.lexical:
        modes.append("lexical")
        if any(can_fuse(reader, model) for model in models):
            modes.insert(0 if can_fuse(reader, models[0]) else 1, "hybrid")
    return modes


def resolve_mode(
    reader: Reader, question: Question, *, lexical: bool = True, order: Sequence[str] | None = None
) -> tuple[Mode, EmbeddingSpace | None]:
    """The search mode, and the space of its vectors (None for lexical).

    Without `lexical`, a setting of the collection, hybrid becomes dense; `order` is another one, the ids of its spaces,
    of which the first with a model answers a text that names none. Raises SpaceMissing, BadRequest or
    Unprocessable if the collection cannot answer the question.
    """
    space = _space_of(reader, question, order)
    mode = question.mode
    if question.text is None:
        if mode not in {None, "dense"}:
            raise BadRequest(f"mode {mode} needs query: a vector has no words", member="mode")
        return "dense", space
    if mode is None:
        mode = "lexical" if space is None else "hybrid" if can_fuse(reader, space) else "dense"
    if not lexical and mode == "hybrid":
        mode = "dense"
    if mode != "dense" and not (lexical and reader.can.lexical):
        raise _not_lexical(reader, lexical, space)
    if mode == "lexical":
        return mode, None
    if space is None:
        cure = "lexical does not" if lexical and reader.can.lexical else "send query_vector"
        raise Unprocessable(f"this collection has no embedding model: mode {mode} needs one, {cure}")
    if mode == "hybrid" and not can_fuse(reader, space):
        what = "embedding space" if reader.can.hybrid else "collection, whose engine lacks the capability hybrid,"
        raise Unprocessable(f"this {what} cannot be searched hybrid: use mode dense or lexical")
    return mode, space


def _not_lexical(reader: Reader, lexical: bool, space: EmbeddingSpace | None) -> Unprocessable:
    cure = "use mode dense" if space is not None else "it has no embedding model either, so it takes no text"
    setting = f"collections.{reader.collection.name}.lexical is false"
    why = "its engine lacks the capability lexical" if lexical else setting
    return Unprocessable(f"this collection is not searched by words ({why}): {cure}", member="mode")


def _space_of(reader: Reader, question: Question, order: Sequence[str] | None) -> EmbeddingSpace | None:
    """The named space, or the first one with a model for text; None if there is none."""
    if question.space is not None:
        named = next((space for space in reader.collection.spaces if space.id == question.space), None)
        if named is None:
            raise SpaceMissing("this collection has no such embedding space", embedding_space=question.space)
        if question.text is not None and named.model is None:
            raise SpaceMissing("this embedding space takes no text: send query_vector", embedding_space=named.id)
        return named
    return next(iter(text_spaces(reader.collection.spaces, order)), None)


def text_spaces(spaces: Sequence[EmbeddingSpace], order: Sequence[str] | None) -> list[EmbeddingSpace]:
    """Those with a model, the first of which answers texts: by `order`, then the ones that it lacks."""
    models = [space for space in spaces if space.model is not None]
    if order is not None and len(models) > 1:
        models.sort(key=lambda space: order.index(space.id) if space.id in order else len(order))
    return models
