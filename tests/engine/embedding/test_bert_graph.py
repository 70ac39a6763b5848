"""The graph that is built from tensors, against sentence-transformers and against the graph that torch traces."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from aidre.engine.embedding.bert_graph import bert_graph
from aidre.engine.embedding.cache import cache_folder
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.embedding.graph import GRAPH, TOKENIZER, Graph
from aidre.engine.embedding.self_test import probe_texts, probe_vectors
from aidre.engine.embedding.weights import Tensors, find_weights, read_tensors
from aidre.engine.model import EmbeddingSpace

pytestmark = pytest.mark.slow

EPSILON = 1e-12
CODES = "109846ecdd92ce9afb9b40c72a840c2095cdd8471dea5cc8f16f3680adf67951"
"""SHA-256 of the codes of words and layers in the int8 graph that torch and onnxruntime.quantization made of the
default model. Stores hold vectors that it computed."""


@pytest.fixture(scope="module")
def tensors() -> Tensors:
    return read_tensors(find_weights(DEFAULT_SPACE.model or "").folder / "model.safetensors")


@pytest.fixture(scope="module")
def int8_graph(tensors: Tensors) -> bytes:
    return bert_graph(tensors, heads=12, epsilon=EPSILON, int8=True)


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / lengths)


def test_float32_vectors_of_the_default_model_are_those_of_sentence_transformers(
    tensors: Tensors, default_reference: Embedder, tmp_path: Path
) -> None:
    (tmp_path / GRAPH).write_bytes(bert_graph(tensors, heads=12, epsilon=EPSILON, int8=False))
    shutil.copy(find_weights(DEFAULT_SPACE.model or "").folder / TOKENIZER, tmp_path)
    rows = probe_vectors(tmp_path / GRAPH, max_length=256)
    assert rows.shape == (len(probe_texts()), 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)
    assert cosines(rows, default_reference.embed_documents(probe_texts())).min() >= 0.9999


def test_the_int8_codes_of_the_default_model_are_those_that_stored_vectors_were_computed_with(
    int8_graph: bytes,
) -> None:
    constants = [numpy_helper.to_array(one) for one in onnx.load_from_string(int8_graph).graph.initializer]
    codes = [one for one in constants if one.dtype.itemsize == 1 and one.ndim == 2]
    assert len(codes) == 1 + 6 * 4
    assert hashlib.sha256(b"".join(one.tobytes() for one in codes)).hexdigest() == CODES


def test_the_graph_holds_the_fused_operators_of_the_runtime_and_passes_the_checks_of_onnx(int8_graph: bytes) -> None:
    model = onnx.load_from_string(int8_graph)
    onnx.checker.check_model(model)
    operators = Counter(node.op_type for node in model.graph.node)
    fused = ("QAttention", "DynamicQuantizeMatMul", "Gelu", "LayerNormalization", "Softmax", "MatMul")
    assert [operators[name] for name in fused] == [6, 18, 6, 13, 0, 0]


def test_int8_vectors_are_those_of_the_graph_that_torch_traces(
    tiny_model: Callable[..., EmbeddingSpace], cache: Path
) -> None:
    space = tiny_model()
    embedder = load_embedder(space)
    assert embedder.runtime == "onnxruntime int8"
    [exported] = (cache_folder() / "models").iterdir()
    tiny = read_tensors(Path(space.model or "") / "model.safetensors")
    (cache / "built.onnx").write_bytes(bert_graph(tiny, heads=2, epsilon=EPSILON, int8=True))
    built, traced = Graph(cache / "built.onnx", 1), Graph(exported / GRAPH, 1)
    for tokens in ([2, 10, 3], [2, 3], list(range(2, 26))):
        np.testing.assert_allclose(built.run(tokens), traced.run(tokens), atol=1e-6)
