"""EPUB as a document: pages in the order of the spine, metadata, and books that are protected or damaged."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.office.epub import parse
from tests.support.documents import repacked
from tests.support.office import archive, epub


def read(*pages: str, **more: Any) -> dict[str, Any]:
    return parse(epub(pages, **more), {})


def test_the_pages_of_a_book_are_one_text_with_headings() -> None:
    metadata = (
        "<dc:title>The Mill</dc:title><dc:creator>Ann</dc:creator><dc:language>en</dc:language>"
        '<meta property="dcterms:modified">2024-03-01T00:00:00Z</meta><dc:date>1999</dc:date>'
    )
    found = read(
        "<h1>One</h1><p>a</p><p>b</p>", "<h1>Two</h1><table><tr><th>x<th>y<tr><td>1<td>2</table>", metadata=metadata
    )
    assert found["text"] == "One\n\na\n\nb\n\nTwo\n\n| x | y |\n|---|---|\n| 1 | 2 |"
    assert [(level, title) for _, level, title in found["headings"]] == [(1, "One"), (1, "Two")]
    assert all(found["text"][start:].startswith(title) for start, _, title in found["headings"])
    assert [found["text"][start:end] for start, end in found["verbatim"]] == ["| x | y |\n|---|---|\n| 1 | 2 |"]
    assert (found["title"], found["language"], found["updated_at"]) == ("The Mill", "en", "2024-03-01T00:00:00Z")
    assert found["metadata"] == {"author": "Ann"}


def test_the_table_of_contents_is_left_out() -> None:
    assert read("<nav><ol><li>One</li></ol></nav><p>contents</p>", "<p>text</p>", properties="nav")["text"] == "text"


def test_a_page_is_read_once_and_missing_ones_cost_no_others() -> None:
    book = repacked(epub(["<p>a</p>", "<p>b</p>"]), {"OEBPS/text/p 0.xhtml": None})
    assert parse(book, {})["text"] == "b"


def test_protected_pages_are_refused_and_hidden_fonts_are_not() -> None:
    lock = (
        '<encryption><EncryptedData><CipherData><CipherReference URI="{}"/></CipherData></EncryptedData></encryption>'
    )
    with pytest.raises(InvalidDocument, match="protected against copying"):
        read("<p>a</p>", more={"META-INF/encryption.xml": lock.format("OEBPS/text/p%200.xhtml")})
    assert read("<p>a</p>", more={"META-INF/encryption.xml": lock.format("OEBPS/font.otf")})["text"] == "a"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04", "is not an EPUB file"),
        (archive({"a": "b"}), "META-INF/container.xml is missing"),
        (repacked(epub(["x"]), {"OEBPS/book.opf": None}), "OEBPS/book.opf is missing"),
        (epub(["x"], more={"a.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}), "defines XML entities"),
        (
            repacked(epub(["x"]), {"OEBPS/book.opf": b'<!DOCTYPE a [<!ENTITY b SYSTEM "/etc/hostname">]><a>&b;</a>'}),
            None,
        ),
    ],
)
def test_what_is_no_book_says_so_and_names_no_other_file(content: bytes, said: str | None) -> None:
    if said is None:
        assert parse(content, {})["text"] == ""
        return
    with pytest.raises(InvalidDocument) as caught:
        parse(content, {})
    assert said in caught.value.message


def test_elements_too_deep_inside_each_other_are_refused() -> None:
    with pytest.raises(InvalidDocument, match="open inside each other"):
        read("<div>" * 20_000)
