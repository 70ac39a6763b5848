"""A file of a source: its id, its text without a byte order mark, and the bound of its size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records import file as module
from aidre.ingest.records.file import File, read_content
from tests.support.folders import rejections, write


def test_a_file_too_large_to_be_one_document_fails_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.ingest.records.file.MAX_DOCUMENT_BYTES", 10)
    write(tmp_path / "docs" / "a.txt", "x" * 11)
    assert "larger than" in rejections(tmp_path / "docs")[0].reason


def test_a_file_is_known_by_its_source_and_path_and_a_fetched_one_by_its_address() -> None:
    assert File(Path("a"), "docs", "x/a.md").id == "docs/x/a.md"
    assert File(Path("a"), "web", "https://x.org/a", fetched=True).id == "https://x.org/a"


def test_a_file_that_grows_while_it_is_read_is_read_to_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 10)
    path = write(tmp_path / "a.txt", "x" * 10)
    assert read_content(File(path, "docs", "a.txt")) == b"x" * 10
    sizes = os.stat_result([0] * 10)
    monkeypatch.setattr(os, "fstat", lambda _: sizes)
    assert read_content(File(path, "docs", "a.txt")) == b"x" * 10
    write(path, "x" * 11)
    with pytest.raises(InvalidDocument, match="larger than 0 MiB: split it"):
        read_content(File(path, "docs", "a.txt"))
