"""ODT and ODP as documents: headings, lists, tables, notes, and what is not text."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.office.odf import MAX_ADDED_CELLS, parse
from tests.support.office import archive, odt


def read(body: str, **more: Any) -> dict[str, Any]:
    return parse(odt(body, **more), {})


def cells(*texts: str) -> str:
    row = "".join(f"<table:table-cell><text:p>{each}</text:p></table:table-cell>" for each in texts)
    return f"<table:table-row>{row}</table:table-row>"


def test_blocks_come_in_their_order() -> None:
    body = (
        "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Title</text:h>'
        "<text:table-of-content><text:p>gone</text:p></text:table-of-content>"
        '<text:p>A <text:span>bold</text:span><text:s text:c="9999999"/>word<text:tab/>x<text:note>'
        "<text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>the note</text:p></text:note-body></text:note>."
        "<office:annotation><text:p>gone</text:p></office:annotation></text:p>"
        "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>inner</text:p>"
        "</text:list-item></text:list></text:list-item></text:list>"
        f"<table:table><table:table-header-rows>{cells('a', 'b')}</table:table-header-rows>{cells('1', '2|3')}"
        "</table:table>"
        "<text:p><draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame></text:p>"
        '<text:section><text:h text:outline-level="2">Below</text:h></text:section>'
    )
    found = read(body)
    assert found["text"] == (
        "Title\n\nA bold word\tx (the note).\n\none\ninner\n\n| a | b |\n|---|---|\n| 1 | 2\\|3 |\n\nboxed\n\nBelow"
    )
    assert [(level, title) for _, level, title in found["headings"]] == [(1, "Title"), (2, "Below")]
    assert found["title"] == "Title"


def test_properties_are_members() -> None:
    meta = (
        "<dc:title>On mills</dc:title><dc:creator>Ann</dc:creator><dc:date>2024-03-01T10:00:00.5</dc:date>"
        "<meta:keyword>a</meta:keyword><meta:keyword>b</meta:keyword><dc:language>de</dc:language>"
    )
    found = read("<text:p>x</text:p>", meta=meta)
    assert (found["title"], found["updated_at"], found["language"]) == ("On mills", "2024-03-01T10:00:00.5", "de")
    assert found["metadata"] == {"author": "Ann", "keywords": ["a", "b"]}


def test_slides_have_headings_and_notes() -> None:
    frame = '<draw:frame presentation:class="{}"><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>'
    slide = (
        f"<draw:page>{frame.format('outline', 'words')}{frame.format('title', 'Start')}{frame.format('footer', 'gone')}"
        "<presentation:notes><draw:frame><draw:text-box><text:p>say</text:p></draw:text-box></draw:frame>"
        "</presentation:notes></draw:page>"
    )
    found = read(slide, kind="presentation")
    assert found["text"] == "Start\n\nwords\n\nNotes: say"


def test_what_is_repeated_a_million_times_is_bounded() -> None:
    many = (
        '<table:table><table:table-row table:number-rows-repeated="1048576"><table:table-cell '
        'table:number-columns-repeated="16384"><text:p>x</text:p></table:table-cell></table:table-row></table:table>'
    )
    assert len(read(many)["text"]) < 20 * MAX_ADDED_CELLS
    assert len(read(many.replace("</table:table-row>", "</table:table-row>" + many[13:-14] * 500))["text"]) < 3_000_000
    empty = f"<table:table>{cells('a', 'b')}{cells('1', '2')}" + many.replace("<text:p>x</text:p>", "")[13:]
    assert read(empty)["text"] == "| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not an OpenDocument file"),
        (archive({"a": "b"}), "content.xml is missing"),
        (archive({"content.xml": "<a"}), "is a damaged OpenDocument text: "),
        (
            archive({"content.xml": "<a/>", "META-INF/manifest.xml": (
                '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><m:file-entry>'
                "<m:encryption-data/></m:file-entry></m:manifest>"
            )}),
            "is encrypted",
        ),
    ],
)  # fmt: skip
def test_what_is_no_text_says_so(content: bytes, said: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse(content, {})
    assert said in caught.value.message


def test_elements_nested_too_deep_are_a_fault_of_the_file() -> None:
    deep = "<text:section>" * 100_000 + "</text:section>" * 100_000
    with pytest.raises((InvalidDocument, RecursionError)):
        read(deep)
