"""Writes ONNX models in their file format, Protocol Buffers: the few messages that a graph of plain operators needs.

Package onnx, which does the same, would be a twentieth of an installation. Field numbers are those of
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto; they never change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    return message((2, "graph"), *((number, one) for number, ones in parts for one in ones))


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
        return message((1, name), *((8, one) for one in value), (20, INTS))
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
