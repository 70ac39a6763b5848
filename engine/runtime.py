"""Runs an exported embedding model by ONNX Runtime and tokenizers alone, on both cores for documents.

Every text is a run of its own. That wastes nothing on padding, keeps the activations in the cache, and makes a vector
depend on its text only: int8 activations are scaled by the run's largest value, so in a batch they would depend on the
neighbours. Both libraries are imported at the first use.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.cache import cache_folder
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import EmbeddingSpace, Json
from aidre.engine.reference import printable, require_dimensions
from aidre.engine.weights import Weights, labelled

EXPORT_FORMAT = 2
GRAPH, TOKENIZER, CARD = "graph.onnx", "tokenizer.json", "export.json"
# Before the library is loaded: from 1.29 on it tells its maker of every process, machine and model that it runs.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

QUERY_THREADS = 4  # a query of ten tokens gains nothing from more

Session: TypeAlias = Any  # onnxruntime and tokenizers ship no type information that reaches mypy here
Tokenizer: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Card:
    """What stands beside a graph: what it is, how it was tested, and the SHA-256 of its files."""

    precision: str
    dimensions: int
    max_length: int
    special_tokens: int
    normalized: bool
    prompts: Mapping[str, str]
    self_test: Mapping[str, Json]
    files: Mapping[str, str]

    def write(self, folder: Path) -> None:
        (folder / CARD).write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")


def load_exported(space: EmbeddingSpace, weights: Weights) -> ExportedEmbedder:
    """From the cache, where an export of these weights by this version lies; else it is made first."""
    folder = cache_folder() / "models" / export_key(weights)
    card = read_card(folder)
    if card is None:
        from aidre.engine.export import export

        export(weights, folder)
        card = read_card(folder)
    if card is None:
        raise ModelUnavailable(f"the exported model in {folder} is damaged as soon as it is written: check the disk")
    require_dimensions(space, card.dimensions)
    return ExportedEmbedder(replace(space, revision=labelled(weights.revision, space.revision)), folder, card)


def export_key(weights: Weights) -> str:
    """Differs where the graph would: other weights, pooling, format of the export, or version that wrote the graph."""
    parts = (weights.digest, weights.revision, str(EXPORT_FORMAT), version("onnxruntime"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def read_card(folder: Path) -> Card | None:
    """The card of an intact export; None where there is none or where a file of it is not what the card says."""
    try:
        card = Card(**json.loads((folder / CARD).read_bytes()))
        intact = card.files.keys() >= {GRAPH, TOKENIZER} and all(
            sha256_of(folder / name) == digest for name, digest in card.files.items()
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return card if intact else None


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Graph:
    """One session over a graph: token ids in, a row of the embedding out."""

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        )  # the export did the rest
        # Inside a query threads wait for each other by spinning, which halves its time; between two queries they would
        # take the cores from everything else that serves.
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._session: Session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        (rows,) = self._session.run(["embedding"], {"input_ids": np.array([ids], np.int64)})
        row: NDArray[np.float32] = rows[0]
        return row


class ExportedEmbedder:
    """An exported model. Sessions and tokenizers are opened at their first use and shared by threads."""

    def __init__(self, space: EmbeddingSpace, folder: Path, card: Card) -> None:
        self.space = space
        self.runtime = f"onnxruntime {card.precision}"
        self.max_tokens = card.max_length - card.special_tokens
        self._folder = folder
        self._card = card
        self._threads = available_cores()
        self._lock = Lock()
        self._graphs: dict[int, Graph] = {}
        self._tokenizers: dict[bool, Tokenizer] = {}

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed(texts, self._card.prompts["document"])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed(texts, self._card.prompts["query"])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        tokenizer = self._tokenizer(truncated=False)
        found = tokenizer.encode_batch_fast([printable(text) for text in texts], add_special_tokens=False)
        return [len(tokens.ids) for tokens in found]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        tokenizer = self._tokenizer(truncated=False)
        offsets: list[tuple[int, int]] = tokenizer.encode(printable(text), add_special_tokens=False).offsets
        return offsets

    def _embed(self, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        rows = np.empty((len(texts), self.space.dimensions), np.float32)
        tokens = self._tokenize([prompt + printable(text) for text in texts])
        if len(tokens) == 1:
            rows[0] = self._graph(min(self._threads, QUERY_THREADS)).run(tokens[0])
        elif tokens:
            self._run_all(tokens, rows)
        if self.space.normalized and not self._card.normalized:
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return rows

    def _run_all(self, tokens: Sequence[Sequence[int]], rows: NDArray[np.float32]) -> None:
        """One text a thread and one thread a text, the longest first, so that all threads end together."""
        graph = self._graph(1)

        def run(number: int) -> None:
            rows[number] = graph.run(tokens[number])

        longest_first = sorted(range(len(tokens)), key=lambda number: -len(tokens[number]))
        with ThreadPoolExecutor(self._threads) as pool:
            for _ in pool.map(run, longest_first):
                pass

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._tokenizer(truncated=True).encode_batch_fast(texts)
        # A tokenizer without special tokens makes nothing of a blank text; the mean over nothing would be NaN.
        return [tokens.ids or [0] for tokens in found]

    def _graph(self, threads: int) -> Graph:
        with self._lock:
            if threads not in self._graphs:
                self._graphs[threads] = Graph(self._folder / GRAPH, threads)
            return self._graphs[threads]

    def _tokenizer(self, *, truncated: bool) -> Tokenizer:
        """Two of them, since truncation is a state: changing it under another thread fails."""
        with self._lock:
            if truncated not in self._tokenizers:
                self._tokenizers[truncated] = open_tokenizer(
                    self._folder / TOKENIZER, self._card.max_length if truncated else None
                )
            return self._tokenizers[truncated]


def open_tokenizer(path: Path, max_length: int | None) -> Tokenizer:
    """A tokenizer that pads nothing and cuts after `max_length` tokens, special ones included."""
    from tokenizers import Tokenizer as Opened

    tokenizer = Opened.from_file(str(path))
    tokenizer.no_padding()
    if max_length is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_length)
    return tokenizer


def available_cores() -> int:
    """The cores that this process may use, which a container or taskset may have narrowed."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
