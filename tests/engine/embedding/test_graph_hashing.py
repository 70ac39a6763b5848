"""The hashing embedder: unit vectors of any text, the same in every process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from aidre.engine.embedding.embedder import load_embedder
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace

HASHING = EmbeddingSpace("words", dimensions=64, distance="cosine", normalized=True, provider="aidre", model="hashing")
TEXTS = [
    "the cat sat on the mat",
    "a dog barked",
    "",
    "   \n",
    "日本語 words",
    "!?",
    "x" * 100_000,
    "lone \ud800 surrogate",
]


def test_hashing_vectors_are_unit_rows_of_the_declared_shape_for_any_text() -> None:
    rows = load_embedder(HASHING).embed_documents(TEXTS)
    assert rows.shape == (len(TEXTS), 64)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-6)


def test_hashing_gives_all_texts_without_words_the_same_vector() -> None:
    blank, spaces, marks = load_embedder(HASHING).embed_documents(["", " \n", "!?"])
    assert blank.tolist() == spaces.tolist() == marks.tolist()


@pytest.mark.process
def test_hashing_is_the_same_in_every_process() -> None:
    program = (
        "from aidre.engine.embedding.graph import HashingEmbedder\n"
        "from aidre.engine.model import EmbeddingSpace\n"
        "space = EmbeddingSpace('words', 64, 'cosine', True, 'aidre', 'hashing')\n"
        "print(HashingEmbedder(space).embed_queries(['the cat sat']).tobytes().hex())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == load_embedder(HASHING).embed_queries(["the cat sat"]).tobytes().hex()


def test_hashing_puts_texts_that_share_words_closer_than_texts_that_do_not() -> None:
    embedder = load_embedder(replace(HASHING, dimensions=512))
    query, near, far = embedder.embed_documents(["cat on mat", "The cat sat on the mat.", "interest rates rise"])
    assert query @ near > 0.5 > query @ far


def test_hashing_tokens_are_words() -> None:
    embedder = load_embedder(HASHING)
    assert embedder.count_tokens(["two words", ""]) == [2, 0]


def test_no_texts_make_an_empty_array_with_columns() -> None:
    assert load_embedder(HASHING).embed_documents([]).shape == (0, 64)


def test_the_returned_space_names_its_revision() -> None:
    assert load_embedder(HASHING).space == replace(HASHING, revision="hashing;v1")


def test_a_space_without_dimensions_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="dimensions must be at least 1, not 0"):
        load_embedder(replace(HASHING, dimensions=0))
