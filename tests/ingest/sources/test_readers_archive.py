"""Zip archives: the documents in them, what is left out, and archives that are traps."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.office import zip_child
from aidre.ingest.records.source_items import Rejected
from tests.support.documents import docx, lying
from tests.support.folders import documents, found_in, rejections, write
from tests.support.ingests import Bench
from tests.support.office import archive
from tests.support.rows import documents as documents_of
from tests.support.workbooks import workbook


def test_every_file_of_an_archive_is_read_as_one_of_a_folder(tmp_path: Path) -> None:
    inner: dict[str, str | bytes] = {
        "a.md": "---\nid: own\n---\n# T\n\nwords",
        "sub/": "",
        "sub/b.docx": docx(lambda document: document.add_paragraph("of Word")),
        "sub/c.csv": "id,text\n1,row\n",
        "sub/d.xlsx": workbook({"A": [["title", "text"], ["x", "cell"]]}),
        "empty.txt": "",
        "package.json": '{"name": "x"}',
        ".git/e.md": "hidden",
        "__MACOSX/._a.md": "hidden",
        "pic.png": b"x",
        "inner.zip": archive({"f.md": "inside"}),
        "g.py": "def f(): pass",
    }
    write(tmp_path / "docs" / "a.zip", archive(inner))
    noted: list[str] = []
    found = found_in(tmp_path / "docs", url_base="https://x.org", notes=noted)
    assert [(each.id, each.text.strip(), each.origin) for each in documents_of(found[:-1])] == [
        ("docs/a.zip/a.md", "# T\n\nwords", "a.zip/a.md"),
        ("docs/a.zip/sub/b.docx", "of Word", "a.zip/sub/b.docx"),
        ("1", "row", "a.zip/sub/c.csv"),
        (documents_of(found[3:4])[0].id, "cell", "a.zip/sub/d.xlsx"),
        ("docs/a.zip/empty.txt", "", "a.zip/empty.txt"),
    ]
    assert {each.url for each in documents_of(found[:2])} == {"https://x.org/a.zip"}
    assert "4 files of other kinds skipped (.png 1: --ocr; .py 1: --code; .json 1, .zip 1)" in str(found[-1])


def test_names_are_text_with_slashes(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("sub\\a.md", "one")
        made.writestr("über.md", "two")
    unmarked = packed.getvalue().replace("über.md".encode(), b"\xc3\xbcber.md")
    write(tmp_path / "docs" / "a.zip", unmarked)
    assert [each.origin for each in documents(tmp_path / "docs")] == ["a.zip/sub/a.md", "a.zip/über.md"]


@pytest.mark.parametrize("name", ["../a.md", "/etc/a.md", "a/../../b.md", "C:/a.md", "a\nb.md", "x" * 600 + ".md"])
def test_names_that_lead_out_or_are_no_text_fail_by_name(tmp_path: Path, name: str) -> None:
    write(tmp_path / "docs" / "a.zip", archive({name: "words", "good.md": "good"}))
    found = found_in(tmp_path / "docs")
    [rejected] = [each for each in found if isinstance(each, Rejected)]
    assert rejected.where.startswith("a.zip/") and rejected.reason.startswith("its name ")
    assert [each.text for each in documents_of([each for each in found if not isinstance(each, Rejected)])] == ["good"]


def test_what_is_damaged_inside_costs_no_others(tmp_path: Path) -> None:
    content = archive({"a.md": "words " * 500, "b.md": "good"})
    start = content.index(b"a.md") + 10
    write(tmp_path / "docs" / "a.zip", content[:start] + b"\xff" * 8 + content[start + 8 :])
    found = found_in(tmp_path / "docs")
    assert [each.reason for each in found if isinstance(each, Rejected)] == ["is damaged in its archive: error"]
    assert [each.text for each in documents_of([each for each in found if not isinstance(each, Rejected)])] == ["good"]


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x05\x06" + b"\xff" * 18, archive({"a.md": "x"})[:-30]])
def test_what_is_no_archive_fails_by_name(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "docs" / "a.zip", content)
    assert [(each.where, each.folder) for each in rejections(tmp_path / "docs")] == [("a.zip", True)]


def test_bombs_are_refused_before_they_are_inflated(tmp_path: Path) -> None:
    bomb = archive({"a.txt": b"a" * (40 << 20), "b.md": "good"})
    write(tmp_path / "docs" / "a.zip", bomb)
    write(tmp_path / "docs" / "b.zip", lying(archive({"a.txt": b"a" * (40 << 20)}), "a.txt", 10))
    found = found_in(tmp_path / "docs")
    assert [each.where for each in found if isinstance(each, Rejected)] == ["a.zip/a.txt", "b.zip/a.txt"]
    assert "250 times its size" in next(each.reason for each in found if isinstance(each, Rejected))
    assert [each.text for each in documents_of([each for each in found if not isinstance(each, Rejected)])] == ["good"]


def members(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return list(zip_child.read_members(b"", {"suffixes": [".md"], "descriptor": file.fileno()}))


def test_the_bytes_of_all_files_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.zip", archive({f"{n}.md": f"{n}" * 1000 for n in range(5)}))
    monkeypatch.setattr(zip_child, "MAX_INFLATED_BYTES", 2500)
    parts = members(path)
    assert [b"problem" in part for part in parts] == [False, False, True, True, True, False]
    monkeypatch.setattr(zip_child, "MAX_MEMBERS", 4)
    with pytest.raises(InvalidDocument, match="more than 4 files"):
        members(path)


def test_a_mirror_deletes_what_left_the_archive_and_keeps_what_cannot_be_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for n in range(3):
        bench.write(f"{n}.md", f"Text {n}.")
    bench.write("a.zip", archive({"a.md": "One.", "b.md": "Two."}))
    bench.run()
    bench.write("a.zip", archive({"a.md": "One."}))
    assert bench.run(mirror=True).deleted == 1
    bench.write("a.zip", b"damaged")
    summary = bench.run(mirror=True)
    assert (summary.deleted, summary.failed) == (0, 1)
    assert "docs/a.zip/a.md" in bench.ids()
