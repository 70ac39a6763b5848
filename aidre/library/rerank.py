"""What may order the best hits of a search anew: a function, a second space, or a cross-encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aidre.engine.errors import InvalidInput, ModelUnavailable
from aidre.engine.retrieve import Rerank
from aidre.library.spaces import Spaces

if TYPE_CHECKING:
    from aidre.engine.ports import Reader
    from aidre.engine.types import Hit


def to_rerank(rerank: Any, reader: Reader, spaces: Spaces) -> Rerank:
    """A function of a text and the texts of hits to scores; an object whose `predict` takes pairs of both, as cross-
    encoders have it; the id of a space of the collection; or the folder of a cross-encoder. InvalidInput."""
    if isinstance(rerank, str):
        space = next((space for space in reader.collection.spaces if space.id == rerank), None)
        if space is not None:
            if space.model is None:
                raise InvalidInput(f"rerank={rerank!r} is a space without a model: it takes no text")
            return _BySpace(reader, spaces, space)
    if isinstance(rerank, str | PathLike):
        folder = Path(fspath(rerank)).expanduser()
        if not folder.is_dir():
            known = ", ".join(space.id for space in reader.collection.spaces)
            raise InvalidInput(f"rerank={str(rerank)!r:.100} is not a space of the collection ({known}) and no folder")
        return _ByPairs(_load(str(folder.absolute())).predict)
    predict = getattr(rerank, "predict", None)
    if callable(predict):
        return _ByPairs(predict)
    if not callable(rerank):
        raise InvalidInput("rerank= is a function of a text and texts, a space, or the folder of a cross-encoder")
    return _ByTexts(rerank)


class _ByTexts:
    def __init__(self, score: Callable[[str, list[str]], Any]) -> None:
        self._score = score

    def __call__(self, text: str, hits: Sequence[Hit]) -> list[float]:
        return to_scores(self._score(text, [hit.text for hit in hits]), len(hits)) if hits else []


class _ByPairs:
    def __init__(self, predict: Callable[[list[tuple[str, str]]], Any]) -> None:
        self._predict = predict

    def __call__(self, text: str, hits: Sequence[Hit]) -> list[float]:
        return to_scores(self._predict([(text, hit.text) for hit in hits]), len(hits)) if hits else []


class _BySpace:
    """By the cosine, or another closeness, in a space with a model."""

    def __init__(self, reader: Reader, spaces: Spaces, space: Any) -> None:
        self._reader, self._spaces, self._space = reader, spaces, space

    def __call__(self, text: str, hits: Sequence[Hit]) -> list[float]:
        vector = self._spaces.embed(self._space, text)
        found = self._reader.cosines(self._space.id, vector, hits) if hits else np.empty(0)
        if found is None:
            stored = np.array([hit.chunk.vectors()[self._space.id] for hit in hits], np.float32)
            norms = np.linalg.norm(stored, axis=1) * np.linalg.norm(vector)
            found = (stored @ vector) / np.maximum(norms, np.finfo(np.float32).tiny)
        return to_scores(found, len(hits))


def to_scores(values: Any, count: int) -> list[float]:
    """The scores of a reranker: one finite number for each hit, else InvalidInput."""
    try:
        scores = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        scores = np.empty(0)
    if scores.shape == (count, 1):
        scores = scores[:, 0]
    if scores.shape != (count,) or not all(map(math.isfinite, scores)):
        raise InvalidInput(f"rerank= must give a finite number for each of {count} texts, larger for a better one")
    return [float(score) for score in scores]


@lru_cache(maxsize=4)
def _load(folder: str) -> Any:
    """A cross-encoder, which is kept. ModelUnavailable."""
    try:
        from sentence_transformers import CrossEncoder
    except ImportError:
        raise ModelUnavailable("a cross-encoder needs sentence-transformers: pip install 'aidre[models]'") from None
    try:
        return CrossEncoder(folder, local_files_only=True)
    except Exception as error:  # whatever its libraries raise
        why = str(error).partition("\n")[0]
        raise ModelUnavailable(f"the folder {folder} is not a cross-encoder: {why}") from error
