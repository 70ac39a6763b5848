"""Calibration that costs little, for tests that need a scan and do not ask how well it was measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aidre.engine.index.vectors import quantizer
from aidre.engine.search import calibration, query_samples


@contextmanager
def measured_quickly() -> Iterator[None]:
    """Codebooks are trained on few rows in few iterations, and few rows are sampled as queries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantizer, "_CODE_ITERATIONS", 4)
        patch.setattr(calibration, "MAX_TRAINING_ROWS", 640)  # FAISS warns of fewer than 39 for each of 16 centroids
        patch.setattr(query_samples, "SAMPLED_QUERIES", 50)
        yield


@pytest.fixture
def quick_calibration() -> Iterator[None]:
    with measured_quickly():
        yield
