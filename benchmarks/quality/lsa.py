"""Latent semantic vectors of texts: TF-IDF over the most frequent words, projected on its principal directions.

Vectors of another kind than those of language models: their spectrum falls steeply, and a question of a few words lies
far from every document. Only numpy is used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

WORDS: Final = 3_000
_WORD: Final = re.compile(r"[a-z]{2,}")
_BLOCK: Final = 2_000

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Lsa:
    """A projection that was fitted to some texts. `directions` has the shape (words, dimensions)."""

    columns: dict[str, int]
    weights: Vectors
    directions: Vectors

    def project(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dimensions) of the texts that have a word of the vocabulary; n may be less than texts."""
        rows = [block @ self.directions for block in _blocks(texts, self.columns, self.weights)]
        found = np.concatenate(rows)
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray((found / np.maximum(norms, 1e-12))[norms[:, 0] > 1e-6], np.float32)


def fit(texts: Sequence[str], dimensions: int) -> Lsa:
    counts = Counter(word for text in texts for word in set(_WORD.findall(text.lower())))
    kept = [word for word, count in counts.most_common() if count > 1][:WORDS]
    columns = {word: column for column, word in enumerate(kept)}
    weights = np.log((1 + len(texts)) / (1 + np.array([counts[word] for word in kept], np.float32))) + 1
    gram = np.zeros((len(kept), len(kept)), np.float32)
    for block in _blocks(texts, columns, weights):
        gram += block.T @ block
    _, vectors = np.linalg.eigh(gram)
    return Lsa(columns, weights, np.ascontiguousarray(vectors[:, ::-1][:, :dimensions], np.float32))


def _blocks(texts: Sequence[str], columns: dict[str, int], weights: Vectors) -> Iterator[Vectors]:
    """Unit TF-IDF rows of the texts, in blocks; frequencies are damped by a logarithm."""
    for start in range(0, len(texts), _BLOCK):
        some = texts[start : start + _BLOCK]
        block = np.zeros((len(some), len(columns)), np.float32)
        for row, text in enumerate(some):
            counts = Counter(_WORD.findall(text.lower()))
            for word, count in counts.items():
                if word in columns:
                    block[row, columns[word]] = 1 + np.log(count)
        block *= weights
        yield block / np.maximum(np.linalg.norm(block, axis=1, keepdims=True), 1e-12)
