"""The number of documents of a source before it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.ingest.sources import count
from aidre.ingest.sources.count import count_documents
from aidre.ingest.sources.locate import locate_sources


def counted(*paths: str | Path) -> int | None:
    return count_documents(locate_sources(paths))


def test_files_and_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.md", "b.html", "sub/c.pdf", "sub/d.txt", "left.png", ".hidden.md"):
        (tmp_path / name).write_text("text")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    assert counted(tmp_path) == 4
    (tmp_path / "rows.jsonl").write_text('{"id": "1"}\n{"id": "2"}\n{"id": "3"}')
    (tmp_path / "rows.csv").write_text("id,text\n1,one\n2,two\n")
    assert counted(tmp_path) == 4 + 3 + 2
    assert counted(tmp_path / "rows.jsonl", tmp_path / "a.md") == 4


def test_an_empty_table_has_no_document(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("")
    assert counted(tmp_path) == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("rows.parquet", "PAR1"), ("rows.json", '[{"@type": "Thing", "name": "x"}]'), ("feed.xml", "<rss></rss>")],
)
def test_what_does_not_tell_leaves_the_number_open(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / "a.md").write_text("text")
    (tmp_path / name).write_text(content)
    assert counted(tmp_path) is None


def test_an_address_leaves_the_number_open(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    assert counted(tmp_path, "https://example.com/sitemap.xml") is None


def test_a_large_file_is_counted_by_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text(('{"id": "12345"}\n') * 10_000)
    monkeypatch.setattr(count, "_COUNTED_BYTES", 16_000)
    monkeypatch.setattr(count, "_BLOCK_BYTES", 4_000)
    assert counted(tmp_path) == 10_000
