"""Builds the ONNX graph of a BERT model from its tensors: token ids in, one mean-pooled vector of length 1 out; and the
arrays of the same model for the encoder of the C kernel.

The operators are those that ONNX Runtime's optimiser makes of a traced BERT, with one for the attention of a layer. The
int8 graph holds the same numbers as `onnxruntime.quantization` makes, so that vectors of both graphs can be compared.
There is no attention mask: each run is one text without padding. The encoder has the same codes of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import onnx_format
from aidre.engine.embedding.weights import Tensors

RUNTIME_DOMAIN = "com.microsoft"
"""The domain of the operators that only ONNX Runtime has."""
OPERATORS = {"": 17, RUNTIME_DOMAIN: 1}
"""Versions of the operators of each domain."""
_ROWS = 16_384
"""Rows of a table that are rounded at once: tables of many words are hundreds of megabytes in float32."""
_DENSE: Final = ("attention.output.dense", "intermediate.dense", "output.dense")
"""The dense layers after attention."""
LEAST_LENGTH = 1e-12
"""Shorter vectors are divided by this instead of their length, as by sentence-transformers."""


def bert_graph(tensors: Tensors, *, heads: int, epsilon: float, int8: bool) -> bytes:
    """The serialised graph: input `input_ids`, int64 (1, tokens); output `embedding`, float32 (1, dimensions).

    `tensors` have the names of transformers.BertModel; `epsilon` is that of the layer norms. With `int8` weights are
    signed bytes with a scale for each output, and activations are quantized at run time.
    """
    graph = _Graph(int8, epsilon)
    rows = _embeddings(graph, tensors)
    for layer in _layers(tensors):
        rows = _layer(graph, layer, rows, heads)
    mean = graph.add("ReduceMean", [rows], axes=[1], keepdims=0)
    length = graph.add("ReduceL2", [mean], axes=[-1], keepdims=1)
    divisor = graph.add("Max", [length, graph.constant(np.array(LEAST_LENGTH, np.float32))])
    return graph.serialised(graph.add("Div", [mean, divisor]), tensors["embeddings.LayerNorm.weight"].size)


def _layers(tensors: Tensors) -> list[Tensors]:
    """The tensors of each layer, in order, named without the layer."""
    layers: dict[int, dict[str, NDArray[np.float32]]] = {}
    for name in tensors:
        if name.startswith("encoder.layer."):
            number, _, rest = name.removeprefix("encoder.layer.").partition(".")
            layers.setdefault(int(number), {})[rest] = tensors[name]
    return [layers[number] for number in sorted(layers)]


def _embeddings(graph: _Graph, tensors: Tensors) -> str:
    """The sum of each token's word, type and position; all tokens have the first type."""
    words = graph.words(tensors["embeddings.word_embeddings.weight"])
    first_type = graph.table(tensors["embeddings.token_type_embeddings.weight"])[0]
    positions = graph.constant(graph.table(tensors["embeddings.position_embeddings.weight"]))
    tokens = graph.add("Shape", ["input_ids"], start=1, end=2)
    first = graph.add("Slice", [positions, graph.constant(np.array([0])), tokens])
    typed = graph.add("Add", [words, graph.constant(first_type)])
    return graph.norm(graph.add("Add", [typed, first]), tensors, "embeddings.LayerNorm")


def _layer(graph: _Graph, layer: Tensors, rows: str, heads: int) -> str:
    attended = graph.dense(graph.attention(rows, layer, heads), layer, "attention.output.dense")
    rows = graph.norm(graph.add("Add", [attended, rows]), layer, "attention.output.LayerNorm")
    inner = graph.add("Gelu", [graph.dense(rows, layer, "intermediate.dense")], domain=RUNTIME_DOMAIN)
    outer = graph.dense(inner, layer, "output.dense")
    return graph.norm(graph.add("Add", [outer, rows]), layer, "output.LayerNorm")


def write_encoder(tensors: Tensors, path: Path, *, heads: int, epsilon: float) -> None:
    """Write the arrays of a model, whose tensors have the names of transformers.BertModel."""
    words, scale, zero = _unsigned(tensors["embeddings.word_embeddings.weight"])
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
    for number, layer in enumerate(_layers(tensors)):
        for place, array in enumerate(_layer(layer)):
            arrays[f"layer {number} {place:02}"] = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _rounded(table: NDArray[np.float32]) -> NDArray[np.float32]:
    codes, scale, zero = _unsigned(table)
    rows: NDArray[np.float32] = (codes.astype(np.float32) - np.float32(zero)) * scale
    return rows


def _norm(tensors: Tensors, name: str) -> NDArray[np.float32]:
    return np.stack([tensors[f"{name}.weight"], tensors[f"{name}.bias"]]).astype(np.float32)


def _coded(weight: NDArray[np.float32], bias: NDArray[np.float32]) -> list[NDArray[Any]]:
    codes, scale, _ = _signed(weight)
    return [codes, scale, bias.astype(np.float32)]


