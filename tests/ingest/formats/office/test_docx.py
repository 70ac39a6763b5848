"""DOCX as a document: paragraphs, lists, tables and headings, metadata, and archives that are traps."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.office import package as module
from aidre.ingest.formats.office.docx import parse
from aidre.ingest.formats.office.package import MAX_MEMBERS
from aidre.ingest.records.file import File
from aidre.ingest.records.vectors import VectorRules
from aidre.ingest.sandbox.parent import SHARED, Sandbox, SandboxLimits
from aidre.ingest.sources.readers import READERS
from tests.support.documents import docx, laughing, lying, part, pdf, repacked

BODY = "word/document.xml"
PLAIN = docx(lambda document: document.add_paragraph("HERE"))


def body(xml: str) -> dict[str, Any]:
    """What is read of a document with this XML in its body."""
    name = b"<w:body>"
    return parse(repacked(PLAIN, {BODY: part(PLAIN, BODY).replace(name, name + xml.encode())}), {})


def text(xml: str) -> str:
    found = body(xml)["text"]
    assert isinstance(found, str)
    return found.removesuffix("HERE").removesuffix("\n\n")


def headings(content: bytes) -> list[tuple[int, str, str]]:
    """Level, title, and the line of the text that each heading stands at."""
    found = parse(content, {})
    return [(level, title, found["text"][start:].split("\n")[0]) for start, level, title in found["headings"]]


def reason(content: bytes) -> str:
    with pytest.raises(InvalidDocument) as caught:
        parse(content, {})
    return caught.value.message


def test_a_file_becomes_a_document_through_the_sandbox(tmp_path: Path) -> None:
    def build(document: Any) -> None:
        document.add_paragraph("Some text.")
        core = document.core_properties
        core.title, core.author, core.subject, core.category = "On things", "Ä. Author", "Things", "Papers"
        core.keywords, core.language = "one, two;three", "de-AT"
        core.created, core.modified = datetime(2024, 1, 1), datetime(2024, 1, 2, 3, 4, 5)

    path = tmp_path / "paper.docx"
    path.write_bytes(docx(build))
    with SHARED:
        (found,) = READERS[".docx"](File(path, "docs", "paper.docx", "https://x.org/paper.docx"), VectorRules([], []))
    assert isinstance(found, tuple)
    where, document = found
    assert (where, document.id, document.url) == ("paper.docx", "docs/paper.docx", "https://x.org/paper.docx")
    assert (document.title, document.text, document.updated_at) == ("On things", "Some text.", "2024-01-02T03:04:05Z")
    assert document.metadata == {
        "language": "de-AT",
        "author": "Ä. Author",
        "subject": "Things",
        "category": "Papers",
        "keywords": ["one", "two", "three"],
        "created": "2024-01-01T00:00:00Z",
    }


def test_paragraphs_lists_and_tables_come_in_their_order() -> None:
    def build(document: Any) -> None:
        document.add_paragraph("First\tparagraph\nin two lines")
        document.add_paragraph("   ")
        for item in ("one", "two"):
            document.add_paragraph(item, style="List Bullet")
        table = document.add_table(3, 2)
        table.cell(0, 0).text, table.cell(0, 1).text, table.cell(1, 1).text = "a\nb", "c", "d"
        table.cell(0, 0).add_table(1, 2).cell(0, 1).text = "inner"
        document.add_paragraph("Last")

    found = parse(docx(build), {})
    assert (
        found["text"] == "First\tparagraph\nin two lines\n\none\ntwo\n\n| a b inner | c |\n|---|---|\n|  | d |\n\nLast"
    )


def test_headings_stand_where_they_begin() -> None:
    def build(document: Any) -> None:
        document.add_paragraph("Before")
        for level, title in enumerate(("The title", "One", " Two\nlines ", "")):
            document.add_heading(title, level)
            document.add_paragraph("Text")

    assert headings(docx(build)) == [(1, "The title", "The title"), (1, "One", "One"), (2, "Two lines", "Two")]


@pytest.mark.parametrize(("level", "title"), [(0, "The title"), (1, "One"), (2, None)])
def test_without_a_title_of_its_own_the_first_heading_is_it(level: int, title: str | None) -> None:
    def build(document: Any) -> None:
        document.add_heading("One" if level else "The title", level)
        document.core_properties.title = ""

    assert parse(docx(build), {}).get("title") == title


def test_a_style_is_a_heading_by_its_outline_level_or_by_what_it_is_based_on() -> None:
    def build(document: Any) -> None:
        from docx.oxml.parser import parse_xml

        based = document.styles.add_style("Our Heading", 1)
        based.base_style = document.styles["Heading 3"]
        leveled = document.styles.add_style("Our Level", 1)
        word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        level = parse_xml(f'<w:outlineLvl xmlns:w="{word}" w:val="4"/>')
        leveled.element.get_or_add_pPr().append(level)
        looping = document.styles.add_style("Looping", 1)
        looping.base_style = looping
        for style in (based, leveled, looping):
            document.add_paragraph(style.name, style=style)

    assert headings(docx(build)) == [(3, "Our Heading", "Our Heading"), (5, "Our Level", "Our Level")]


def test_words_are_read_as_the_document_shows_them() -> None:
    run = "<w:r><w:t>{}</w:t></w:r>"
    removed = "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>gone</w:t></w:r></w:moveFrom>"
    added = f"<w:ins>{run.format('new')}</w:ins><w:hyperlink>{run.format(' link')}</w:hyperlink>"
    control = f"<w:sdt><w:sdtContent>{run.format(' chosen')}</w:sdtContent></w:sdt>"
    hyphen = "<w:r><w:noBreakHyphen/><w:t>a&#173;b</w:t><w:instrText>PAGE</w:instrText></w:r>"
    assert text(f"<w:p>{removed}{added}{control}{hyphen}</w:p>") == "new link chosen-ab"


def test_paragraphs_inside_controls_and_text_boxes_are_read_once_and_the_contents_not() -> None:
    paragraph = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
    box = f"<w:txbxContent>{paragraph.format('box')}</w:txbxContent>"
    space = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    twice = f"<mc:AlternateContent {space}><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
    drawing = f"<w:p><w:r><w:t>around</w:t>{twice}</mc:AlternateContent></w:r></w:p>"
    gallery = '<w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr>'
    contents = f"<w:sdt>{gallery}<w:sdtContent>{paragraph.format('contents')}</w:sdtContent></w:sdt>"
    control = f"<w:sdt><w:sdtContent>{paragraph.format('inside')}</w:sdtContent></w:sdt>"
    assert text(drawing + contents + control) == "around\n\nbox\n\ninside"


def test_a_document_without_core_properties_has_no_date() -> None:
    relations = re.sub(rb"<Relationship [^>]*core\.xml[^>]*>", b"", part(PLAIN, "_rels/.rels"))
    found = parse(repacked(PLAIN, {"_rels/.rels": relations, "docProps/core.xml": None}), {})
    assert found["text"] == "HERE"
    odd = parse(repacked(PLAIN, {"docProps/core.xml": b"<a/>"}), {})
    assert {"updated_at", "metadata"}.isdisjoint(found.keys() | odd.keys())


def test_a_document_without_text_or_body_is_empty() -> None:
    assert parse(docx(), {})["text"] == ""
    word = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    assert parse(repacked(PLAIN, {BODY: b'<w:document xmlns:w="%s"/>' % word}), {})["text"] == ""
    assert parse(repacked(PLAIN, {BODY: b"<a/>"}), {})["text"] == ""


BIG = "inflates to more than 4 MiB: split it"
NO_ARCHIVE = "is not a DOCX file, or a damaged one: its archive cannot be read"
UNFIT = "is not a Word document, or a damaged one: its parts do not fit together"
ENTITIES = "defines XML entities, which no Word document does"
LIE = "is a damaged archive: a part is not as large as it says"


def inflating(mebibytes: int) -> bytes:
    return repacked(PLAIN, {BODY: part(PLAIN, BODY).replace(b"HERE", b" " * (mebibytes << 20))})


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", NO_ARCHIVE),
    "another format": (lambda: pdf([["x"]]), NO_ARCHIVE),
    "truncated": (lambda: PLAIN[: len(PLAIN) // 2], NO_ARCHIVE),
    "damaged inside": (lambda: PLAIN[:2000] + b"\0" * 200 + PLAIN[2200:], NO_ARCHIVE),
    "older or encrypted": (
        lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4096),
        "is encrypted or of the older Word format: save it as .docx without a password",
    ),
    "another archive": (lambda: repacked(b"PK\5\6" + bytes(18), {"a.txt": b"x"}), UNFIT),
    "without its document": (lambda: repacked(PLAIN, {BODY: None}), UNFIT),
    "many parts": (
        lambda: repacked(PLAIN, {f"{number}": b"" for number in range(MAX_MEMBERS)}),
        f"is an archive of more than {MAX_MEMBERS} parts: no Word document",
    ),
    "zip bomb": (lambda: inflating(5), BIG),
    "zip bomb in a part that nothing uses": (lambda: repacked(PLAIN, {"x.bin": bytes(5 << 20)}), BIG),
    "zip bomb of many parts": (lambda: repacked(PLAIN, {f"{n}.xml": bytes(1 << 19) for n in range(9)}), BIG),
    "zip bomb that says it is small": (lambda: lying(inflating(5), BODY, 1000), BIG),
    "part that says it is small": (lambda: lying(inflating(2), BODY, 1000), LIE),
    "part that says it is large": (lambda: lying(PLAIN, BODY, 1 << 30), LIE),
    "another compression": (
        lambda: repacked(PLAIN, {"x.xml": b" " * 9999}, zipfile.ZIP_BZIP2),
        "is compressed in a way that no Word document is",
    ),
    "billion laughs": (lambda: repacked(PLAIN, {BODY: laughing(part(PLAIN, BODY))}), ENTITIES),
    "billion laughs in UTF-16": (
        lambda: repacked(PLAIN, {BODY: laughing(part(PLAIN, BODY)).decode().encode("utf-16")}),
        ENTITIES,
    ),
    "billion laughs in the relations": (
        lambda: repacked(PLAIN, {"_rels/.rels": laughing(part(PLAIN, "_rels/.rels"))}),
        ENTITIES,
    ),
}


@pytest.mark.parametrize(("content", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_in_words(
    content: Callable[[], bytes], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_INFLATED_BYTES", 4 << 20)
    assert reason(content()) == said


def test_an_entity_definition_is_found_wherever_it_is_cut() -> None:
    declared = b"<!DOCTYPE a>"
    for before in range((1 << 16) - len(declared) - 1, (1 << 16) + 2):
        filled = b"<?xml?><!--" + b"x" * (before - 14) + b"-->" + declared
        assert reason(repacked(PLAIN, {"x.xml": filled})) == ENTITIES


def test_damaged_xml_is_named() -> None:
    assert reason(repacked(PLAIN, {BODY: part(PLAIN, BODY)[:-9]})).startswith("is a damaged Word document: ")
    nested = part(PLAIN, BODY).replace(b"<w:body>", b"<w:body>" + b"<w:sdt>" * 100_000)
    assert reason(repacked(PLAIN, {BODY: nested})).startswith("is a damaged Word document: Excessive depth")


def test_an_encrypted_part_is_named() -> None:
    changed = bytearray(PLAIN)
    changed[PLAIN.rfind(b"PK\1\2") + 8] |= 1
    assert reason(bytes(changed)) == "is encrypted: ingest a copy without a password"


@pytest.mark.slow
def test_a_document_that_needs_too_much_memory_costs_the_child_only() -> None:
    many = repacked(PLAIN, {BODY: part(PLAIN, BODY).replace(b"<w:body>", b"<w:body>" + b"<w:p/>" * 1_500_000)})
    with Sandbox(SandboxLimits(memory=150 << 20)) as sandbox:
        with pytest.raises(InvalidDocument, match=r"needs more than 150 MiB of memory to read|parser crashed"):
            sandbox.parse("docx", many)
        assert sandbox.parse("docx", PLAIN)["text"] == "HERE"


def strict(archive: bytes) -> bytes:
    """The document in the strict form of the standard."""
    names = (b"officeDocument", b"wordprocessingml", b"drawingml", b"officeDocument")

    def rewritten(content: bytes) -> bytes:
        for name in names:
            content = content.replace(
                b"http://schemas.openxmlformats.org/%s/2006/" % name, b"http://purl.oclc.org/ooxml/%s/" % name
            )
        return content.replace(b"/officeDocument/extended-properties", b"/officeDocument/extendedProperties")

    with zipfile.ZipFile(io.BytesIO(archive)) as parts:
        members = {name: parts.read(name) for name in parts.namelist()}
    xml = {name: rewritten(content) for name, content in members.items() if name.endswith((".xml", ".rels"))}
    return repacked(archive, xml)


def test_the_strict_form_of_the_standard_is_read() -> None:
    def bridge(document: Any) -> None:
        document.add_heading("Bridge", 1)
        document.add_paragraph("Built in 1890.")

    archive = docx(bridge)
    assert b"purl.oclc.org" in part(strict(archive), "word/document.xml")
    assert parse(strict(archive), {}) == parse(archive, {})
    assert parse(strict(archive), {})["headings"] == [[0, 1, "Bridge"]]


def numbered(levels: str, xml: str, *, numbering: str = "", styles: str = "") -> str:
    """The text of a document whose numberings 1 and 2 have these levels; 2 begins anew at 5."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    numbers = (
        f'<w:numbering {space}>{numbering}<w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="7"/>'
        '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride></w:num>'
        '<w:num w:numId="3"><w:abstractNumId w:val="8"/></w:num></w:numbering>'
    )
    changed = part(PLAIN, "word/styles.xml").replace(b"</w:styles>", f"{styles}</w:styles>".encode())
    content = part(PLAIN, BODY).replace(b"<w:body>", b"<w:body>" + xml.encode())
    parts = {"word/numbering.xml": numbers.encode(), "word/styles.xml": changed, BODY: content}
    found = parse(repacked(PLAIN, parts), {})["text"]
    assert isinstance(found, str)
    return found.removesuffix("HERE").removesuffix("\n\n")


