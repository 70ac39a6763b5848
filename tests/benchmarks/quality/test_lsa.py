"""Latent semantic vectors: unit rows, in which texts about one thing are closer than others."""

from __future__ import annotations

import numpy as np

from benchmarks.quality.lsa import fit

TEXTS = [f"{subject} {word} {word} and {subject}" for subject in ("tea", "rain") for word in ("green", "cold", "warm")]


def test_texts_with_common_words_are_close() -> None:
    rows = fit(TEXTS, 4).project(TEXTS)
    assert rows.shape == (6, 4)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    scores = rows @ rows.T
    assert scores[0, 1] > scores[0, 4]
    assert scores[0, 3] > scores[0, 4]


def test_a_text_without_a_known_word_has_no_vector() -> None:
    projection = fit(TEXTS, 4)
    assert len(projection.project(["bread", "green tea"])) == 1
