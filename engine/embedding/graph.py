"""The files of an exported embedding model, and what runs it: a session of ONNX Runtime over its graph, or the encoder
of the C kernel.

ONNX Runtime quantizes the inputs of a product by the largest value of all its rows. There a text in a batch has another
vector than alone, so that texts cannot share a call. The kernel quantizes each row by itself: many texts are one call
without padding, each with its vector alone. It runs on processors with AVX-512 and VNNI; the others run the graph.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import Json
from aidre.engine.native import kernel_name, native

EXPORT_FORMAT = 2

GRAPH, ENCODER, TOKENIZER, CARD = "graph.onnx", "encoder.npz", "tokenizer.json", "export.json"

TOKENS_AT_ONCE: Final = 384
"""Tokens of one call of the encoder at most, about: the weights pass through the cache once for all of them."""
LEAST_TOKENS: Final = 64
"""Tokens of one call, where there are as many: fewer take hardly less time a call than these."""

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


def runs_encoder() -> bool:
    """Whether the kernel that this process uses embeds on this processor."""
    return native is not None and kernel_name() == "avx512" and bool(native.can_embed())


class Encoder:
    """A model that `write_encoder` wrote, opened by the kernel. Safe to call from several threads."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as arrays:
            layers: dict[str, list[NDArray[Any]]] = {}
            for name in sorted(name for name in arrays.files if name.startswith("layer ")):
                layers.setdefault(name.split()[1], []).append(arrays[name])
            norm, inner = arrays["norm"], layers["0"][7].shape[1]
            self._dimensions = norm.shape[1]
            assert native is not None
            self._kernel = native.Encoder(
                self._dimensions,
                int(arrays["heads"]),
                inner,
                float(arrays["epsilon"]),
                arrays["words"],
                float(arrays["word_scale"]),
                float(arrays["word_zero"]),
                arrays["positions"],
                norm,
                tuple(tuple(layers[number]) for number in sorted(layers, key=int)),
            )

    def run(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The vectors (texts, dimensions) of the tokens of some texts. Releases the lock of the interpreter."""
        lengths = np.array([len(text) for text in texts], np.int32)
        tokens = np.fromiter((token for text in texts for token in text), np.int32, int(lengths.sum()))
        return np.frombuffer(self._kernel.embed(tokens, lengths), np.float32).reshape(len(texts), self._dimensions)


def groups_of(tokens: Sequence[Sequence[int]], threads: int) -> list[list[int]]:
    """The numbers of the texts of each call, the longest texts first, so that all threads end together."""
    share = sum(map(len, tokens)) // threads
    most = min(max(share, LEAST_TOKENS), TOKENS_AT_ONCE)
    groups: list[list[int]] = []
    room = 0
    for number in sorted(range(len(tokens)), key=lambda number: -len(tokens[number])):
        if not groups or len(tokens[number]) > room:
            groups.append([])
            room = most
        groups[-1].append(number)
        room -= len(tokens[number])
    return groups


def available_cores() -> int:
    """The number of cores that this process may use; containers and taskset may restrict it."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
