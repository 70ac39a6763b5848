"""Models of other languages: a folder as that of multilingual E5, with its tokenizer, its prefixes and its lengths,
agrees in both runtimes with sentence-transformers itself.

torch is imported by the functions that need it: importing it takes seconds, so all of this module is slow.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.embedding.embedder import Embedder, load_embedder, load_stored
from aidre.engine.embedding.weights import dimensions_of
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import Document, EmbeddingSpace
from aidre.ingest.pipeline.ingest import chunker_for
from tests.support.models import E5_PROMPTS, POSITIONS, save_multilingual, save_static

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]

TEXTS = ["the cat", "die Katze", "日本語 äö", "", "word " * 100]


def space_of(folder: Path, **members: Any) -> EmbeddingSpace:
    return EmbeddingSpace("e5", dimensions_of(str(folder)), "cosine", True, model=str(folder), **members)


def reference_vectors(folder: Path, prefix: str) -> np.ndarray:
    """By sentence-transformers, whose documentation adds prefixes so; which fails where a text is longer than a model
    has positions for."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    if model.max_seq_length == POSITIONS:
        model.max_seq_length = POSITIONS - 2
    return np.asarray(model.encode(TEXTS, prompt=prefix, normalize_embeddings=True))


def least_cosine(rows: np.ndarray, others: np.ndarray) -> float:
    return float((rows * others).sum(axis=1).min())


@pytest.fixture(scope="module")
def e5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_multilingual(tmp_path_factory.mktemp("e5"), prompts=E5_PROMPTS)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model without prompts, and without a length of its own."""
    return save_multilingual(tmp_path_factory.mktemp("bare"), max_length=None)


@pytest.mark.parametrize(
    ("pooling", "options", "part"),
    [
        ("mean", {}, ";mean;l2;prompts="),
        ("cls", {"normalize": False}, ";cls;raw;prompts="),
        ("max", {"dense": 16}, ";max;l2;Dense;prompts="),
    ],
)
def test_an_export_agrees_with_sentence_transformers_by_the_prefixes_of_the_folder(
    pooling: str, options: dict[str, Any], part: str, tmp_path: Path
) -> None:
    folder = save_multilingual(tmp_path, pooling, prompts=E5_PROMPTS, **options)
    embedder = load_embedder(space_of(folder), runtime="onnxruntime")
    assert part in (embedder.space.revision or "")
    assert embedder.space.dimensions == options.get("dense", 32)
    assert least_cosine(embedder.embed_queries(TEXTS), reference_vectors(folder, "query: ")) >= 0.999
    assert least_cosine(embedder.embed_documents(TEXTS), reference_vectors(folder, "passage: ")) >= 0.999
    native = load_embedder(space_of(folder), runtime="sentence-transformers")
    assert native.space == embedder.space
    assert (native.max_tokens, native.count_tokens(TEXTS)) == (embedder.max_tokens, embedder.count_tokens(TEXTS))
    assert least_cosine(native.embed_documents(TEXTS), reference_vectors(folder, "passage: ")) >= 0.9999
    assert least_cosine(native.embed_queries(TEXTS), reference_vectors(folder, "query: ")) >= 0.9999


def test_prefixes_that_a_space_declares_are_used_and_are_part_of_its_identity(bare: Path) -> None:
    plain = load_embedder(space_of(bare))
    declared = space_of(bare, query_prefix="query: ", document_prefix="passage: ")
    assert least_cosine(plain.embed_queries(TEXTS), reference_vectors(bare, "")) >= 0.999
    for runtime in ("onnxruntime", "sentence-transformers"):
        embedder = load_embedder(declared, runtime=runtime)
        assert least_cosine(embedder.embed_queries(TEXTS), reference_vectors(bare, "query: ")) >= 0.999
        assert least_cosine(embedder.embed_documents(TEXTS), reference_vectors(bare, "passage: ")) >= 0.999
        assert load_stored(embedder.space, runtime=runtime).space == embedder.space
        assert plain.max_tokens - embedder.max_tokens == embedder.count_tokens(["passage: "])[0]
    labelled = load_embedder(replace(declared, revision="mine")).space
    assert load_stored(labelled).space == labelled
    others = [replace(declared, query_prefix=None), replace(declared, document_prefix="")]
    assert len({load_embedder(space).space.revision for space in (space_of(bare), declared, *others)}) == 4
    with pytest.raises(ModelUnavailable, match="another revision"):
        load_stored(replace(embedder.space, query_prefix="question: "))


def test_the_empty_prefix_of_a_space_switches_that_of_the_folder_off(e5: Path) -> None:
    embedder = load_embedder(space_of(e5, document_prefix=""))
    assert least_cosine(embedder.embed_documents(TEXTS), reference_vectors(e5, "")) >= 0.999
    assert least_cosine(embedder.embed_queries(TEXTS), reference_vectors(e5, "query: ")) >= 0.999


@pytest.mark.parametrize("runtime", ["onnxruntime", "sentence-transformers"])
def test_a_chunk_with_its_prefix_fits_the_model_by_the_models_own_tokenizer(e5: Path, runtime: str) -> None:
    embedder = load_embedder(space_of(e5), runtime=runtime)
    code = "```\n" + "日本語 äö\n" * 30 + "```\n"
    chunker = chunker_for([embedder.space], {"e5": embedder})
    made = Document("a", f"# the cat\n\n{'die Katze. ' * 60}\n\n{code}", title="the cat " * 5)
    chunks = chunker.chunks(made)
    assert len(chunks) > 3
    inputs = ["passage: " + chunker.embedding_input(made, chunk) for chunk in chunks]
    assert max(embedder.count_tokens(inputs)) <= 48 - 2
    assert max(embedder.count_tokens(inputs)) > 48 // 2, "and uses what the model reads"


def test_a_model_without_a_length_of_its_own_reads_as_far_as_it_has_positions(bare: Path) -> None:
    embedders = [load_embedder(space_of(bare), runtime=runtime) for runtime in ("onnxruntime", "sentence-transformers")]
    assert [embedder.max_tokens for embedder in embedders] == [POSITIONS - 2 - 2] * 2
    first, second = (embedder.embed_documents(["die Katze " * 500]) for embedder in embedders)
    assert least_cosine(first, second) >= 0.999


def test_a_static_model_is_run_by_sentence_transformers(tmp_path: Path) -> None:
    folder = save_static(tmp_path, 16)
    with pytest.raises(ModelUnavailable, match="declare dimensions = N"):
        dimensions_of(str(folder))
    embedder: Embedder = load_embedder(EmbeddingSpace("static", 16, "cosine", True, model=str(folder)))
    assert (embedder.runtime, embedder.max_tokens) == ("sentence-transformers", 510)
    assert embedder.count_tokens(["die Katze"]) == [2]
    assert least_cosine(embedder.embed_queries(TEXTS[:3]), reference_vectors(folder, "")[:3]) >= 0.9999


def test_a_model_whose_tokenizer_has_no_fast_form_is_refused_by_name(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer

    class SlowTokenizer: ...

    monkeypatch.setattr(SentenceTransformer, "tokenizer", SlowTokenizer())
    for runtime in ("onnxruntime", "sentence-transformers"):
        with pytest.raises(ModelUnavailable, match="tokenizer of type SlowTokenizer"):
            load_embedder(space_of(bare), runtime=runtime)
