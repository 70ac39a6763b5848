"""A shell for tests: commands run in this process, against a store and a configuration of their own."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from aidre.api.cli.main import run

CONFIGURATION = """
[[spaces]]
id = "words"
dimensions = 64
distance = "cosine"
provider = "aidre"
model = "hashing"
[[spaces]]
id = "given"
dimensions = 2
distance = "euclidean"
[collections.docs]
description = "Three short texts"
spaces = ["words"]
[collections.more]
spaces = ["words"]
[collections.both]
spaces = ["words", "given"]
"""
TEXTS = {
    "tea": "Green tea is steeped in water that does not boil.",
    "rain": "A rain jacket has taped seams and a hood.",
    "bread": "Sourdough bread rises overnight.",
}


COMMAND = (sys.executable, "-m", "aidre.api.cli.main")
"""The command as a process of its own."""


class Shell:
    """Runs commands against one store and one configuration, in this process."""

    def __init__(self, folder: Path, captured: pytest.CaptureFixture[str]) -> None:
        self.store = folder / "store"
        self.config = folder / "aidre.toml"
        self.source = folder / "texts"
        self._captured = captured
        if not self.source.exists():
            write_sources(folder)

    def run(self, *words: str | Path) -> tuple[int, str, str]:
        self._captured.readouterr()
        status = run([str(word) for word in words])
        printed = self._captured.readouterr()
        return status, printed.out, printed.err

    def json(self, *words: str | Path) -> list[dict[str, Any]]:
        status, out, err = self.run(*words, "--store", self.store, "--json")
        assert status == 0, err
        return [json.loads(line) for line in out.splitlines()]

    def ingest(self, *more: str | Path, collection: str = "docs") -> tuple[int, list[dict[str, Any]], str]:
        words = ("ingest", *(more or (self.source,)), "--store", self.store, "--collection", collection)
        status, out, err = self.run(*words, "--config", self.config, "--json")
        return status, [json.loads(line) for line in out.splitlines()], err


def write_sources(folder: Path) -> None:
    """The configuration, and the texts to be ingested."""
    (folder / "aidre.toml").write_text(CONFIGURATION, encoding="utf-8")
    (folder / "texts").mkdir()
    for name, text in TEXTS.items():
        (folder / "texts" / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", encoding="utf-8")


def ingest(folder: Path, *options: str) -> None:
    """What the sources have, into the collection docs."""
    words = ["ingest", str(folder / "texts"), "--store", str(folder / "store"), "--collection", "docs"]
    assert run([*words, "--config", str(folder / "aidre.toml"), *options]) == 0


@pytest.fixture(scope="session")
def filled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that one ingest has filled, beside its sources. Tests read it, or copy the store."""
    folder = tmp_path_factory.mktemp("filled")
    write_sources(folder)
    ingest(folder)
    return folder


@pytest.fixture(scope="session")
def changed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after a second ingest: its newest generation has another text than the first, and lacks one."""
    folder = tmp_path_factory.mktemp("changed")
    write_sources(folder)
    ingest(folder)
    (folder / "texts" / "tea.md").write_text("# Tea\n\nBlack tea takes boiling water.\n", encoding="utf-8")
    (folder / "texts" / "rain.md").unlink()
    ingest(folder, "--mirror")
    return folder


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A shell beside sources and no store."""
    return Shell(tmp_path, capsys)


@pytest.fixture
def ingested(shell: Shell) -> Shell:
    """A shell beside sources of its own that it has ingested."""
    status, _, err = shell.ingest()
    assert status == 0, err
    return shell


@pytest.fixture
def read_only(filled_folder: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A shell beside the filled store that all tests share: they change nothing in it."""
    return Shell(filled_folder, capsys)


@pytest.fixture
def filled(filled_folder: Path, shell: Shell) -> Shell:
    """A shell beside a filled store of its own. Its sources are everybody's."""
    return _copied(filled_folder, shell)


@pytest.fixture
def changed(changed_folder: Path, shell: Shell) -> Shell:
    """A shell beside a store of its own that was filled twice. Its sources are everybody's."""
    return _copied(changed_folder, shell)


def _copied(folder: Path, shell: Shell) -> Shell:
    shutil.copytree(folder / "store", shell.store)
    shell.source = folder / "texts"  # the store knows the place of its sources
    return shell


def one_line(text: str) -> bool:
    return text.startswith("aidre: ") and text.count("\n") == 1 and text.endswith("\n")
