"""The kernel's encoder against the float32 graph of the same tensors, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.embedding.bert_graph import bert_graph, write_encoder
from aidre.engine.embedding.graph import TOKENS_AT_ONCE, Encoder, Graph, groups_of, runs_encoder

WORDS, POSITIONS, HIDDEN, INNER, HEADS = 50, 96, 64, 128, 2
LENGTHS = (1, 2, 5, 15, 16, 17, 33, 64, 65, 80, 96)
"""Around the sizes of the kernel's blocks."""

needs_encoder = pytest.mark.skipif(not runs_encoder(), reason="this processor has no kernel that embeds")


def random_tensors(hidden: int = HIDDEN, layers: int = 2) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(5)

    def rows(*shape: int, spread: float = 0.15) -> NDArray[np.float32]:
        return random.normal(0, spread, shape).astype(np.float32)

    def norm(name: str) -> dict[str, NDArray[np.float32]]:
        return {f"{name}.weight": 1 + rows(hidden), f"{name}.bias": rows(hidden)}

    sizes = {"word": WORDS, "position": POSITIONS, "token_type": 2}
    tensors = {f"embeddings.{name}_embeddings.weight": rows(size, hidden, spread=1) for name, size in sizes.items()}
    tensors |= norm("embeddings.LayerNorm")
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        dense = {f"attention.self.{part}": (hidden, hidden) for part in ("query", "key", "value")}
        dense |= {"attention.output.dense": (hidden, hidden)}
        dense |= {"intermediate.dense": (INNER, hidden), "output.dense": (hidden, INNER)}
        for name, shape in dense.items():
            tensors |= {f"{layer}.{name}.weight": rows(*shape), f"{layer}.{name}.bias": rows(shape[0])}
        tensors |= norm(f"{layer}.attention.output.LayerNorm") | norm(f"{layer}.output.LayerNorm")
    return tensors


def random_texts() -> list[list[int]]:
    random = np.random.default_rng(6)
    return [random.integers(0, WORDS, length).tolist() for length in LENGTHS]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    path = tmp_path_factory.mktemp("encoder") / "encoder.npz"
    write_encoder(random_tensors(), path, heads=HEADS, epsilon=1e-12)
    return Encoder(path)


@needs_encoder
def test_vectors_are_close_to_those_of_the_float32_graph(encoder: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "graph.onnx"
    path.write_bytes(bert_graph(random_tensors(), heads=HEADS, epsilon=1e-12, int8=False))
    graph, texts = Graph(path, 1), random_texts()
    expected = np.array([graph.run(text) for text in texts])
    rows = encoder.run(texts)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert (rows * expected).sum(axis=1).min() >= 0.999


@needs_encoder
def test_a_text_has_the_same_vector_alone_and_among_others(encoder: Encoder) -> None:
    texts = random_texts()
    together = encoder.run(texts + texts[::-1])
    alone = np.concatenate([encoder.run([text]) for text in texts])
    np.testing.assert_array_equal(together, np.concatenate([alone, alone[::-1]]))


@needs_encoder
@pytest.mark.parametrize(
    "texts", [[[1, WORDS]], [[-1]], [[1], []], [[1] * (POSITIONS + 1)]], ids=["word", "negative", "empty", "long"]
)
def test_tokens_that_the_model_does_not_have_are_refused(encoder: Encoder, texts: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="a token or a length that the model does not have"):
        encoder.run(texts)


@needs_encoder
def test_sizes_that_the_kernel_does_not_have_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "encoder.npz"
    write_encoder(random_tensors(hidden=32), path, heads=HEADS, epsilon=1e-12)
    with pytest.raises(ValueError, match="sizes of the model"):
        Encoder(path)


@needs_encoder
def test_arrays_of_another_size_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "encoder.npz"
    tensors = random_tensors()
    tensors["encoder.layer.1.output.dense.bias"] = np.zeros(HIDDEN + 1, np.float32)
    write_encoder(tensors, path, heads=HEADS, epsilon=1e-12)
    with pytest.raises(ValueError, match="another size"):
        Encoder(path)


def test_groups_hold_each_text_once_the_longest_first_and_within_their_bounds() -> None:
    lengths = [3, 200, 10, 500, 64, 64, 1, 120]
    tokens = [[0] * length for length in lengths]
    for threads in (1, 2, 16):
        groups = groups_of(tokens, threads)
        assert sorted(number for group in groups for number in group) == list(range(len(tokens)))
        in_order = [lengths[number] for group in groups for number in group]
        assert in_order == sorted(lengths, reverse=True)
        assert all(len(group) == 1 or sum(lengths[n] for n in group) <= TOKENS_AT_ONCE for group in groups)
    assert len(groups_of([[0] * 10] * 32, 2)) == 2
    assert len(groups_of([[0] * 10] * 4, 2)) == 1
    assert groups_of([], 2) == []