def level(depth: int, form: str, label: str, more: str = "") -> str:
    form = f'<w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{label}"/>'
    return f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/>{form}</w:lvl>'


def item(text: str, depth: int, number: int = 1) -> str:
    properties = f'<w:pPr><w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr></w:pPr>'
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def test_items_of_lists_have_the_numbers_that_the_document_shows() -> None:
    levels = level(0, "decimal", "%1.") + level(1, "lowerLetter", "(%2)") + level(2, "upperRoman", "%1.%3")
    xml = item("a", 0) + item("b", 1) + item("c", 1) + item("d", 2) + item("e", 0) + item("f", 1) + item("g", 0, 2)
    xml += item("h", 0, 2) + item("i", 0, 0) + item("j", 0, 99)
    assert numbered(levels, xml) == "1. a\n(a) b\n(b) c\n1.I d\n2. e\n(a) f\n5. g\n6. h\n\ni\n\nj"


@pytest.mark.parametrize(
    ("form", "labels"),
    [
        ("decimal", "1 2 27"),
        ("decimalZero", "01 02 27"),
        ("lowerRoman", "i ii xxvii"),
        ("upperLetter", "A B AA"),
        ("ordinal", "1st 2nd 27th"),
        ("hindiVowels", "1 2 27"),
    ],
)
def test_numbers_are_written_in_the_format_of_their_level(form: str, labels: str) -> None:
    lines = numbered(level(0, form, "%1"), "".join(item("x", 0) for _ in range(27))).split("\n")
    assert [lines[0], lines[1], lines[26]] == [f"{label} x" for label in labels.split()]


