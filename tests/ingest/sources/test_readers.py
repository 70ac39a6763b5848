"""The reader of each kind of file, and a failure of a reader as one rejected file."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.folders import documents, found_in, rejections, write
from tests.support.office import archive, epub, odt, pptx, shape
from tests.support.rows import documents as documents_of
from tests.support.workbooks import workbook


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
    (folder / "n.xlsx").write_bytes(workbook({"A": [["title", "text"], ["T", "words"]]}))
    found = documents(folder)
    assert [each.origin for each in found] == [*samples, "m.parquet", "n.xlsx"]
    assert {each.text for each in found[1:]} == {"words"}
    assert {each.title for each in found} == {"T", "b"}


def test_every_kind_of_document_is_read_by_its_own_parser(tmp_path: Path) -> None:
    samples: dict[str, str | bytes] = {
        "a.rst": "T\n=\n\nwords\n",
        "b.adoc": "= T\n\nwords\n",
        "c.org": "#+TITLE: T\n\nwords\n",
        "d.mdx": "import A from 'a'\n\n# T\n\n<A b={1}>words</A>\n",
        "e.ipynb": '{"cells": [{"cell_type": "markdown", "source": "# T\\n\\nwords"}]}',
        "f.pptx": pptx([shape("T", "title") + shape("words")]),
        "g.odt": odt('<text:h text:outline-level="1">T</text:h><text:p>words</text:p>'),
        "h.epub": epub(["<h1>T</h1><p>words</p>"]),
        "i.eml": "Subject: T\n\nwords\n",
        "j.rtf": "{\\rtf1{\\info{\\title T}}words}",
        "k.json": '{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "https://x.org/k", "title": "T", '
        '"content_html": "<p>words</p>"}]}',
        "l.zip": archive({"in/a.md": "# T\n\nwords"}),
    }
    for name, content in samples.items():
        write(tmp_path / "docs" / name, content)
    found = documents(tmp_path / "docs")
    assert [each.origin for each in found] == [*list(samples)[:-1], "l.zip/in/a.md"]
    assert {each.title for each in found} == {"T"}
    assert all("words" in each.text and "import" not in each.text for each in found)


def test_text_in_utf8_is_read_with_and_without_a_byte_order_mark(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.txt", b"\xef\xbb\xbfcaf\xc3\xa9\r\n")
    found = documents(tmp_path / "docs")
    assert (found[0].text, found[0].title) == ("café\r\n", "a")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.csv", "a.json", "a.jsonl"])
@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be", "utf-8-sig", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding_of_every_text(tmp_path: Path, name: str, codec: str) -> None:
    content = {"csv": "id,text\n1,café über\n", "json": '[{"id":"1","text":"café über"}]'}.get(name[2:], "café über")
    content = '{"id":"1","text":"café über"}\n' if name == "a.jsonl" else content
    write(tmp_path / "docs" / name, ("\ufeff" * (codec == "utf-16-be") + content).encode(codec))
    assert [each.text for each in documents(tmp_path / "docs")] == ["café über"]


def test_what_is_no_text_at_all_fails_by_name(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.txt", bytes(range(256)) * 40)
    rejected = rejections(tmp_path / "docs")
    assert [(each.where, each.document_id) for each in rejected] == [("a.txt", None)]
    assert "is not text" in rejected[0].reason


def test_a_file_name_that_is_no_text_fails_by_name(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in (b"a\xff.md", b"b\n.md"):
        Path(os.fsdecode(os.fsencode(tmp_path / "docs") + b"/" + name)).write_text("x")
    reason = "the file name is not printable text: rename it"
    found = [(each.where, each.reason) for each in rejections(tmp_path / "docs")]
    assert found == [("a\\udcff.md", reason), ("b\\n.md", reason)]


def test_a_damaged_parquet_file_fails_by_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": ["a"] * 1000, "text": ["words"] * 1000}), path, compression="none")
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 40 + content[44:])
    [rejected] = rejections(tmp_path / "docs")
    assert rejected.where == "a.parquet"
    assert "OSError" not in rejected.reason and len(rejected.reason.split()) > 3


def test_json_of_another_kind_and_lock_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    write(root / "page.md")
    write(root / "package.json", '{"name": "x", "version": 1}')
    write(root / "rows.json", '[{"id": "a", "text": "Row."}]')
    write(root / "~$page.docx")
    notes: list[str] = []
    assert sorted(each.id for each in documents_of(found_in(root, notes=notes))) == ["a", "docs/page.md"]
    assert notes == ["docs: 1 file of other kinds skipped (.json 1)"]
    write(root / "broken.json", "{")
    assert [each.where for each in rejections(root)] == ["broken.json"]
    assert [each.text for each in documents_of(found_in(root / "package.json"))] == ["name: x\nversion: 1"]
