"""Folders and files as sources: what is found in them, what it is called, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidre.engine.errors import ConfigurationError
from aidre.engine.model import Document, EmbeddingSpace
from aidre.ingest.records.items import Item, Rejected
from aidre.ingest.records.vectors import VectorRules
from aidre.ingest.sources.columns import supplied_spaces
from aidre.ingest.sources.folder import FileSource, read_source
from aidre.ingest.sources.locate import locate_sources
from tests.support.ingests import Bench, documents as documents_of

RULES = VectorRules([EmbeddingSpace("s", 2, "cosine")], [])


def write(path: Path, content: str | bytes = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def found_in(*paths: Path, name: str | None = None, url_base: str | None = None) -> list[Item]:
    sources = locate_sources(paths, name, url_base)
    return [
        each
        for source in sources
        if isinstance(source, FileSource)
        for each in read_source(source, RULES, lambda _: None)
    ]


def documents(*paths: Path, name: str | None = None, url_base: str | None = None) -> list[Document]:
    return documents_of(found_in(*paths, name=name, url_base=url_base))


def rejections(path: Path) -> list[Rejected]:
    return [each for each in found_in(path) if isinstance(each, Rejected)]


def test_ids_come_from_the_folders_name_and_the_relative_path(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "b.txt")
    write(tmp_path / "docs" / "a" / "c.MD")
    found = documents(tmp_path / "docs")
    assert sorted(each.id for each in found) == ["docs/a/c.MD", "docs/b.txt"]
    assert {(each.source, each.origin) for each in found} == {("docs", "a/c.MD"), ("docs", "b.txt")}


def test_a_single_file_is_named_after_its_parent_or_as_it_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "docs" / "b.txt")
    assert documents(path)[0].id == "docs/b.txt"
    assert documents(path, name="own")[0].id == "own/b.txt"


def test_a_relative_source_has_the_name_of_the_folder_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "docs" / "b.txt")
    monkeypatch.chdir(tmp_path / "docs")
    assert documents(Path())[0].id == "docs/b.txt"
    assert documents(Path("b.txt"))[0].id == "docs/b.txt"


def test_a_source_that_is_a_link_has_the_links_name(tmp_path: Path) -> None:
    write(tmp_path / "v2" / "a.md")
    (tmp_path / "current").symlink_to("v2")
    (tmp_path / "v2" / "b.md").symlink_to("a.md")
    assert [each.id for each in documents(tmp_path / "current")] == ["current/a.md", "current/b.md"]
    assert documents(tmp_path / "v2" / "b.md")[0].id == "v2/b.md"


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "docs" / ".hidden.md")
    write(tmp_path / "docs" / ".git" / "a.md")
    write(tmp_path / "docs" / "a.md")
    assert [each.origin for each in documents(tmp_path / "docs")] == ["a.md"]


def test_every_kind_of_file_is_read_by_its_own_parser(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    article = '{"@type":"Article","headline":"T","articleBody":"words"}'
    samples = {
        "a.md": "# T\n\nwords",
        "b.txt": "words",
        "c.html": "<title>T</title><p>words</p>",
        "d.htm": "<title>T</title><p>words</p>",
        "e.csv": "title;text\nT;words\n",
        "f.tsv": "title\ttext\nT\twords\n",
        "g.TSV": f"https://x.org/g\t{article}\n",
        "h.jsonl": '{"title":"T","text":"words"}\n',
        "i.ndjson": f"https://x.org/i\t{article}\n",
        "j.json": f"[{article}]",
        "k.json": '[{"title":"T","text":"words"}]',
        "l.jsonld": f'{{"@context":"https://schema.org","@graph":[{article}]}}',
    }
    for name, content in samples.items():
        write(folder / name, content)
    pq.write_table(pa.table({"title": ["T"], "text": ["words"]}), folder / "m.parquet")
    found = documents(folder)
    assert [each.origin for each in found] == [*samples, "m.parquet"]
    assert {each.text for each in found[1:]} == {"words"}
    assert {each.title for each in found} == {"T", "b"}


def test_files_of_other_kinds_are_left_out_and_counted(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "Makefile", "c.md"):
        write(tmp_path / "docs" / name)
    notes: list[str] = []
    assert len(list(read_source(FileSource("docs", tmp_path / "docs"), RULES, notes.append))) == 1
    assert notes == ["docs: 3 files of other kinds skipped (.png 2, no suffix 1)"]


def test_links_are_followed_once_and_loops_end(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "z" / "a.md")
    (tmp_path / "docs" / "loop").symlink_to(tmp_path / "docs")
    (tmp_path / "docs" / "b").symlink_to(tmp_path / "docs" / "z")
    (tmp_path / "docs" / "self").symlink_to("self")
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "docs" / "z" / "a.md")
    write(tmp_path / "docs" / ".hidden" / "c.md")
    (tmp_path / "docs" / "shown").symlink_to(".hidden")
    assert [each.origin for each in documents(tmp_path / "docs")] == ["link.md", "z/a.md", "shown/c.md"]


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


SECRET: dict[str, str | bytes] = {
    "md": "secret", "txt": "secret", "html": "<p>secret", "jsonl": '{"text": "secret"}', "json": '[{"text": "secret"}]',
    "csv": "text\nsecret\n", "xml": "<rss version='2.0'><channel><item><title>secret</title></item></channel></rss>",
}  # fmt: skip


@pytest.mark.parametrize("kind", [*SECRET, "parquet"])
@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_what_becomes_a_link_out_of_the_folder_after_it_was_looked_at_is_not_read(
    tmp_path: Path, kind: str, swapped: str
) -> None:
    outside, root = tmp_path / "outside", tmp_path / "docs"
    write(root / "a.md")
    for folder in (outside, root / "b"):
        write(folder / f"b.{kind}", SECRET.get(kind, ""))
        if kind == "parquet":
            pq.write_table(pa.table({"text": ["secret"]}), folder / f"b.{kind}")
    assert len(documents(root)) == 2
    if swapped == "file":
        (root / "b" / "a.md").write_text("text")
    source = FileSource("docs", root)
    stream = read_source(source, RULES, lambda _: None)
    assert len(documents_of([next(stream)])) == 1
    if swapped == "file":
        assert len(documents_of([next(stream)])) == 1
        (root / "b" / f"b.{kind}").unlink()
        (root / "b" / f"b.{kind}").symlink_to(outside / f"b.{kind}")
    else:
        (root / "b").rename(root / "c")
        (root / "b").symlink_to(outside)
    rest = list(stream)
    reasons = [each.reason for each in rest if isinstance(each, Rejected)]
    assert len(reasons) == len(rest) == (kind != "xml")  # of which only feeds are read
    assert all("cannot be read: a link that leads out of the folder" in reason for reason in reasons)


def test_what_becomes_a_pipe_after_it_was_looked_at_does_not_block(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.md")
    write(tmp_path / "docs" / "b.md")
    stream = read_source(FileSource("docs", tmp_path / "docs"), RULES, lambda _: None)
    next(stream)
    (tmp_path / "docs" / "b.md").unlink()
    os.mkfifo(tmp_path / "docs" / "b.md")
    [rejected] = stream
    assert isinstance(rejected, Rejected) and rejected.reason == "cannot be read: not a file any more"


def test_a_folder_that_is_a_link_is_read_with_the_links_inside(tmp_path: Path) -> None:
    write(tmp_path / "v2" / "data" / "a.md")
    (tmp_path / "v2" / "b.md").symlink_to("data/a.md")
    (tmp_path / "current").symlink_to("v2")
    assert [each.origin for each in documents(tmp_path / "current")] == ["b.md", "data/a.md"]


def test_a_link_that_is_named_is_read_wherever_it_leads(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "a.md")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").symlink_to(tmp_path / "elsewhere" / "a.md")
    assert [each.origin for each in documents(tmp_path / "docs" / "b.md")] == ["b.md"]
    (tmp_path / "docs" / "c").symlink_to(tmp_path / "elsewhere")
    assert [each.origin for each in documents(tmp_path / "docs" / "c")] == ["a.md"]


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


@pytest.mark.parametrize("name", ["missing", "missing.md", "a.png"])
def test_a_source_that_is_not_there_or_not_known_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a.png")
    with pytest.raises(ConfigurationError) as error:
        locate_sources([tmp_path / name])
    assert name in error.value.message and "\n" not in error.value.message


def test_a_source_without_a_name_is_not_the_folder_one_happens_to_be_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.md")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="no name"):
        locate_sources([""])
    assert len(locate_sources(["."])) == 1


def test_two_folders_of_one_name_in_one_run_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "x" / "docs" / "a.md")
    write(tmp_path / "y" / "docs" / "a.md")
    with pytest.raises(ConfigurationError, match="'docs'"):
        locate_sources([tmp_path / "x" / "docs", tmp_path / "y" / "docs"])


def test_the_url_base_is_joined_with_the_encoded_path(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a b" / "ü#?.md")
    found = documents(tmp_path / "docs", url_base="https://example.org/x/")
    assert found[0].url == "https://example.org/x/a%20b/%C3%BC%23%3F.md"
    with pytest.raises(ConfigurationError, match="http"):
        locate_sources([tmp_path / "docs"], url_base="example.org")


def test_text_in_utf8_is_read_with_and_without_a_byte_order_mark(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.txt", b"\xef\xbb\xbfcaf\xc3\xa9\r\n")
    found = documents(tmp_path / "docs")
    assert (found[0].text, found[0].title) == ("café\r\n", "a")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
def test_text_in_another_encoding_fails_by_name(tmp_path: Path, name: str) -> None:
    write(tmp_path / "docs" / name, "café".encode("utf-16"))
    rejected = rejections(tmp_path / "docs")
    assert [(each.where, each.document_id) for each in rejected] == [(name, None)]
    assert rejected[0].reason == "not UTF-8 at byte 0: convert the file to UTF-8"


def test_a_file_name_that_is_no_text_fails_by_name(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in (b"a\xff.md", b"b\n.md"):
        Path(os.fsdecode(os.fsencode(tmp_path / "docs") + b"/" + name)).write_text("x")
    assert [each.where for each in rejections(tmp_path / "docs")] == ["a\\udcff.md", "b\\n.md"]


def test_a_file_too_large_to_be_one_document_fails_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.ingest.records.file.MAX_DOCUMENT_BYTES", 10)
    write(tmp_path / "docs" / "a.txt", "x" * 11)
    assert "larger than" in rejections(tmp_path / "docs")[0].reason


def test_a_damaged_parquet_file_fails_by_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": ["a"] * 1000, "text": ["words"] * 1000}), path, compression="none")
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 40 + content[44:])
    [rejected] = rejections(tmp_path / "docs")
    assert rejected.where == "a.parquet"
    assert "OSError" not in rejected.reason and len(rejected.reason.split()) > 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_fails_and_protects_what_is_below(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "closed" / "a.md")
    (tmp_path / "docs" / "closed").chmod(0)
    rejected = rejections(tmp_path / "docs")
    (tmp_path / "docs" / "closed").chmod(0o700)
    assert [(each.where, each.folder) for each in rejected] == [("closed", True)]


def test_the_spaces_that_rows_bring_vectors_for_are_found(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.jsonl", '{"vectors":{"one":[1]}}\nbroken\n[]\n{"vectors":{"two":[1]}}\n')
    write(tmp_path / "docs" / "b.md")
    assert supplied_spaces(locate_sources([tmp_path / "docs"])) == {"one", "two"}


def test_json_of_another_kind_and_lock_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    write(root / "page.md")
    write(root / "package.json", '{"name": "x", "version": 1}')
    write(root / "rows.json", '[{"id": "a", "text": "Row."}]')
    write(root / "~$page.docx")
    notes: list[str] = []
    [source] = locate_sources([root])
    assert isinstance(source, FileSource)
    assert sorted(each.id for each in documents_of(list(read_source(source, RULES, notes.append)))) == [
        "a",
        "docs/page.md",
    ]
    assert notes == ["docs: 1 files of other kinds skipped (.json 1)"]
    write(root / "broken.json", "{")
    assert [each.where for each in rejections(root)] == ["broken.json"]
    assert [each.where for each in rejections(root / "package.json")] == ["package.json"]
