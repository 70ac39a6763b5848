"""An exported model: its vectors and tokens, shared by threads, and a cache whose damage is noticed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding import export
from aidre.engine.embedding.cache import publish, staging
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder
from aidre.engine.embedding.graph import CARD, GRAPH, TOKENIZER, Card, read_card, sha256_of
from aidre.engine.embedding.models import DEFAULT
from aidre.engine.embedding.onnx import export_key, load_exported
from aidre.engine.embedding.self_test import probes
from aidre.engine.embedding.weights import ModelWeights
from aidre.engine.errors import ConfigurationError, ModelUnavailable

LONG = "word " * 1000


# -- the default model -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_default_model_finds_the_passage_that_answers_a_query(default_embedder: Embedder) -> None:
    queries, passages = zip(*probes(), strict=True)
    scores = default_embedder.embed_queries(queries) @ default_embedder.embed_documents(passages).T
    assert (scores.argmax(axis=1) == np.arange(len(probes()))).mean() >= 0.95


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
    assert len(np.unique(together.round(3), axis=0)) == len(texts)


def test_a_long_text_is_embedded_by_its_beginning(default_embedder: Embedder) -> None:
    within = "word " * default_embedder.max_tokens
    whole, beginning, shorter = default_embedder.embed_documents([LONG, within, within[:-10] + " cat"])
    assert whole.tolist() == beginning.tolist() != shorter.tolist()


def test_tokens_are_counted_without_special_ones_and_without_a_limit(default_embedder: Embedder) -> None:
    texts = ["Hello wörld, 日本", "", LONG]
    assert default_embedder.count_tokens(texts) == [5, 0, 1000]


@pytest.mark.slow
def test_threads_may_share_an_embedder(default_embedder: Embedder) -> None:
    texts = [f"passage {number} about {'cats ' * (number % 7)}" for number in range(12)]
    expected, counted = default_embedder.embed_documents(texts), default_embedder.count_tokens(texts)

    def embed(turn: int) -> tuple[np.ndarray, list[int]]:
        return default_embedder.embed_documents(texts[turn:]), default_embedder.count_tokens(texts)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(embed, range(8)))
    assert [rows.tolist() for rows, _ in answers] == [expected[turn:].tolist() for turn in range(8)]
    assert [counts for _, counts in answers] == [counted] * 8


# -- the cache of exports --------------------------------------------------------------------------------------


WEIGHTS = ModelWeights(Path("model"), "digest", "sha256:digest;mean;l2;v1")
SPACE = replace(DEFAULT_SPACE, dimensions=32)


@pytest.fixture
def exports(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replaces the export by one that writes small files in its way; lists the folders of all that were made."""
    made: list[Path] = []

    def write(weights: ModelWeights, target: Path) -> None:
        made.append(target)
        with staging(target.parent) as folder:
            (folder / GRAPH).write_bytes(b"graph")
            (folder / TOKENIZER).write_bytes(b"tokenizer")
            files = {name: sha256_of(folder / name) for name in (GRAPH, TOKENIZER)}
            Card("int8", 32, 24, 2, True, {"query": "", "document": ""}, {}, files).write(folder)
            publish(folder, target, lambda path: read_card(path) is not None)

    monkeypatch.setattr(export, "export", write)
    return made


def test_an_intact_export_is_not_made_again(exports: list[Path], cache: Path) -> None:
    for _ in range(2):
        embedder = load_exported(SPACE, WEIGHTS)
        assert (embedder.runtime, embedder.max_tokens) == ("onnxruntime int8", 22)
        assert embedder.space == replace(SPACE, revision=WEIGHTS.revision)
    assert exports == [cache / "models" / export_key(WEIGHTS)]


def test_each_model_has_an_export_of_its_own(exports: list[Path], cache: Path) -> None:
    others = [WEIGHTS, replace(WEIGHTS, digest="other"), replace(WEIGHTS, revision="sha256:digest;cls;l2;v1")]
    for weights in others:
        load_exported(SPACE, weights)
    assert len(set(exports)) == len(list((cache / "models").iterdir())) == 3


def test_only_the_export_of_a_traced_model_depends_on_the_version_of_the_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    default = ModelWeights(Path("model"), DEFAULT.digest, DEFAULT.revision)
    pooled_otherwise = replace(default, revision=DEFAULT.revision.replace("mean", "cls"))
    before = [export_key(one) for one in (default, pooled_otherwise, WEIGHTS)]
    monkeypatch.setattr("aidre.engine.embedding.onnx.version", lambda name: "1.99")
    after = [export_key(one) for one in (default, pooled_otherwise, WEIGHTS)]
    assert [first == second for first, second in zip(before, after, strict=True)] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((GRAPH, "truncated"), (GRAPH, "altered"), (GRAPH, "missing"), (TOKENIZER, "altered"), (TOKENIZER, "missing")),
        *((CARD, "truncated"), (CARD, "altered"), (CARD, "missing")),
    ],
)
def test_a_damaged_export_is_made_again(name: str, damage: str, exports: list[Path]) -> None:
    load_exported(SPACE, WEIGHTS)
    path = exports[0] / name
    sound = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(sound[: len(sound) // 2] if damage == "truncated" else b"\x00" + sound[1:])
    load_exported(SPACE, WEIGHTS)
    assert exports == [exports[0]] * 2
    assert path.read_bytes() == sound
    assert list(exports[0].parent.iterdir()) == [exports[0]]


def test_an_export_that_is_damaged_right_after_writing_is_refused(
    exports: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "export", lambda weights, target: target.mkdir(parents=True))
    with pytest.raises(ModelUnavailable, match="damaged right after writing: check the disk"):
        load_exported(SPACE, WEIGHTS)


def test_wrong_dimensions_are_refused_with_both_numbers(exports: list[Path]) -> None:
    with pytest.raises(ConfigurationError, match=r"dimensions = 384, but model .* has 32") as caught:
        load_exported(DEFAULT_SPACE, WEIGHTS)
    assert (caught.value.details["expected_dimensions"], caught.value.details["actual_dimensions"]) == (32, 384)
