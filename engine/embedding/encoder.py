"""A BERT model in bytes for the C kernel: many texts in one call without padding, each with its vector alone.

ONNX Runtime quantizes the inputs of a product by the largest value of all its rows. There a text in a batch has another
vector than alone, so that texts cannot share a call. The kernel quantizes each row by itself. It runs on processors
with AVX-512 and VNNI; the others run the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.bert_graph import layers_of, qkv, signed, unsigned
from aidre.engine.embedding.weights import Tensors
from aidre.engine.native import kernel_name, native

ENCODER: Final = "encoder.npz"
"""The file beside a graph."""
TOKENS_AT_ONCE: Final = 384
"""Tokens of one call at most, about: the weights pass through the cache once for all of them."""
LEAST_TOKENS: Final = 64
"""Tokens of one call, where there are as many: fewer take hardly less time a call than these."""
_NAMES: Final = ("attention.output.dense", "intermediate.dense", "output.dense")


def runs_encoder() -> bool:
    """Whether the kernel that this process uses embeds on this processor."""
    return native is not None and kernel_name() == "avx512" and bool(native.can_embed())


def write_encoder(tensors: Tensors, path: Path, *, heads: int, epsilon: float) -> None:
    """Write the arrays of a model, whose tensors have the names of transformers.BertModel."""
    words, scale, zero = unsigned(tensors["embeddings.word_embeddings.weight"])
    positions, types = (
        _rounded(tensors[f"embeddings.{name}_embeddings.weight"]) for name in ("position", "token_type")
    )
    arrays: dict[str, NDArray[Any]] = {
        "heads": np.array(heads),
        "epsilon": np.array(epsilon, np.float32),
        "words": words,
        "word_scale": scale,
        "word_zero": zero,
        "positions": positions + types[0],
        "norm": _norm(tensors, "embeddings.LayerNorm"),
    }
    for number, layer in enumerate(layers_of(tensors)):
        for place, array in enumerate(_layer(layer)):
            arrays[f"layer {number} {place:02}"] = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _rounded(table: NDArray[np.float32]) -> NDArray[np.float32]:
    codes, scale, zero = unsigned(table)
    rows: NDArray[np.float32] = (codes.astype(np.float32) - np.float32(zero)) * scale
    return rows


def _norm(tensors: Tensors, name: str) -> NDArray[np.float32]:
    return np.stack([tensors[f"{name}.weight"], tensors[f"{name}.bias"]]).astype(np.float32)


def _layer(layer: Tensors) -> list[NDArray[Any]]:
    """The arrays of a layer in the order in which the kernel takes them."""
    dense = {name: (layer[f"{name}.weight"].T, layer[f"{name}.bias"]) for name in _NAMES}
    attention, joined, inner, outer = (
        [*signed(weight)[:2], bias.astype(np.float32)] for weight, bias in (qkv(layer), *dense.values())
    )
    after_attention, after_outer = (_norm(layer, f"{name}.LayerNorm") for name in ("attention.output", "output"))
    return [*attention, *joined, after_attention, *inner, *outer, after_outer]


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
