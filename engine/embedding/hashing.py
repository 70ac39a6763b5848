"""A deterministic embedder without weights (feature hashing), for tests and for installations without a model.

It compares words, not meaning: texts that share words are similar.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace

WORD = re.compile(r"\w+")
HASHING: Final = "hashing"
"""The model of a space whose vectors are hashes of words."""
REVISION = "hashing;v1"
MAX_CACHED_CHARS = 24
"""Characters of the longest word that is cached: senders of texts choose the words, so entries must be small."""


class HashingEmbedder:
    """Each word adds ±(1 + ln count) to one dimension and half as much to another, both chosen by its hash.

    The sum is normalized.
    """

    runtime = HASHING
    max_tokens = 1 << 20

    def __init__(self, space: EmbeddingSpace) -> None:
        if space.dimensions < 1:
            raise ConfigurationError(f"space {space.id!r}: dimensions must be at least 1, not {space.dimensions}")
        self.space = replace(space, revision=REVISION)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.space.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            self._fill(row, text)
        return rows

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_documents(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [sum(1 for _ in WORD.finditer(text)) for text in texts]

    def _fill(self, row: NDArray[np.float32], text: str) -> None:
        for word, count in Counter(WORD.findall(text.casefold())).items():
            weight = 1.0 + np.log(count)
            for dimension, sign in (_cached_dimensions if len(word) <= MAX_CACHED_CHARS else _hashed_dimensions)(word):
                row[dimension % len(row)] += sign * weight
        length = float(np.linalg.norm(row))
        if length > 0.0:
            row /= length
        else:  # no words, or words that cancel out: a fixed unit vector instead of NaN
            row[0] = 1.0


def _hashed_dimensions(word: str) -> tuple[tuple[int, float], tuple[int, float]]:
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    first, second = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
    return (first >> 1, 1.0 if first & 1 else -1.0), (second >> 1, 0.5 if second & 1 else -0.5)


_cached_dimensions = lru_cache(maxsize=1 << 13)(_hashed_dimensions)
