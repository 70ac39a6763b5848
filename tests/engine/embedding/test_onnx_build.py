"""The default model's files, built without torch: their self-test, their faults, and a process that has no torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding import self_test
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.embedding.graph import CARD, NotExportable
from aidre.engine.embedding.models import DEFAULT
from aidre.engine.embedding.onnx import build
from aidre.engine.embedding.self_test import probe_texts, reference_of
from aidre.engine.embedding.weights import ModelWeights, find_weights
from aidre.engine.errors import ModelUnavailable
from tests.support.clocks import WAIT_SECONDS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def weights() -> ModelWeights:
    return find_weights(DEFAULT_SPACE.model or "")


def test_the_kept_reference_is_that_of_sentence_transformers(default_reference: Embedder) -> None:
    """After a change of the probes: np.save(self_test.REFERENCES[DEFAULT.digest], rows.astype(np.float16))."""
    rows = default_reference.embed_documents(probe_texts())
    np.testing.assert_allclose(reference_of(DEFAULT.digest), rows, atol=2e-4)


def test_the_default_model_is_built_in_int8_within_the_bounds_of_its_self_test(cache: Path) -> None:
    embedder = load_embedder(DEFAULT_SPACE)
    assert (embedder.runtime, embedder.max_tokens) == ("onnxruntime int8", 254)
    [folder] = (cache / "models").iterdir()
    card = json.loads((folder / CARD).read_text())
    assert card["self_test"]["int8"]["cosine_mean"] >= 0.99
    assert card["self_test"]["int8"]["ndcg"] >= card["self_test"]["int8"]["reference_ndcg"] - 0.005
    assert sorted(path.name for path in folder.iterdir()) == [CARD, "graph.onnx", "tokenizer.json"]


def test_stores_of_the_default_model_stay_valid(cache: Path) -> None:
    """The revision is a part of each stored embedding's key: another one means to embed all texts again."""
    assert load_embedder(DEFAULT_SPACE).space.revision == "sha256:53aa51172d142c89;mean;l2;length=256;v1"


def test_float32_is_used_where_int8_ranks_worse(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "MIN_COSINE_INT8", 1.1)
    embedder = load_embedder(DEFAULT_SPACE)
    assert embedder.runtime == "onnxruntime fp32"
    [folder] = (cache / "models").iterdir()
    assert json.loads((folder / CARD).read_text())["self_test"]["fp32"]["cosine_least"] >= 0.9999


def test_a_machine_that_computes_other_vectors_gets_no_graph(
    weights: ModelWeights, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = reference_of(DEFAULT.digest)[::-1]
    monkeypatch.setattr("aidre.engine.embedding.onnx.reference_of", lambda digest: wrong)
    with pytest.raises(NotExportable, match="gives other vectors on this machine"):
        build(weights, cache / "models" / "key")
    assert list((cache / "models").iterdir()) == []


@pytest.mark.parametrize("missing", ["config.json", "sentence_bert_config.json", "model.safetensors"])
def test_an_incomplete_folder_is_named(missing: str, weights: ModelWeights, cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "sentence_bert_config.json", "model.safetensors"):
        if name != missing:
            shutil.copy(weights.folder / name, folder)
    with pytest.raises(ModelUnavailable, match=r"install (it|the model) again") as caught:
        build(replace(weights, folder=folder), cache / "models" / "key")
    assert missing in str(caught.value)


PROGRAM = """
import sys
absent = "torch transformers sentence_transformers huggingface_hub safetensors scipy sklearn onnx google.protobuf"
sys.modules.update(dict.fromkeys(absent.split()))  # an import of these fails
from dataclasses import replace
from aidre.engine.embedding import DEFAULT_SPACE, load_embedder
from aidre.engine.errors import ModelUnavailable
embedder = load_embedder(DEFAULT_SPACE)
print(embedder.runtime, embedder.embed_queries(["the cat"]).shape)
print([name for name in ("onnxruntime.quantization", "onnxruntime.transformers") if name in sys.modules])
try:
    load_embedder(replace(DEFAULT_SPACE, model=sys.argv[1]))
except ModelUnavailable as error:
    print(error)
"""


@pytest.mark.process
def test_a_process_without_torch_runs_the_default_model_from_an_empty_cache(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"weights")
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(other)]
    environment = {**os.environ, "AIDRE_CACHE": str(tmp_path / "cache")}
    run = subprocess.run(command, env=environment, text=True, capture_output=True, check=False, timeout=WAIT_SECONDS)
    assert (run.returncode, run.stderr) == (0, "")
    first, imported, refusal = run.stdout.splitlines()
    assert (first, imported) == ("onnxruntime int8 (1, 384)", "[]")
    assert str(other) in refusal
    assert "needs package sentence-transformers, which is not installed: run `pip install" in refusal
