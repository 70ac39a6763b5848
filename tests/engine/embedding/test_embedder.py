"""The choice of an embedder, embedding keys, and what importing an embedder does not do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aidre.engine.embedding.embedder import DEFAULT_SPACE, embedding_keys, load_embedder, load_stored
from aidre.engine.errors import ConfigurationError, ModelUnavailable
from aidre.engine.model import EmbeddingSpace

HASHING = EmbeddingSpace("words", dimensions=64, distance="cosine", normalized=True, provider="aidre", model="hashing")


pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize("changed", [{"id": "other"}, {"revision": "2"}, {"precision": "float32"}])
def test_an_embedding_key_depends_on_the_space(changed: dict[str, str]) -> None:
    keys = embedding_keys(HASHING, ["text"])
    assert [len(one) for one in keys] == [16]
    assert keys == embedding_keys(replace(HASHING), ["text"])
    assert keys != embedding_keys(replace(HASHING, **changed), ["text"])  # type: ignore[arg-type]  # one member at a time


def test_a_precision_that_the_engine_would_choose_itself_makes_no_other_key() -> None:
    assert embedding_keys(replace(HASHING, precision="float16"), ["text"]) == embedding_keys(HASHING, ["text"])


def test_vectors_of_another_revision_get_no_embedder_for_queries() -> None:
    assert load_stored(load_embedder(HASHING).space).space.revision == "hashing;v1"
    with pytest.raises(ModelUnavailable, match="another revision"):
        load_stored(replace(HASHING, revision="hashing;v0"))


def test_an_embedding_key_depends_on_every_character() -> None:
    texts = ["", " ", "text", "text ", "Text", "te\u0301xt", "t\u00e9xt", "\ud800"]
    assert len(set(embedding_keys(HASHING, texts))) == len(texts)


def test_an_embedding_key_keeps_its_parts_apart() -> None:
    first, second = replace(HASHING, revision="a"), replace(HASHING, revision="ab")
    assert embedding_keys(first, ["bc"]) != embedding_keys(second, ["c"])


def test_a_space_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no model"):
        load_embedder(replace(HASHING, model=None))


def test_an_unknown_runtime_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="'openvino' is unknown: use one of auto, onnxruntime"):
        load_embedder(DEFAULT_SPACE, runtime="openvino")


def test_an_unknown_provider_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="provider 'oracle'"):
        load_embedder(replace(DEFAULT_SPACE, provider="oracle"))


@pytest.mark.parametrize("name", ["nowhere", "./nowhere", "/nowhere/at/all", "somebody/not-on-this-machine"])
def test_a_model_that_is_not_there_is_named_on_one_line(name: str) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        load_embedder(replace(DEFAULT_SPACE, model=name))
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.process
def test_the_runtime_tells_its_maker_nothing(tmp_path: Path) -> None:
    """It would keep an id of this machine and what it has to tell in the user's cache folder, and send it."""
    told = {"CI", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS"}
    environment = {name: value for name, value in os.environ.items() if name not in told}
    program = "import aidre.engine.embedding.onnx, onnxruntime"
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_importing_embed_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'onnxruntime', 'tokenizers'}"
    program = f"import sys, aidre.engine.embedding.embedder; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