def test_bullets_are_no_numbers_and_a_level_may_write_its_others_in_digits() -> None:
    levels = (
        level(0, "upperRoman", "Part %1") + level(1, "decimal", "%1.%2", "<w:isLgl/>") + level(2, "bullet", "\uf0b7")
    )
    assert numbered(levels, item("a", 0) + item("b", 1) + item("c", 2)) == "Part I a\n1.1 b\nc"


def test_a_list_that_refers_to_a_style_of_lists_has_its_numbers() -> None:
    linked = '<w:abstractNum w:abstractNumId="8"><w:numStyleLink w:val="Legal"/></w:abstractNum>'
    levels = '<w:styleLink w:val="Legal"/>' + level(0, "decimal", "§ %1")
    assert numbered(levels, item("a", 0, 3) + item("b", 0, 3), numbering=linked) == "§ 1 a\n§ 2 b"


def test_headings_are_numbered_by_their_styles() -> None:
    levels = level(0, "decimal", "%1", '<w:pStyle w:val="H1"/>') + level(
        1, "decimal", "%1.%2", '<w:pStyle w:val="H2"/>'
    )
    style = (
        '<w:style w:type="paragraph" w:styleId="H{0}"><w:name w:val="heading {0}"/><w:pPr><w:numPr>'
        '<w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    )
    paragraph = '<w:p><w:pPr><w:pStyle w:val="H{}"/></w:pPr><w:r><w:t>{}</w:t></w:r></w:p>'
    xml = "".join(paragraph.format(*each) for each in [(1, "One"), (2, "Two"), (2, "Three"), (1, "Four"), (2, "Five")])
    shown = numbered(levels, xml, styles=style.format(1) + style.format(2))
    assert shown == "1 One\n\n1.1 Two\n\n1.2 Three\n\n2 Four\n\n2.1 Five"


def table(*rows: str) -> str:
    return f"<w:tbl><w:tblGrid>{'<w:gridCol/>' * 3}</w:tblGrid>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def cell(text: str = "", properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"


def test_cells_that_span_columns_or_rows_leave_the_others_in_their_columns() -> None:
    begun, more, wide = '<w:vMerge w:val="restart"/>', "<w:vMerge/>", '<w:gridSpan w:val="2"/>'
    rows = (
        cell("Fare", begun) + cell("Ages", wide),
        cell("", more) + cell("6") + cell("18"),
        cell("Bus", begun) + cell("free", wide),
        cell("", more) + cell() + cell("a|b"),
        '<w:trPr><w:gridBefore w:val="2"/></w:trPr>' + cell("last"),
    )
    assert text(table(*rows)).split("\n") == [
        "| Fare | Ages / 6 | Ages / 18 |",
        "|---|---|---|",
        "| Bus | free |  |",
        "| Bus |  | a\\|b |",
        "|  |  | last |",
    ]


def test_rows_that_word_repeats_on_each_page_name_the_columns_together() -> None:
    head = "<w:trPr><w:tblHeader/></w:trPr>"
    rows = (head + cell("Fare") + cell("2026"), head + cell() + cell("Euro"), cell("Bus") + cell("4"))
    assert text(table(*rows)).split("\n") == ["| Fare | 2026 / Euro |", "|---|---|", "| Bus | 4 |"]
    assert text(table(*(head + cell("a") + cell("b") for _ in range(9)))).startswith("| a | b |\n|---|---|\n| a | b |")


def test_a_table_of_one_row_or_one_column_is_a_frame_around_text() -> None:
    assert text(table(cell("a") + cell("b"))) == "a\tb"
    assert text(table(cell("a"), cell("b"))) == "a\nb"
