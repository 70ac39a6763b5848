"""Embedding by a function of the program: a model that no configuration can name; each program brings it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.hashing import WORD
from aidre.engine.errors import DimensionMismatch, InvalidInput
from aidre.engine.model import EmbeddingSpace

FUNCTION_MODEL: Final = "function"
"""The model of a space that a function of a program fills."""

MAX_TOKENS: Final = 256
"""The length of a chunk, in words: a function does not say how much it reads."""

EmbedTexts: TypeAlias = Callable[[list[str]], Any]
"""Embeds texts: anything that numpy makes an array of shape (texts, dimensions) of."""


class FunctionEmbedder:
    """`embed` is called with passages and with queries alike, and from several threads. Its vectors are not cached, and
    another function in its place is not noticed: the vectors of a space have to come from one model."""

    runtime = FUNCTION_MODEL
    max_tokens = MAX_TOKENS

    def __init__(self, space: EmbeddingSpace, embed: EmbedTexts) -> None:
        self.space = space
        self._embed = embed

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """InvalidInput where the function returns no numbers, DimensionMismatch for another shape."""
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        try:
            vectors = np.asarray(self._embed(list(texts)), np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the function of space {self.space.id!r} returned no matrix: {error}") from error
        expected = len(texts), self.space.dimensions
        if vectors.shape != expected:
            raise DimensionMismatch(
                f"the function of space {self.space.id!r} returned an array of shape {vectors.shape}, not {expected}",
                embedding_space=self.space.id,
                expected_dimensions=self.space.dimensions,
                actual_dimensions=vectors.shape[-1] if vectors.ndim else 0,
            )
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_documents(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [sum(1 for _ in WORD.finditer(text)) for text in texts]
