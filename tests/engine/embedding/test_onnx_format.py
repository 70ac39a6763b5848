"""The file format of ONNX models, as package onnx reads it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from aidre.engine.embedding import bert_graph


def test_a_model_is_what_the_package_makes_of_the_same_graph() -> None:
    values = np.arange(300, dtype=np.float32).reshape(2, 150)
    nodes = [
        bert_graph.node("Softmax", ["x", ""], ["s"], "", {"axis": -1}),
        bert_graph.node("Any", ["s", "c"], ["y", "z"], "maker.example", {"epsilon": 1e-12, "axes": [1, -2]}),
    ]
    inputs = [bert_graph.tensor("x", np.int64, [1, "tokens"])]
    outputs = [bert_graph.tensor("y", np.float32, [1, 384])]
    graph = bert_graph.graph(nodes, [bert_graph.constant("c", values)], inputs, outputs)
    read = onnx.load_from_string(bert_graph.model(graph, {"": 17, "maker.example": 1}))
    expected = helper.make_graph(
        [
            helper.make_node("Softmax", ["x", ""], ["s"], domain="", axis=-1),
            helper.make_node("Any", ["s", "c"], ["y", "z"], domain="maker.example", epsilon=1e-12, axes=[1, -2]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 384])],
        [numpy_helper.from_array(values, "c")],
    )
    assert {one.name: one for one in read.graph.node[1].attribute} == {
        one.name: one for one in expected.node[1].attribute
    }
    for model in (read.graph, expected):
        for node in model.node:
            del node.attribute[:]
    assert read.graph == expected
    assert [(one.domain, one.version) for one in read.opset_import] == [("", 17), ("maker.example", 1)]
    assert read.ir_version == bert_graph.IR_VERSION


@pytest.mark.parametrize("dtype", sorted(bert_graph.ELEMENT_TYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_constants_of_all_types_and_shapes_are_read_back(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.ones(shape, dtype)
    tensor = onnx.TensorProto.FromString(bert_graph.constant("c", values))
    read = numpy_helper.to_array(tensor)
    assert (tensor.name, read.dtype, read.shape) == ("c", values.dtype, shape)
    np.testing.assert_array_equal(read, values)


def test_a_transposed_constant_keeps_its_rows() -> None:
    values = np.arange(6, dtype=np.int8).reshape(2, 3).T
    read = numpy_helper.to_array(onnx.TensorProto.FromString(bert_graph.constant("c", values)))
    np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)])
def test_integers_of_all_lengths_are_read_back(number: int) -> None:
    assert onnx.AttributeProto.FromString(bert_graph.message((1, "i"), (3, number), (20, 2))).i == number
