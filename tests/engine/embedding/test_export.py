"""The exported graph against sentence-transformers: the same vectors, whatever the model pools, prompts and normalises.

torch is imported by the functions that need it: importing it takes seconds, so all of this module is slow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding import self_test
from aidre.engine.embedding.embedder import Embedder, load_embedder
from aidre.engine.embedding.graph import CARD, GRAPH
from aidre.engine.embedding.self_test import probe_texts
from aidre.engine.errors import ConfigurationError, ModelUnavailable
from aidre.engine.model import EmbeddingSpace
from tests.support.clocks import WAIT_SECONDS
from tests.support.models import INT8_RUNTIME

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def tiny(tiny_model: Callable[..., EmbeddingSpace]) -> EmbeddingSpace:
    return tiny_model()


@pytest.fixture(scope="module")
def tiny_reference(tiny: EmbeddingSpace) -> Embedder:
    return load_embedder(tiny, runtime="sentence-transformers")


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / lengths)


def exported(cache: Path) -> Path:
    (folder,) = (cache / "models").iterdir()
    return folder


def test_the_default_model_runs_in_int8_and_stays_close_to_the_reference(
    default_embedder: Embedder, default_reference: Embedder
) -> None:
    texts = probe_texts()[::4]
    rows, reference = default_embedder.embed_documents(texts), default_reference.embed_documents(texts)
    assert default_embedder.runtime == INT8_RUNTIME
    assert default_embedder.space == default_reference.space
    assert default_embedder.max_tokens == default_reference.max_tokens == 254
    assert cosines(rows, reference).mean() >= 0.99
    assert cosines(rows, reference).min() >= 0.97


def test_both_runtimes_count_the_same_tokens(default_embedder: Embedder, default_reference: Embedder) -> None:
    texts = ["Hello wörld, 日本", "", "word " * 1000]
    assert default_embedder.count_tokens(texts) == default_reference.count_tokens(texts)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_an_exported_model_keeps_its_pooling(
    pooling: str, tiny_model: Callable[..., EmbeddingSpace], cache: Path
) -> None:
    space = tiny_model(pooling)
    texts = ["the cat", "cat", "word " * 100, "zebra"]
    ours, reference = load_embedder(space), load_embedder(space, runtime="sentence-transformers")
    assert f";{pooling};l2;" in (ours.space.revision or "")
    assert cosines(ours.embed_documents(texts), reference.embed_documents(texts)).min() >= 0.99


def test_an_exported_model_keeps_its_prompts(tiny_model: Callable[..., EmbeddingSpace], cache: Path) -> None:
    space = tiny_model(prompts={"query": "query: ", "document": "the "})
    ours, reference = load_embedder(space), load_embedder(space, runtime="sentence-transformers")
    assert ours.embed_queries(["the cat"]).tolist() != ours.embed_documents(["the cat"]).tolist()
    assert cosines(ours.embed_queries(["cat"]), reference.embed_queries(["cat"])).min() >= 0.99
    assert cosines(ours.embed_documents(["cat"]), reference.embed_documents(["cat"])).min() >= 0.99
    assert "prompts=" in (ours.space.revision or "")


def test_a_model_that_does_not_normalise_is_normalised_where_the_space_says_so(
    tiny_model: Callable[..., EmbeddingSpace], cache: Path
) -> None:
    space = tiny_model(normalize=False)
    raw = load_embedder(space).embed_documents(["the cat", ""])
    unit = load_embedder(replace(space, normalized=True)).embed_documents(["the cat", ""])
    assert abs(np.linalg.norm(raw, axis=1) - 1.0).min() > 0.1
    np.testing.assert_allclose(unit, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)


def test_wrong_dimensions_are_refused_by_the_reference_too(tiny: EmbeddingSpace, cache: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"dimensions = 384, but model .* has 32"):
        load_embedder(replace(tiny, dimensions=384), runtime="sentence-transformers")


def test_a_graph_that_ranks_worse_is_not_used_in_int8(
    tiny: EmbeddingSpace, tiny_reference: Embedder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_test, "MIN_COSINE_INT8", 1.1)
    embedder = load_embedder(tiny)
    assert embedder.runtime == "onnxruntime fp32"
    rows, reference = (one.embed_documents(["the cat"]) for one in (embedder, tiny_reference))
    assert cosines(rows, reference).min() >= 0.9999
    card = json.loads((exported(cache) / CARD).read_text())
    assert card["precision"] == "fp32"
    assert card["self_test"]["fp32"]["cosine_least"] >= 0.9999
    assert card["self_test"]["int8"]["cosine_mean"] < 1.1


def test_a_model_that_cannot_be_exported_runs_natively_unless_the_graph_is_asked_for(
    tiny: EmbeddingSpace, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_test, "MIN_COSINE_FLOAT", 1.1)
    with pytest.raises(ModelUnavailable, match="gives other vectors"):
        load_embedder(tiny, runtime="onnxruntime")
    assert load_embedder(tiny).runtime == "sentence-transformers"
    assert list((cache / "models").iterdir()) == []


def test_attention_is_one_operator_a_layer_and_a_truncated_graph_is_made_again(
    tiny: EmbeddingSpace, cache: Path
) -> None:
    import onnx

    before = load_embedder(tiny).embed_documents(["the cat"])
    graph = exported(cache) / GRAPH
    operators = [node.op_type for node in onnx.load(graph).graph.node]
    assert sum(operator in {"Attention", "QAttention"} for operator in operators) == 2
    assert "Softmax" not in operators
    graph.write_bytes(graph.read_bytes()[:1000])
    assert load_embedder(tiny).embed_documents(["the cat"]).tolist() == before.tolist()


PROGRAM = """
import sys
from aidre.engine.embedding.embedder import load_embedder
from aidre.engine.model import EmbeddingSpace
space = EmbeddingSpace("tiny", 32, "cosine", True, "sentence-transformers", sys.argv[1])
path = sys.path.copy()
embedder = load_embedder(space)
assert sys.path == path, "the export left folders where modules are looked for"
print(embedder.embed_documents(["the cat", "word"]).tobytes().hex(), embedder.count_tokens(["the cat"]))
print(sorted({"torch", "transformers", "sentence_transformers", "huggingface_hub", "onnx"} & set(sys.modules)))
"""


def run_program(space: EmbeddingSpace, cache: Path) -> list[str]:
    """The lines of a process that loads the model; a warning or any other message is a failure."""
    environment = {**os.environ, "AIDRE_CACHE": str(cache)}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(space.model)]
    run = subprocess.run(command, env=environment, text=True, capture_output=True, check=False, timeout=WAIT_SECONDS)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.splitlines()


@pytest.mark.process
def test_a_process_exports_without_a_warning_and_the_next_imports_nothing_of_torch(
    tiny: EmbeddingSpace, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    vectors, imported = run_program(tiny, cache)
    assert "'torch'" in imported
    assert [path.name for path in exported(cache).parent.iterdir() if path.name.startswith(".")] == []
    assert run_program(tiny, cache) == [vectors, "[]"]
