"""What the tests of embedding share: a cache of their own, the default model, and small models with random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import EmbeddingSpace
from tests.support.embeddings import api


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def default_embedder() -> Embedder:
    """The default model from the ordinary cache: to build it takes longer than most tests that use it."""
    return load_embedder(DEFAULT_SPACE)


@pytest.fixture(scope="session")
def default_reference() -> Embedder:
    return load_embedder(DEFAULT_SPACE, runtime="sentence-transformers")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., EmbeddingSpace]:
    """Makes a model of two small layers with random weights, as sentence-transformers saves it; each model once."""
    made: dict[str, EmbeddingSpace] = {}

    def make(pooling: str = "mean", normalize: bool = True, **arguments: Any) -> EmbeddingSpace:
        key = json.dumps([pooling, normalize, arguments], sort_keys=True)
        if key not in made:
            folder = save_tiny_model(tmp_path_factory.mktemp("tiny"), pooling, normalize, arguments)
            made[key] = EmbeddingSpace("tiny", 32, "cosine", normalize, "sentence-transformers", str(folder))
        return made[key]

    return make


def save_tiny_model(folder: Path, pooling: str, normalize: bool, arguments: dict[str, Any]) -> Path:
    """The folder of the saved model."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import AutoTokenizer, BertConfig, BertModel

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
    model = SentenceTransformer(modules=[*modules, *([Normalize()] if normalize else [])], device="cpu", **arguments)
    model.save(str(folder / "saved"))
    return folder / "saved"
