"""Folders and files as sources: what is found in them, what it is called, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aidre.engine.errors import ConfigurationError
from aidre.ingest.sources.folder import FileSource, read_source
from aidre.ingest.sources.locate import locate_sources
from tests.support.folders import RULES, documents, found_in, rejections, write
from tests.support.ingests import Bench
from tests.support.rows import documents as documents_of


def test_ids_come_from_the_folders_name_and_the_relative_path(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "b.txt")
    write(tmp_path / "docs" / "a" / "c.MD")
    found = documents(tmp_path / "docs")
    assert sorted(each.id for each in found) == ["docs/a/c.MD", "docs/b.txt"]
    assert {(each.source, each.origin) for each in found} == {("docs", "a/c.MD"), ("docs", "b.txt")}


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "docs" / ".hidden.md")
    write(tmp_path / "docs" / ".git" / "a.md")
    write(tmp_path / "docs" / "a.md")
    assert [each.origin for each in documents(tmp_path / "docs")] == ["a.md"]


def test_files_of_other_kinds_are_left_out_and_counted(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "Makefile", "c.md"):
        write(tmp_path / "docs" / name)
    notes: list[str] = []
    assert len(list(read_source(FileSource("docs", tmp_path / "docs"), RULES, notes.append))) == 1
    assert notes == ["docs: 3 files of other kinds skipped (.png 2: --ocr; no suffix 1)"]


def test_links_are_followed_once_and_loops_end(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "z" / "a.md")
    (tmp_path / "docs" / "loop").symlink_to(tmp_path / "docs")
    (tmp_path / "docs" / "b").symlink_to(tmp_path / "docs" / "z")
    (tmp_path / "docs" / "self").symlink_to("self")
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "docs" / "z" / "a.md")
    write(tmp_path / "docs" / ".hidden" / "c.md")
    (tmp_path / "docs" / "shown").symlink_to(".hidden")
    assert [each.origin for each in documents(tmp_path / "docs")] == ["z/a.md", "shown/c.md"]


def test_a_file_of_several_names_is_read_once_and_a_notice_names_both(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    write(root / "b.md")
    os.link(root / "b.md", root / "z.md")
    (root / "a.md").symlink_to("b.md")
    write(root / "other.md")
    notes: list[str] = []
    assert [each.origin for each in documents_of(found_in(root, notes=notes))] == ["b.md", "other.md"]
    assert notes == ["docs: files with several names are read once (docs/z.md is docs/b.md, docs/a.md is docs/b.md)"]


def test_a_folder_that_is_given_by_two_names_is_read_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("a.md", "# One\n\nwords of it\n")
    (tmp_path / "again").symlink_to(bench.docs)
    bench.run(bench.docs, tmp_path / "again")
    assert bench.notices == ["again: files with several names are read once (again/a.md is docs/a.md)"]
    assert bench.ids() == ["docs/a.md"]


def test_a_link_that_may_not_be_followed_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of processes in /proc, and one that is removed in this moment."""
    write(tmp_path / "docs" / "a.md")
    (tmp_path / "docs" / "link").symlink_to("a.md")

    def refuse(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "readlink", refuse)
    assert [each.origin for each in documents(tmp_path / "docs")] == ["a.md"]


def test_links_out_of_a_folder_are_left_out_and_told_of(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    write(root / "a.md")
    write(tmp_path / "docs-private" / "secret.md")
    write(root / "below" / "b.md")
    (root / "absolute.md").symlink_to(tmp_path / "docs-private" / "secret.md")
    (root / "below" / "folder").symlink_to("../../docs-private")
    (root / "first").symlink_to("below/second")  # which leads out itself
    (root / "below" / "second").symlink_to(tmp_path)
    (root / "odd\n.md").symlink_to("/etc/hostname")
    (root / "nowhere.md").symlink_to(tmp_path / "not-there.md")
    (root / "row.parquet").symlink_to(tmp_path / "docs-private" / "rows.parquet")
    notes: list[str] = []
    [source] = locate_sources([root])
    assert isinstance(source, FileSource)
    assert [each.id for each in documents_of(list(read_source(source, RULES, notes.append)))] == [
        "docs/a.md",
        "docs/below/b.md",
    ]
    [note] = notes
    assert note.startswith("docs: 7 links that leave the folder skipped (absolute.md, ")
    assert note.endswith(", ...): ingest their targets as a source of their own") and "\n" not in note


def test_a_folder_that_is_a_link_is_read_with_the_links_inside(tmp_path: Path) -> None:
    write(tmp_path / "v2" / "data" / "a.md")
    (tmp_path / "v2" / "b.md").symlink_to("data/.hidden.md")
    write(tmp_path / "v2" / "data" / ".hidden.md")
    (tmp_path / "current").symlink_to("v2")
    assert [each.origin for each in documents(tmp_path / "current")] == ["data/a.md", "b.md"]


def test_what_a_link_out_of_a_folder_brought_before_is_taken_back_by_a_mirror(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for name in ("a", "b", "c"):
        bench.write(f"{name}.md", f"Text {name}.")
    bench.run()
    (bench.docs / "c.md").rename(tmp_path / "c.md")
    (bench.docs / "c.md").symlink_to(tmp_path / "c.md")
    assert (bench.run(mirror=True).deleted, bench.ids()) == (1, ["docs/a.md", "docs/b.md"])
    assert [notice for notice in bench.notices if "1 links that leave the folder skipped (c.md)" in notice]


def test_a_link_that_leads_nowhere_fails_by_name(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.md")
    (tmp_path / "docs" / "b.md").symlink_to("nowhere")
    assert [(each.where, each.origin) for each in rejections(tmp_path / "docs")] == [("b.md", "b.md")]


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.md")
    os.mkfifo(tmp_path / "docs" / "b.md")
    assert len(documents(tmp_path / "docs")) == 1
    with pytest.raises(ConfigurationError, match="neither a file nor a folder"):
        locate_sources([tmp_path / "docs" / "b.md"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_fails_and_protects_what_is_below(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "closed" / "a.md")
    (tmp_path / "docs" / "closed").chmod(0)
    rejected = rejections(tmp_path / "docs")
    (tmp_path / "docs" / "closed").chmod(0o700)
    assert [(each.where, each.folder) for each in rejected] == [("closed", True)]
