"""Weights: where the folder of a model is, and what its revision tells apart."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aidre.engine.embedding import weights
from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.embedding.models import DEFAULT, KNOWN
from aidre.engine.errors import ModelUnavailable

pytestmark = pytest.mark.usefixtures("cache")


def model_folder(path: Path, pooling: str = '{"pooling_mode_mean_tokens": true}', weights: bytes = b"weights") -> Path:
    (path / "1_Pooling").mkdir(parents=True)
    (path / "model.safetensors").write_bytes(weights)
    (path / "1_Pooling" / "config.json").write_text(pooling)
    (path / "modules.json").write_text(
        '[{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"},'
        ' {"path": "2_Normalize", "type": "a.Normalize"}]'
    )
    return path


def test_weights_of_the_default_model_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "altered_model"
    model_folder(package / "model", weights=b"altered")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setitem(KNOWN, "default", replace(DEFAULT, module="altered_model"))
    with pytest.raises(ModelUnavailable, match="altered_model/model are not those of all-MiniLM-L6-v2: run `aidre"):
        load_embedder(DEFAULT_SPACE)


def test_the_default_model_of_a_package_needs_no_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "packaged_model"
    model_folder(package / "model", weights=b"packaged")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setenv("AIDRE_OFFLINE", "1")
    packaged = replace(DEFAULT, module="packaged_model", digest=hashlib.sha256(b"packaged").hexdigest())
    monkeypatch.setitem(KNOWN, "default", packaged)
    assert weights.find_weights(DEFAULT.model).folder == package / "model"


def test_a_default_model_that_is_not_here_is_named_where_nothing_may_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setitem(KNOWN, "default", replace(DEFAULT, module="no_such_model_package"))
    with pytest.raises(ModelUnavailable, match="the default model is not here: run `aidre model add default`"):
        load_embedder(DEFAULT_SPACE, fetch=False)
    monkeypatch.setenv("AIDRE_OFFLINE", "1")
    with pytest.raises(ModelUnavailable, match=r"AIDRE_OFFLINE forbids to fetch it: .* copy DIR/weights to .*cache"):
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


def test_a_name_on_the_hub_is_not_downloaded_without_sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelUnavailable, match=r"'somebody/model' needs package sentence-transformers, .* run `pip"):
        weights.find_weights("somebody/model")
