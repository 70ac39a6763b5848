"""A file of a source: its id, its text without a byte order mark, and the bound of its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.folders import rejections, write


def test_a_file_too_large_to_be_one_document_fails_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.ingest.records.file.MAX_DOCUMENT_BYTES", 10)
    write(tmp_path / "docs" / "a.txt", "x" * 11)
    assert "larger than" in rejections(tmp_path / "docs")[0].reason
