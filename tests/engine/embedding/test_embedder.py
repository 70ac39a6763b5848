"""Embedders: the choice of one, the hashing embedder, keys, and what identifies a model's weights."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding import weights
from aidre.engine.embedding.embedder import DEFAULT_SPACE, embedding_key, load_embedder, load_stored
from aidre.engine.errors import ConfigurationError, ModelUnavailable
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


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "cache"


def model_folder(path: Path, pooling: str = '{"pooling_mode_mean_tokens": true}', weights: bytes = b"weights") -> Path:
    (path / "1_Pooling").mkdir(parents=True)
    (path / "model.safetensors").write_bytes(weights)
    (path / "1_Pooling" / "config.json").write_text(pooling)
    (path / "modules.json").write_text(
        '[{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"},'
        ' {"path": "2_Normalize", "type": "a.Normalize"}]'
    )
    return path


def test_hashing_vectors_are_unit_rows_of_the_declared_shape_for_any_text() -> None:
    rows = load_embedder(HASHING).embed_documents(TEXTS)
    assert rows.shape == (len(TEXTS), 64)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-6)


def test_hashing_gives_all_texts_without_words_the_same_vector() -> None:
    blank, spaces, marks = load_embedder(HASHING).embed_documents(["", " \n", "!?"])
    assert blank.tolist() == spaces.tolist() == marks.tolist()


def test_hashing_is_the_same_in_every_process() -> None:
    program = (
        "from aidre.engine.embedding.hashing import HashingEmbedder\n"
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
    assert embedder.token_offsets("two wörds") == [(0, 3), (4, 9)]


def test_no_texts_make_an_empty_array_with_columns() -> None:
    assert load_embedder(HASHING).embed_documents([]).shape == (0, 64)


def test_the_returned_space_names_its_revision() -> None:
    assert load_embedder(HASHING).space == replace(HASHING, revision="hashing;v1")


@pytest.mark.parametrize("changed", [{"id": "other"}, {"revision": "2"}, {"precision": "float32"}])
def test_an_embedding_key_depends_on_the_space(changed: dict[str, str]) -> None:
    key = embedding_key(HASHING, "text")
    assert len(key) == 16
    assert key == embedding_key(replace(HASHING), "text")
    assert key != embedding_key(replace(HASHING, **changed), "text")  # type: ignore[arg-type]  # one member at a time


def test_a_precision_that_the_engine_would_choose_itself_makes_no_other_key() -> None:
    assert embedding_key(replace(HASHING, precision="float16"), "text") == embedding_key(HASHING, "text")


def test_vectors_of_another_revision_get_no_embedder_for_queries() -> None:
    assert load_stored(load_embedder(HASHING).space).space.revision == "hashing;v1"
    with pytest.raises(ModelUnavailable, match="another revision"):
        load_stored(replace(HASHING, revision="hashing;v0"))


def test_an_embedding_key_depends_on_every_character() -> None:
    texts = ["", " ", "text", "text ", "Text", "te\u0301xt", "t\u00e9xt", "\ud800"]
    assert len({embedding_key(HASHING, text) for text in texts}) == len(texts)


def test_an_embedding_key_keeps_its_parts_apart() -> None:
    first, second = replace(HASHING, revision="a"), replace(HASHING, revision="ab")
    assert embedding_key(first, "bc") != embedding_key(second, "c")


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


def test_weights_of_the_default_model_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "altered_model"
    model_folder(package / "model", weights=b"altered")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(weights, "DEFAULT_PACKAGE", "altered_model")
    with pytest.raises(ModelUnavailable, match="altered_model are not those of"):
        load_embedder(DEFAULT_SPACE)


def test_a_missing_package_of_the_default_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "DEFAULT_PACKAGE", "no_such_model_package")
    with pytest.raises(ModelUnavailable, match="needs package no_such_model_package"):
        load_embedder(DEFAULT_SPACE)


def test_weights_that_are_a_pickle_are_refused(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match=r"no \*\.safetensors"):
        weights.find_weights(str(folder))


def test_the_revision_tells_weights_and_pooling_apart(tmp_path: Path) -> None:
    folders = [
        model_folder(tmp_path / "a"),
        model_folder(tmp_path / "b", weights=b"others"),
        model_folder(tmp_path / "c", pooling='{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'),
    ]
    revisions = [weights.find_weights(str(folder)).revision for folder in folders]
    assert len(set(revisions)) == 3
    assert [revision.split(";")[1:] for revision in revisions] == [["mean", "l2", "v1"]] * 2 + [["cls", "l2", "v1"]]


def test_the_revision_follows_weights_that_change_in_place(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    before = weights.find_weights(str(folder)).digest
    assert weights.find_weights(str(folder)).digest == before
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert weights.find_weights(str(folder)).digest != before


def test_an_operators_label_stays_behind_the_revision_however_often_it_is_loaded() -> None:
    once = weights.with_label("sha256:ab;mean;v1", "spring")
    assert once == "sha256:ab;mean;v1;spring"
    assert weights.with_label("sha256:cd;mean;v1", once) == "sha256:cd;mean;v1;spring"
    assert weights.with_label("sha256:cd;mean;v1", "sha256:ab;mean;v1") == "sha256:cd;mean;v1"


def test_the_runtime_tells_its_maker_nothing(tmp_path: Path) -> None:
    """It would keep an id of this machine and what it has to tell in the user's cache folder, and send it."""
    told = {"CI", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS"}
    environment = {name: value for name, value in os.environ.items() if name not in told}
    program = "import aidre.engine.embedding.onnx, onnxruntime"
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert list(tmp_path.iterdir()) == []


def test_importing_embed_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'onnxruntime', 'tokenizers'}"
    program = f"import sys, aidre.engine.embedding.embedder; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
