"""A shell for tests: commands run in this process, against a store and a configuration of their own."""

from __future__ import annotations

import json
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


class Shell:
    """Runs commands against one store and one configuration, in this process."""

    def __init__(self, folder: Path, captured: pytest.CaptureFixture[str]) -> None:
        self.store = folder / "store"
        self.config = folder / "aidre.toml"
        self.source = folder / "texts"
        self._captured = captured
        self.config.write_text(CONFIGURATION, encoding="utf-8")
        self.source.mkdir()
        for name, text in TEXTS.items():
            (self.source / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", encoding="utf-8")

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


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


@pytest.fixture
def filled(shell: Shell) -> Shell:
    status, _, err = shell.ingest()
    assert status == 0, err
    return shell


def one_line(text: str) -> bool:
    return text.startswith("aidre: ") and text.count("\n") == 1 and text.endswith("\n")
