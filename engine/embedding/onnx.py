"""Runs an exported embedding model with ONNX Runtime, on all cores for documents.

Every text is one run. That needs no padding, keeps activations in the cache, and makes a vector depend on its text
only: int8 activations are scaled by the largest value of a run, so in a batch they would depend on the other texts.
The library is imported at the first use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.cache import cache_folder
from aidre.engine.embedding.graph import (
    EXPORT_FORMAT,
    GRAPH,
    TOKENIZER,
    Card,
    Graph,
    available_cores,
    effective_prefixes,
    read_card,
)
from aidre.engine.embedding.self_test import with_languages
from aidre.engine.embedding.tokens import Tokenizer, open_tokenizer
from aidre.engine.embedding.torch import replace_surrogates, require_dimensions
from aidre.engine.embedding.weights import Weights, find_weights, revision_of
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import EmbeddingSpace

QUERY_THREADS = 4
"""Threads of one query; ten tokens gain nothing from more."""


def load_exported(space: EmbeddingSpace, weights: Weights) -> ExportedEmbedder:
    """The exported model from the cache; without an intact export of these weights it is made first."""
    folder = _export_folder(weights)
    card = read_card(folder)
    if card is None:
        _make(weights, folder)
        card = read_card(folder)
    if card is None:
        raise ModelUnavailable(f"the exported model in {folder} is damaged right after writing: check the disk")
    require_dimensions(space, card.dimensions)
    return ExportedEmbedder(replace(space, revision=revision_of(weights, space)), folder, card)


def find_export(weights: Weights) -> bool:
    """Whether the cache has an intact export of these weights."""
    return read_card(_export_folder(weights)) is not None


def export_of(model: str) -> Path | None:
    """The folder of the export of a model that is on this machine, if the cache has one. ModelUnavailable."""
    folder = _export_folder(find_weights(model, fetch=False))
    return folder if folder.is_dir() else None


def _export_folder(weights: Weights) -> Path:
    return cache_folder() / "models" / export_key(weights)


def export_key(weights: Weights) -> str:
    """The cache key of an export: weights, pooling and export format; for models exported by torch, whose graphs are
    optimised by ONNX Runtime, also its version."""
    maker = version("onnxruntime") if weights.known is None else "built"
    parts = (weights.digest, weights.revision, str(EXPORT_FORMAT), maker)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _make(weights: Weights, folder: Path) -> None:
    if weights.known is not None:
        from aidre.engine.embedding.build import build

        build(weights, folder)
    else:
        from aidre.engine.embedding.export import export

        export(weights, folder)


class ExportedEmbedder:
    """An Embedder over an exported model. Sessions and the tokenizer are opened at first use and shared by threads."""

    def __init__(self, space: EmbeddingSpace, folder: Path, card: Card) -> None:
        self.runtime = f"onnxruntime {card.precision}"
        self._folder = folder
        self._card = card
        self._prefixes = effective_prefixes(space, card.prompts)
        self._threads = available_cores()
        self._lock = Lock()
        self._graphs: dict[int, Graph] = {}
        self._opened: Tokenizer | None = None
        self.space = with_languages(space, self.count_tokens)

    @property
    def max_tokens(self) -> int:
        prefix = self._prefixes["document"]
        of_prefix = self.count_tokens([prefix])[0] if prefix else 0
        return self._card.max_length - self._card.special_tokens - of_prefix

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed(texts, self._prefixes["document"])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed(texts, self._prefixes["query"])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._tokenizer().count([replace_surrogates(text) for text in texts])

    def _embed(self, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        rows = np.empty((len(texts), self.space.dimensions), np.float32)
        tokens = self._tokenize([prompt + replace_surrogates(text) for text in texts])
        if len(tokens) == 1:
            rows[0] = self._graph(min(self._threads, QUERY_THREADS)).run(tokens[0])
        elif tokens:
            self._run_all(tokens, rows)
        if self.space.normalized and not self._card.normalized:
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return rows

    def _run_all(self, tokens: Sequence[Sequence[int]], rows: NDArray[np.float32]) -> None:
        """Each thread runs one text at a time, the longest first, so that all threads end together."""
        graph = self._graph(1)

        def run(number: int) -> None:
            rows[number] = graph.run(tokens[number])

        longest_first = sorted(range(len(tokens)), key=lambda number: -len(tokens[number]))
        with ThreadPoolExecutor(self._threads) as pool:
            for _ in pool.map(run, longest_first):
                pass

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        # Without special tokens a blank text has no tokens, and the mean over none would be NaN.
        return [tokens or [0] for tokens in self._tokenizer().encode(texts, self._card.max_length)]

    def _graph(self, threads: int) -> Graph:
        with self._lock:
            if threads not in self._graphs:
                self._graphs[threads] = Graph(self._folder / GRAPH, threads)
            return self._graphs[threads]

    def _tokenizer(self) -> Tokenizer:
        with self._lock:
            if self._opened is None:
                self._opened = open_tokenizer(self._folder / TOKENIZER)
            return self._opened
