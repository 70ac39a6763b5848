"""Runs an exported embedding model with ONNX Runtime, on all cores for documents.

Every text is one run. That needs no padding, keeps activations in the cache, and makes a vector depend on its text
only: int8 activations are scaled by the largest value of a run, so in a batch they would depend on the other texts.
The library is imported at the first use.

Builds the files of a known model from its weights, once per machine and without torch.

The graph is int8 if the self-test finds it close enough to the reference, else float32. `export` does the same for
other models, with torch.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.bert_graph import bert_graph
from aidre.engine.embedding.cache import cache_folder, publish, staging
from aidre.engine.embedding.graph import (
    EXPORT_FORMAT,
    GRAPH,
    TOKENIZER,
    Card,
    Graph,
    NotExportable,
    available_cores,
    effective_prefixes,
    prefixes_of_model,
    read_card,
    sha256_of,
)
from aidre.engine.embedding.models import FOUR_BITS, read_four_bits
from aidre.engine.embedding.self_test import SelfTest, probe_vectors, reference_of, self_test, with_languages
from aidre.engine.embedding.tokens.tokenizer import Tokenizer, open_tokenizer
from aidre.engine.embedding.torch import replace_surrogates, require_dimensions
from aidre.engine.embedding.weights import ModelWeights, Tensors, find_weights, read_tensors, revision_of
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import EmbeddingSpace

log = logging.getLogger(__name__)

WEIGHTS = "model.safetensors"


def build(weights: ModelWeights, target: Path) -> None:
    """Write graph, tokenizer and card of a known model as `target`; raises ModelUnavailable if the folder of the
    weights is incomplete, NotExportable if this machine computes other vectors."""
    started = time.monotonic()
    log.info("building the graph of the model in %s: once on this machine, some seconds", weights.folder)
    tensors, config, max_length = _read(weights.folder)
    with staging(target.parent) as folder:
        special_tokens = _write_tokenizer(weights.folder, folder)
        precision, tests = _write_graph(tensors, config, folder, reference_of(weights.digest), max_length)
        card = Card(
            precision=precision,
            dimensions=int(config["hidden_size"]),
            max_length=max_length,
            special_tokens=special_tokens,
            normalized=True,
            prompts=_prompts(weights.folder),
            self_test={name: test.rounded() for name, test in tests.items()},
            files={name: sha256_of(folder / name) for name in (GRAPH, TOKENIZER)},
        )
        card.write(folder)
        publish(folder, target, lambda path: read_card(path) is not None)
    log.info("built in %s, %.1f s", precision, time.monotonic() - started)


def _read(folder: Path) -> tuple[Tensors, dict[str, Any], int]:
    """The tensors, the configuration of BERT, and the number of tokens after which a text is truncated."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        max_length = int(json.loads((folder / "sentence_bert_config.json").read_bytes())["max_seq_length"])
    except (OSError, ValueError, LookupError) as error:
        raise ModelUnavailable(f"the model in {folder} is incomplete ({error}): install it again") from error
    has_four_bits = (folder / FOUR_BITS).is_file()
    return read_four_bits(folder) if has_four_bits else read_tensors(folder / WEIGHTS), config, max_length


def _prompts(folder: Path) -> dict[str, str]:
    """The prefixes of a query and of a document."""
    config = json.loads((folder / "config_sentence_transformers.json").read_bytes())
    return prefixes_of_model(config.get("prompts") or {}, config.get("default_prompt_name"))


def _write_tokenizer(source: Path, folder: Path) -> int:
    """The number of special tokens around each text."""
    shutil.copyfile(source / TOKENIZER, folder / TOKENIZER)
    return open_tokenizer(folder / TOKENIZER).special_tokens


def _write_graph(
    tensors: Tensors, config: dict[str, Any], folder: Path, reference: NDArray[np.float32], max_length: int
) -> tuple[str, dict[str, SelfTest]]:
    """The precision of the graph that was written, and the self-tests of all that were tried."""
    tests: dict[str, SelfTest] = {}
    for precision in ("int8", "fp32"):
        graph = bert_graph(
            tensors,
            heads=int(config["num_attention_heads"]),
            epsilon=float(config["layer_norm_eps"]),
            int8=precision == "int8",
        )
        (folder / GRAPH).write_bytes(graph)
        test = tests[precision] = self_test(reference, probe_vectors(folder / GRAPH, max_length))
        if test.int8_is_close_enough if precision == "int8" else test.float32_is_right:
            return precision, tests
    raise NotExportable("the graph of the model gives other vectors on this machine")


QUERY_THREADS = 4
"""Threads of one query; ten tokens gain nothing from more."""


def load_exported(space: EmbeddingSpace, weights: ModelWeights) -> ExportedEmbedder:
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


def find_export(weights: ModelWeights) -> bool:
    """Whether the cache has an intact export of these weights."""
    return read_card(_export_folder(weights)) is not None


def export_of(model: str) -> Path | None:
    """The folder of the export of a model that is on this machine, if the cache has one. ModelUnavailable."""
    folder = _export_folder(find_weights(model, fetch=False))
    return folder if folder.is_dir() else None


def _export_folder(weights: ModelWeights) -> Path:
    return cache_folder() / "models" / export_key(weights)


def export_key(weights: ModelWeights) -> str:
    """The cache key of an export: weights, pooling and export format; for models exported by torch, whose graphs are
    optimised by ONNX Runtime, also its version."""
    maker = version("onnxruntime") if weights.known is None else "built"
    parts = (weights.digest, weights.revision, str(EXPORT_FORMAT), maker)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _make(weights: ModelWeights, folder: Path) -> None:
    if weights.known is not None:
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
