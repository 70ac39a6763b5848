"""The exported graph against sentence-transformers: the same vectors, from a cache that survives damage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.embedding import export
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.embedding.graph import CARD, GRAPH, TOKENIZER
from aidre.engine.embedding.probes import PROBES, probe_texts
from aidre.engine.errors import ConfigurationError, ModelUnavailable
from aidre.engine.model import EmbeddingSpace

LONG = "word " * 1000


@pytest.fixture(scope="session")
def default_embedder() -> Embedder:
    """The default model from the ordinary cache: its export takes far longer than all tests that use it."""
    return load_embedder(DEFAULT_SPACE)


@pytest.fixture(scope="session")
def default_reference() -> Embedder:
    return load_embedder(DEFAULT_SPACE, runtime="sentence-transformers")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., EmbeddingSpace]:
    """Makes a model of two small layers with random weights, as sentence-transformers saves it."""

    def make(pooling: str = "mean", normalize: bool = True, **arguments: Any) -> EmbeddingSpace:
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
        from transformers import AutoTokenizer, BertConfig, BertModel

        folder = tmp_path_factory.mktemp("tiny")
        letters = "abcdefghijklmnopqrstuvwxyz"
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *["the", "cat", "word", "query", ":"]]
        words += ["##" + letter for letter in letters]
        (folder / "vocab.txt").write_text("\n".join(words))
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
        )
        config.save_pretrained(folder)
        AutoTokenizer.from_pretrained(str(folder)).save_pretrained(folder)
        torch.manual_seed(7)
        BertModel(config).save_pretrained(folder)
        modules = [Transformer(str(folder), max_seq_length=24), Pooling(32, pooling_mode=pooling)]
        model = SentenceTransformer(
            modules=[*modules, *([Normalize()] if normalize else [])], device="cpu", **arguments
        )
        model.save(str(folder / "saved"))
        return EmbeddingSpace("tiny", 32, "cosine", normalize, "sentence-transformers", str(folder / "saved"))

    return make


@pytest.fixture(scope="session")
def tiny(tiny_model: Callable[..., EmbeddingSpace]) -> EmbeddingSpace:
    return tiny_model()


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / lengths)


def exported(cache: Path) -> Path:
    (folder,) = (cache / "models").iterdir()
    return folder


def test_the_default_model_runs_in_int8_and_stays_close_to_the_reference(
    default_embedder: Embedder, default_reference: Embedder
) -> None:
    texts = probe_texts()
    rows, reference = default_embedder.embed_documents(texts), default_reference.embed_documents(texts)
    assert default_embedder.runtime == "onnxruntime int8"
    assert default_embedder.space == default_reference.space
    assert default_embedder.max_tokens == default_reference.max_tokens == 254
    assert cosines(rows, reference).mean() >= 0.99
    assert cosines(rows, reference).min() >= 0.97


def test_the_default_model_finds_the_passage_that_answers_a_query(default_embedder: Embedder) -> None:
    queries, passages = zip(*PROBES, strict=True)
    scores = default_embedder.embed_queries(queries) @ default_embedder.embed_documents(passages).T
    assert (scores.argmax(axis=1) == np.arange(len(PROBES))).mean() >= 0.95


def test_vectors_are_finite_unit_float32_rows_for_any_text(default_embedder: Embedder) -> None:
    rows = default_embedder.embed_documents(["", " ", "\x00", "lone \ud800 surrogate", LONG, "日本語", "🙂" * 300])
    assert rows.dtype == np.float32
    assert rows.shape == (7, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)
    assert default_embedder.embed_documents([]).shape == default_embedder.embed_queries([]).shape == (0, 384)


def test_a_vector_depends_on_its_text_alone(default_embedder: Embedder) -> None:
    texts = ["the cat sat on the mat", LONG, "a dog barked", ""]
    together = default_embedder.embed_documents(texts)
    alone = np.concatenate([default_embedder.embed_queries([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_long_text_is_embedded_by_its_beginning(default_embedder: Embedder) -> None:
    whole, beginning = default_embedder.embed_documents([LONG, "word " * default_embedder.max_tokens])
    assert whole.tolist() == beginning.tolist()


def test_tokens_are_counted_and_placed_without_special_ones_and_without_a_limit(
    default_embedder: Embedder, default_reference: Embedder
) -> None:
    texts = ["Hello wörld, 日本", "", LONG]
    assert default_embedder.count_tokens(texts) == default_reference.count_tokens(texts) == [5, 0, 1000]
    assert default_embedder.token_offsets(texts[0]) == [(0, 5), (6, 11), (11, 12), (13, 14), (14, 15)]
    assert default_embedder.token_offsets(texts[0]) == default_reference.token_offsets(texts[0])


def test_threads_may_share_an_embedder(default_embedder: Embedder) -> None:
    texts = [f"passage {number} about {'cats ' * (number % 7)}" for number in range(24)]
    expected = default_embedder.embed_documents(texts)

    def embed(turn: int) -> tuple[np.ndarray, list[int]]:
        return default_embedder.embed_documents(texts[turn:]), default_embedder.count_tokens(texts)

    with ThreadPoolExecutor(4) as pool:
        for turn, (rows, counts) in enumerate(pool.map(embed, range(8))):
            assert rows.tolist() == expected[turn:].tolist()
            assert counts == default_embedder.count_tokens(texts)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_an_exported_model_keeps_its_pooling(
    pooling: str, tiny_model: Callable[..., EmbeddingSpace], cache: Path
) -> None:
    space = tiny_model(pooling)
    texts = ["the cat", "cat", "word " * 100, "zebra"]
    ours, reference = load_embedder(space), load_embedder(space, runtime="sentence-transformers")
    assert f";{pooling};l2;" in (ours.space.revision or "")
    assert cosines(ours.embed_documents(texts), reference.embed_documents(texts)).min() >= 0.99


def test_attention_is_one_operator_a_layer(tiny_model: Callable[..., EmbeddingSpace], cache: Path) -> None:
    import onnx

    load_embedder(tiny_model())
    operators = [node.op_type for node in onnx.load(exported(cache) / GRAPH).graph.node]
    assert sum(operator in {"Attention", "QAttention"} for operator in operators) == 2
    assert "Softmax" not in operators


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


def test_wrong_dimensions_are_refused_with_both_numbers(tiny: EmbeddingSpace, cache: Path) -> None:
    for runtime in ("onnxruntime", "sentence-transformers"):
        with pytest.raises(ConfigurationError, match=r"dimensions = 384, but model .* has 32"):
            load_embedder(replace(tiny, dimensions=384), runtime=runtime)


def test_a_graph_that_ranks_worse_is_not_used_in_int8(
    tiny: EmbeddingSpace, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MIN_COSINE_INT8", 1.1)
    embedder = load_embedder(tiny)
    reference = load_embedder(tiny, runtime="sentence-transformers")
    assert embedder.runtime == "onnxruntime fp32"
    assert cosines(embedder.embed_documents(["the cat"]), reference.embed_documents(["the cat"])).min() >= 0.9999
    card = json.loads((exported(cache) / CARD).read_text())
    assert card["precision"] == "fp32"
    assert card["self_test"]["fp32"]["cosine_least"] >= 0.9999
    assert card["self_test"]["int8"]["cosine_mean"] < 1.1


def test_a_model_that_cannot_be_exported_runs_natively_unless_the_graph_is_asked_for(
    tiny: EmbeddingSpace, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MIN_COSINE_FLOAT", 1.1)
    with pytest.raises(ModelUnavailable, match="gives other vectors"):
        load_embedder(tiny, runtime="onnxruntime")
    assert load_embedder(tiny).runtime == "sentence-transformers"
    assert list((cache / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "damage"),
    [(GRAPH, "truncated"), (GRAPH, "altered"), (TOKENIZER, "missing"), (CARD, "truncated"), (CARD, "missing")],
)
def test_a_damaged_export_is_made_again(name: str, damage: str, tiny: EmbeddingSpace, cache: Path) -> None:
    before = load_embedder(tiny).embed_documents(["the cat"])
    path = exported(cache) / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"\x00" + content[1:])
    assert load_embedder(tiny).embed_documents(["the cat"]).tolist() == before.tolist()
    assert [entry.name for entry in exported(cache).iterdir() if entry.name == name] == [name]


def test_an_intact_export_is_not_made_again(tiny: EmbeddingSpace, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_embedder(tiny)
    monkeypatch.setattr(export, "export", None)
    assert load_embedder(tiny).embed_queries(["cat"]).shape == (1, 32)


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


def start(space: EmbeddingSpace, cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "AIDRE_CACHE": str(cache)}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(space.model)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_two_processes_may_export_at_once_and_then_nothing_of_torch_is_imported(
    tiny: EmbeddingSpace, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    answers = [process.communicate(timeout=300) for process in [start(tiny, cache), start(tiny, cache)]]
    assert [stderr for _, stderr in answers] == ["", ""]
    assert answers[0][0].splitlines()[0] == answers[1][0].splitlines()[0]
    assert [path.name for path in exported(cache).parent.iterdir() if path.name.startswith(".")] == []
    vectors, imported = start(tiny, cache).communicate(timeout=300)[0].splitlines()
    assert vectors == answers[0][0].splitlines()[0]
    assert imported == "[]"


def test_a_cache_that_cannot_be_written_is_replaced_by_a_private_temporary_one(
    tiny: EmbeddingSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert load_embedder(tiny).embed_queries(["cat"]).shape == (1, 32)
    private = tmp_path / f"aidre-{os.getuid()}"
    assert private.stat().st_mode & 0o077 == 0
    assert exported(private).is_dir()
