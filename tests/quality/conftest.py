"""The default model, and the documents in samples/ with their embeddings, which take nearly all of the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder
from benchmarks.quality.bench_quality import ingested
from tests.quality.remembered import load_remembering
from tests.support.kept import kept, of_run

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    """The default model."""
    return load_remembering(DEFAULT_SPACE)


@pytest.fixture(scope="session")
def samples(embedder: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of them, in the collection `samples`; no test writes into it."""

    def fill(folder: Path) -> None:
        ingested(Store(folder / "store"), "samples", SAMPLES, embedder)

    return kept(of_run(tmp_path_factory) / "samples", fill) / "store"