def _layer(layer: Tensors) -> list[NDArray[Any]]:
    """The arrays of a layer in the order in which the kernel takes them."""
    dense = {name: (layer[f"{name}.weight"].T, layer[f"{name}.bias"]) for name in _DENSE}
    attention, joined, inner, outer = (_coded(*values) for values in (_qkv(layer), *dense.values()))
    after_attention, after_outer = (_norm(layer, f"{name}.LayerNorm") for name in ("attention.output", "output"))
    return [*attention, *joined, after_attention, *inner, *outer, after_outer]


class _Graph:
    """A graph under construction. Its methods append operators and return the name of their output."""

    def __init__(self, int8: bool, epsilon: float) -> None:
        self._int8 = int8
        self._epsilon = epsilon
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def add(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: int = 1,
        domain: str = "",
        **attributes: int | float | list[int],
    ) -> str:
        """The first output; further ones have its name with ".1", ".2" and so on."""
        name = f"{operator}_{len(self._nodes)}"
        names = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        self._nodes.append(onnx_format.node(operator, inputs, names, domain, attributes))
        return name

    def constant(self, values: NDArray[Any]) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(onnx_format.constant(name, values))
        return name

    def norm(self, rows: str, tensors: Tensors, name: str) -> str:
        scale, bias = self.constant(tensors[f"{name}.weight"]), self.constant(tensors[f"{name}.bias"])
        return self.add("LayerNormalization", [rows, scale, bias], axis=-1, epsilon=self._epsilon)

    def words(self, table: NDArray[np.float32]) -> str:
        """The row of `table` for each token."""
        if not self._int8:
            return self.add("Gather", [self.constant(table), "input_ids"])
        codes, scale, zero = _unsigned(table)
        rows = self.add("Gather", [self.constant(codes), "input_ids"])
        return self.add("DequantizeLinear", [rows, self.constant(scale), self.constant(zero)])

    def table(self, table: NDArray[np.float32]) -> NDArray[np.float32]:
        """The rows of a small table, which stays in float32; with int8 they are rounded as the words are."""
        if not self._int8:
            return table
        codes, scale, zero = _unsigned(table)
        rows: NDArray[np.float32] = (codes.astype(np.float32) - np.float32(zero)) * scale
        return rows

    def attention(self, rows: str, layer: Tensors, heads: int) -> str:
        """Attention of all heads, before the dense layer that joins them."""
        weight, values = _qkv(layer)
        bias = self.constant(values)
        if not self._int8:
            inputs = [rows, self.constant(weight), bias]
            return self.add("Attention", inputs, num_heads=heads, domain=RUNTIME_DOMAIN)
        codes, scale, zero = (self.constant(values) for values in _signed(weight))
        quantized = self.add("DynamicQuantizeLinear", [rows], outputs=3)
        inputs = [quantized, codes, bias, f"{quantized}.1", scale, "", f"{quantized}.2", zero]
        return self.add("QAttention", inputs, num_heads=heads, domain=RUNTIME_DOMAIN)

    def dense(self, rows: str, tensors: Tensors, name: str) -> str:
        weight, bias = tensors[f"{name}.weight"].T, self.constant(tensors[f"{name}.bias"])
        if not self._int8:
            return self.add("Add", [self.add("MatMul", [rows, self.constant(weight)]), bias])
        codes, scale, zero = (self.constant(values) for values in _signed(weight))
        return self.add("DynamicQuantizeMatMul", [rows, codes, scale, zero, bias], domain=RUNTIME_DOMAIN)

    def serialised(self, output: str, dimensions: int) -> bytes:
        self._nodes.append(onnx_format.node("Identity", [output], ["embedding"], "", {}))
        inputs = [onnx_format.tensor("input_ids", np.int64, [1, "tokens"])]
        outputs = [onnx_format.tensor("embedding", np.float32, [1, dimensions])]
        return onnx_format.model(onnx_format.graph(self._nodes, self._constants, inputs, outputs), OPERATORS)


def _qkv(layer: Tensors) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The weights (inputs, outputs) and biases of query, key and value as one dense layer."""
    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([layer[f"{part}.weight"] for part in parts]).T
    return weight, np.concatenate([layer[f"{part}.bias"] for part in parts])


def _signed(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.int8]]:
    """Codes from -127 to 127, the scale of each column, and zeros: value = code * scale."""
    scale = (np.abs(weight).max(axis=0).astype(np.float64) / 127).astype(np.float32)
    scale[scale < np.finfo(np.float32).tiny] = 1.0
    codes = np.round(weight / scale).astype(np.int8)
    return codes, scale, np.zeros(scale.size, np.int8)


def _unsigned(table: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.uint8]]:
    """Codes from 0 to 255, one scale and one zero point: value = (code - zero point) * scale."""
    least, most = min(float(table.min()), 0.0), max(float(table.max()), 0.0)
    scale = (most - least) / 255
    zero = round(-least / scale)
    codes = np.empty(table.shape, np.uint8)
    for start in range(0, len(table), _ROWS):
        rows = np.round(table[start : start + _ROWS] / np.float32(scale))
        codes[start : start + _ROWS] = np.clip(rows + zero, 0, 255)
    return codes, np.array(scale, np.float32), np.array(zero, np.uint8)
