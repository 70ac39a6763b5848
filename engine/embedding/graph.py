"""The files of an exported embedding model, and one session of ONNX Runtime over its graph.

Prefixes that a model wants before a text, such as E5's "query: ": those of its folder, or what a space declares.

A deterministic embedder without weights (feature hashing), for tests and for installations without a model.

It compares words, not meaning: texts that share words are similar.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import ConfigurationError, ModelUnavailable
from aidre.engine.model import EmbeddingSpace, Json

EXPORT_FORMAT = 2

GRAPH, TOKENIZER, CARD = "graph.onnx", "tokenizer.json", "export.json"

# Set before the library is loaded: since 1.29 ONNX Runtime sends telemetry by default.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

Session: TypeAlias = Any  # onnxruntime ships no type information that reaches mypy here


class NotExportable(ModelUnavailable):
    """There is no graph of the model, or it gives other vectors; sentence-transformers can still run the model."""


@dataclass(frozen=True, slots=True)
class Card:
    """The description beside a graph: its properties, its self-test, and the SHA-256 of its files."""

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


def read_card(folder: Path) -> Card | None:
    """The card of an intact export; None if there is none or a file does not match it."""
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
    """One session of ONNX Runtime: token ids in, one embedding out."""

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        # Spinning threads halve the latency of a query; between queries they would take the cores from other work.
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._session: Session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        (rows,) = self._session.run(["embedding"], {"input_ids": np.array([ids], np.int64)})
        row: NDArray[np.float32] = rows[0]
        return row


def available_cores() -> int:
    """The number of cores that this process may use; containers and taskset may restrict it."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


PREFIXES_PART: Final = "prefixes="
"""Begins the part of a revision that tells prefixes apart."""


def prefixes_of_model(prompts: Mapping[str, str | None], default: str | None) -> dict[str, str]:
    """The prefixes of a query and of a document among the prompts of a sentence-transformers model.

    For documents the first that is not empty counts: to a folder with the prompts query and passage alone, as those of
    E5, sentence-transformers adds an empty one called document, which its `encode_document` then prefers.
    """
    fallback = prompts.get(default or "") or ""
    named = [prompts[name] or "" for name in ("document", "passage", "corpus") if name in prompts]
    document = next(filter(None, named), "") if named else fallback
    return {"query": prompts.get("query", fallback) or "", "document": document}


def declares_prefixes(space: EmbeddingSpace) -> bool:
    return space.query_prefix is not None or space.document_prefix is not None


def effective_prefixes(space: EmbeddingSpace, of_model: Mapping[str, str]) -> dict[str, str]:
    """The prefixes of a query and of a document: each as the space declares it, else as the model's folder does."""
    declared = {"query": space.query_prefix, "document": space.document_prefix}
    return {name: of_model.get(name, "") if prefix is None else prefix for name, prefix in declared.items()}


def prefixes_part(space: EmbeddingSpace) -> list[str]:
    """The part of a revision that stands for the declared prefixes; none without them."""
    if not declares_prefixes(space):
        return []
    canonical = json.dumps([space.query_prefix, space.document_prefix]).encode()
    return [PREFIXES_PART + hashlib.sha256(canonical).hexdigest()[:8]]


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
