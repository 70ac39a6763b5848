"""Builds the ONNX graph of a BERT model from its tensors: token ids in, one mean-pooled vector of length 1 out.

The operators are those that ONNX Runtime's optimiser makes of a traced BERT, with one for the attention of a layer. The
int8 graph holds the same numbers as `onnxruntime.quantization` makes, so that vectors of both graphs can be compared.
There is no attention mask: each run is one text without padding.

Writes ONNX models in their file format, Protocol Buffers: the few messages that a graph of plain operators needs.

Package onnx, which does the same, would be a twentieth of an installation. Field numbers are those of
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto; they never change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.weights import Tensors

Field: TypeAlias = tuple[int, "int | float | str | bytes"]

IR_VERSION = 8
VARINT, LENGTH_DELIMITED, FIXED32 = 0, 2, 5
"""Wire types of Protocol Buffers."""
ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}
FLOAT, INT, INTS = 1, 2, 7
"""Types of attributes."""
Attributes: TypeAlias = "Mapping[str, int | float | list[int]]"


def model(graph: bytes, operators: Mapping[str, int]) -> bytes:
    """The content of a file; `operators` maps the domains of the operators to their versions."""
    versions = [(8, message((1, domain), (2, version))) for domain, version in operators.items()]
    return message((1, IR_VERSION), (2, "aidre"), (7, graph), *versions)


def graph(
    nodes: Sequence[bytes], constants: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes]
) -> bytes:
    """Nodes are in the order in which they can run."""
    parts = [(1, nodes), (5, constants), (11, inputs), (12, outputs)]
    return message((2, "graph"), *((number, content) for number, ones in parts for content in ones))


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], domain: str, attributes: Attributes) -> bytes:
    """One operator; its optional inputs may be named "". Attributes are integers, floats or lists of integers."""
    names = [*((1, name) for name in inputs), *((2, name) for name in outputs), (4, operator), (7, domain)]
    return message(*names, *((5, _attribute(name, value)) for name, value in attributes.items()))


def constant(name: str, values: NDArray[Any]) -> bytes:
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    dimensions = [(1, size) for size in values.shape]
    return message(*dimensions, (2, ELEMENT_TYPES[values.dtype.name]), (8, name), (9, little.tobytes()))


def tensor(name: str, dtype: type[np.generic], shape: Sequence[int | str]) -> bytes:
    """An input or output of a graph; a dimension of any size is a name."""
    sizes = [(1, message((2 if isinstance(size, str) else 1, size))) for size in shape]
    kind = message((1, ELEMENT_TYPES[np.dtype(dtype).name]), (2, message(*sizes)))
    return message((1, name), (2, message((1, kind))))


def message(*fields: Field) -> bytes:
    """Fields by number; a field that repeats is given several times."""
    return b"".join(part for number, value in fields for part in _field(number, value))


def _attribute(name: str, value: int | float | list[int]) -> bytes:
    if isinstance(value, list):
        return message((1, name), *((8, number) for number in value), (20, INTS))
    if isinstance(value, float):
        return message((1, name), (2, value), (20, FLOAT))
    return message((1, name), (3, value), (20, INT))


def _field(number: int, value: int | float | str | bytes) -> Iterator[bytes]:
    if isinstance(value, int):
        yield _varint(number << 3 | VARINT) + _varint(value)
    elif isinstance(value, float):
        yield _varint(number << 3 | FIXED32) + struct.pack("<f", value)
    else:
        content = value.encode() if isinstance(value, str) else value
        yield _varint(number << 3 | LENGTH_DELIMITED) + _varint(len(content))
        yield content


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; negative numbers as 64-bit two's complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


RUNTIME_DOMAIN = "com.microsoft"
"""The domain of the operators that only ONNX Runtime has."""
OPERATORS = {"": 17, RUNTIME_DOMAIN: 1}
"""Versions of the operators of each domain."""
_ROWS = 16_384
"""Rows of a table that are rounded at once: tables of many words are hundreds of megabytes in float32."""
LEAST_LENGTH = 1e-12
"""Shorter vectors are divided by this instead of their length, as by sentence-transformers."""


def bert_graph(tensors: Tensors, *, heads: int, epsilon: float, int8: bool) -> bytes:
    """The serialised graph: input `input_ids`, int64 (1, tokens); output `embedding`, float32 (1, dimensions).

    `tensors` have the names of transformers.BertModel; `epsilon` is that of the layer norms. With `int8` weights are
    signed bytes with a scale for each output, and activations are quantized at run time.
    """
    graph = _GraphBuilder(int8, epsilon)
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


def _embeddings(graph: _GraphBuilder, tensors: Tensors) -> str:
    """The sum of each token's word, type and position; all tokens have the first type."""
    words = graph.words(tensors["embeddings.word_embeddings.weight"])
    first_type = graph.table(tensors["embeddings.token_type_embeddings.weight"])[0]
    positions = graph.constant(graph.table(tensors["embeddings.position_embeddings.weight"]))
    tokens = graph.add("Shape", ["input_ids"], start=1, end=2)
    first = graph.add("Slice", [positions, graph.constant(np.array([0])), tokens])
    typed = graph.add("Add", [words, graph.constant(first_type)])
    return graph.norm(graph.add("Add", [typed, first]), tensors, "embeddings.LayerNorm")


def _layer(graph: _GraphBuilder, layer: Tensors, rows: str, heads: int) -> str:
    attended = graph.dense(graph.attention(rows, layer, heads), layer, "attention.output.dense")
    rows = graph.norm(graph.add("Add", [attended, rows]), layer, "attention.output.LayerNorm")
    inner = graph.add("Gelu", [graph.dense(rows, layer, "intermediate.dense")], domain=RUNTIME_DOMAIN)
    outer = graph.dense(inner, layer, "output.dense")
    return graph.norm(graph.add("Add", [outer, rows]), layer, "output.LayerNorm")


class _GraphBuilder:
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
        self._nodes.append(node(operator, inputs, names, domain, attributes))
        return name

    def constant(self, values: NDArray[Any]) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(constant(name, values))
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
        parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([layer[f"{part}.weight"] for part in parts]).T
        bias = self.constant(np.concatenate([layer[f"{part}.bias"] for part in parts]))
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
        self._nodes.append(node("Identity", [output], ["embedding"], "", {}))
        inputs = [tensor("input_ids", np.int64, [1, "tokens"])]
        outputs = [tensor("embedding", np.float32, [1, dimensions])]
        return model(graph(self._nodes, self._constants, inputs, outputs), OPERATORS)


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
