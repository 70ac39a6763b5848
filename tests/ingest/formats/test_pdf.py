"""PDF as a document: text in paragraphs, bookmarks and pages as headings, metadata, and files that are broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.pdf import MAX_BOOKMARKS, MAX_PAGES, parse
from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Rejected
from aidre.ingest.records.vectors import VectorRules
from aidre.ingest.sandbox.parent import SHARED, Sandbox, SandboxLimits
from aidre.ingest.sources.readers import READERS
from tests.support.documents import ENCRYPTED, pdf, pdf_file, stream

FULL = "This is a line of text that reaches as far to the right as any other one"


def text(*lines: str) -> str:
    found = parse(pdf([lines]), {})["text"]
    assert isinstance(found, str)
    return found


def headings(content: bytes) -> list[tuple[int, str, str]]:
    """Level, title, and the line of the text that each heading stands at."""
    found = parse(content, {})
    return [(level, title, found["text"][start:].split("\n")[0]) for start, level, title in found["headings"]]


def reason(content: bytes) -> str:
    with pytest.raises(InvalidDocument) as caught:
        parse(content, {})
    return caught.value.message


def test_a_file_becomes_a_document_through_the_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "paper.pdf"
    info = {"Title": "On things", "Author": "Ä. Author", "Subject": "Things", "Keywords": "one, two;three"}
    dates = {"CreationDate": "D:20240101", "ModDate": "D:20240102030405+02'00'"}
    path.write_bytes(pdf([["Some text."]], info=info | dates, catalog=b"/Lang(de-AT)"))
    with SHARED:
        (found,) = READERS[".pdf"](File(path, "docs", "paper.pdf", "https://x.org/paper.pdf"), VectorRules([], []))
    assert not isinstance(found, Rejected)
    assert isinstance(found, tuple)
    where, document = found
    assert (where, document.id, document.url) == ("paper.pdf", "docs/paper.pdf", "https://x.org/paper.pdf")
    assert (document.title, document.text, document.updated_at) == ("On things", "Some text.", "2024-01-02T01:04:05Z")
    assert document.metadata == {
        "language": "de-AT",
        "author": "Ä. Author",
        "subject": "Things",
        "keywords": ["one", "two", "three"],
        "created": "2024-01-01T00:00:00Z",
    }


def test_lines_become_paragraphs_again() -> None:
    assert text(FULL, FULL, "and its end.", FULL, "end.") == f"{FULL} {FULL} and its end.\n\n{FULL} end."


def test_items_and_short_lines_stay_lines() -> None:
    assert (
        text(FULL, "Short", "Other", "1. one", "2. two", "• three") == f"{FULL} Short\nOther\n1. one\n2. two\n• three"
    )


def test_blank_pages_leave_no_gap() -> None:
    assert parse(pdf([["One"], [], ["Two"]]), {})["text"] == "One\n\nTwo"
    assert parse(pdf([[], []]), {}) == {"text": "", "headings": [], "metadata": {}}


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        (("hyphen-", "ation"), "hyphenation"),
        (("Anglo-", "Saxon"), "Anglo-Saxon"),
        (("a well-", "known fact, well-known"), "a well-known fact, well-known"),
        (("a well-", "known fact is known well"), "a well-known fact is known well"),
        (("a data-", "base as a base of data, database"), "a database as a base of data, database"),
        (("the years 1990-", "2000 and so on"), "the years 1990-2000 and so on"),
    ],
)
def test_a_word_that_a_line_parted_is_whole_again(lines: tuple[str, ...], joined: str) -> None:
    assert text(*lines) == joined


def test_pages_are_sections_where_there_are_no_bookmarks() -> None:
    assert headings(pdf([["One"], [], ["Three"]])) == [(1, "Page 1", "One"), (1, "Page 3", "Three")]
    assert headings(pdf([["One"]])) == []


def test_bookmarks_stand_at_the_line_that_says_the_same() -> None:
    pages = [
        ["My running head", "1 First thing", "Words.", "1.1 The second", "long thing", "More."],
        ["My running head", "End.", "CHAPTER 2. Other Things", FULL, "Appendix A Last", "Words."],
    ]
    outline = [("First thing", 0), ("1.1. The second long thing", 0), ("2 Other things", 1), ("A Last", 1)]
    assert headings(pdf(pages, outline=outline)) == [
        (1, "First thing", "1 First thing"),
        (1, "1.1. The second long thing", "1.1 The second"),
        (1, "2 Other things", "CHAPTER 2. Other Things"),
        (1, "A Last", "Appendix A Last"),
    ]


def test_a_line_that_is_a_heading_is_a_paragraph_of_its_own() -> None:
    found = parse(pdf([[FULL, FULL, "Next", FULL, "end."]], outline=[("Next", 0)]), {})
    assert found["text"] == f"{FULL} {FULL}\n\nNext\n\n{FULL} end."


def test_a_bookmark_that_no_line_repeats_stands_at_the_top_of_its_page() -> None:
    content = pdf([["One"], ["Two", "Three"]], outline=[("Elsewhere", 1), ("Three", 1), ("Later", 1)])
    assert headings(content) == [(1, "Elsewhere", "Two"), (1, "Three", "Three"), (1, "Later", "Three")]


def test_bookmarks_of_one_name_stand_at_one_line_each() -> None:
    content = pdf([["Name", "a", "Name", "b"]], outline=[("Name", 0), ("Name", 0), ("Name", 0)])
    assert parse(content, {})["headings"] == [[0, 1, "Name"], [9, 1, "Name"], [9, 1, "Name"]]


def test_bookmarks_come_in_the_order_of_their_pages() -> None:
    assert [title for _, title, _ in headings(pdf([["a"], ["b"]], outline=[("b", 1), ("a", 0)]))] == ["a", "b"]


@pytest.mark.parametrize(
    "title",
    ["", "  ", "Untitled", "untitled document 3", "report_final.docx", "Microsoft Word - a b.doc", "Document1", "12-3",
     "(anonymous)", "PowerPoint Presentation", "PowerPoint-Präsentation", "Book1", "Sheet 2", "slides.odp", "a b.ods",
     "(unspecified)", "Presentation3", "20240501"],
)  # fmt: skip
def test_what_a_program_wrote_for_want_of_a_title_is_none(title: str) -> None:
    assert "title" not in parse(pdf([["x"]], info={"Title": title}), {})


@pytest.mark.parametrize(
    ("title", "taken"),
    [
        ("Microsoft Word - Our plan", "Our plan"),
        ("ASP.NET", "ASP.NET"),
        ("Book of Hours", "Book of Hours"),
        ("Unknown Pleasures", "Unknown Pleasures"),
        (" A\n title ", "A title"),
    ],
)
def test_a_title_is_taken(title: str, taken: str) -> None:
    assert parse(pdf([["x"]], info={"Title": title}), {})["title"] == taken


@pytest.mark.parametrize(
    ("date", "read"),
    [
        ("D:20240102030405Z", "2024-01-02T03:04:05Z"),
        ("D:202401020304", "2024-01-02T03:04:00Z"),
        ("20240102030405-08'30", "2024-01-02T03:04:05-08:30"),
        ("D:2024", None),
        ("yesterday", None),
    ],
)
def test_dates_are_read_in_the_notations_of_pdf(date: str, read: str | None) -> None:
    assert parse(pdf([["x"]], info={"ModDate": date}), {}).get("updated_at") == read


def test_without_a_change_the_date_is_that_of_the_creation() -> None:
    assert parse(pdf([["x"]], info={"CreationDate": "D:20240102"}), {})["updated_at"] == "2024-01-02T00:00:00Z"


def tree(pages: bytes) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"
    return pdf_file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages%s>>" % pages, page])


BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not a PDF file, whatever its name says"),
    "another format": (b"<html><p>Hello", "is not a PDF file, whatever its name says"),
    "garbage": (b"%PDF-1.7\n" + bytes(range(256)) * 400, "is a damaged PDF file: it cannot be opened"),
    "truncated": (pdf([["x"]] * 50)[:4000], "is a damaged PDF file: it cannot be opened"),
    "encrypted": (
        pdf([["x"]], trailer=b"/Encrypt " + ENCRYPTED),
        "is encrypted: ingest a copy that opens without a password",
    ),
    "looping pages": (tree(b"/Count 2/Kids[2 0 R 2 0 R]"), "is a damaged PDF file: page 1 cannot be read"),
    "pages that are not there": (tree(b"/Count 7/Kids[3 0 R]"), "is a damaged PDF file: page 2 cannot be read"),
    "a million pages": (tree(b"/Count 1000000/Kids[3 0 R]"), f"has 1000000 pages, more than {MAX_PAGES}: split it"),
}


@pytest.mark.parametrize(("content", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_in_words(content: bytes, said: str) -> None:
    assert reason(content) == said


def test_a_page_with_endless_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.ingest.formats.pdf.MAX_CHARACTERS", 3 << 10)
    assert parse(pdf([["x" * 100] * 10] * 2), {})["text"].count("x") == 2000
    assert reason(pdf([["x" * 100] * 20] * 2)).endswith("characters of text: split it")


def outline_of(entries: list[bytes]) -> bytes:
    first: list[Any] = [b"<</Type/Catalog/Pages 2 0 R/Outlines 4 0 R>>", b"<</Type/Pages/Count 1/Kids[3 0 R]>>"]
    return pdf_file([*first, b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>", b"<</First 5 0 R>>", *entries])


def test_bookmarks_that_loop_come_once() -> None:
    loop = b"<</Title(x)/First 5 0 R/Next 5 0 R/Dest[3 0 R/Fit]>>"
    assert parse(outline_of([loop]), {})["headings"] == [[0, 1, "x"]]


@pytest.mark.slow
def test_bookmarks_are_bounded_in_depth_and_number() -> None:
    deep = [b"<</Title(x)/First %d 0 R/Dest[3 0 R/Fit]>>" % (6 + number) for number in range(5000)]
    assert max(level for _, level, _ in parse(outline_of(deep), {})["headings"]) <= 20
    wide = [b"<</Title(x)/Next %d 0 R/Dest[3 0 R/Fit]>>" % (6 + number) for number in range(MAX_BOOKMARKS + 10)]
    assert len(parse(outline_of(wide), {})["headings"]) == MAX_BOOKMARKS


def test_a_bookmark_that_leads_nowhere_or_says_nothing_is_left_out() -> None:
    nowhere = b"<</Title(x)/Next 6 0 R/Dest[99 0 R/Fit]>>"
    blank = b"<</Title( )/Dest[3 0 R/Fit]>>"
    assert parse(outline_of([nowhere, blank]), {})["headings"] == []


@pytest.mark.slow
def test_a_stream_that_inflates_without_end_costs_the_child_only() -> None:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>"
    bomb = stream(b" " * (1 << 26), deflated=True)
    content = pdf_file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[3 0 R]>>", page, bomb])
    with Sandbox(SandboxLimits(memory=128 << 20)) as sandbox:
        with pytest.raises(InvalidDocument, match=r"cannot be read: the parser crashed|of memory to read"):
            sandbox.parse("pdf", content)
        assert sandbox.parse("pdf", pdf([["next"]]))["text"] == "next"


def arabic(*codes: str) -> bytes:
    """A page of one line, drawn from the left to the right, with a glyph for each code of letters."""
    mapping = b" ".join(b"<%02x> <%s>" % (0x41 + number, code.encode()) for number, code in enumerate(codes))
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def "
        b"1 begincodespacerange <00> <FF> endcodespacerange %d beginbfchar %s endbfchar endcmap "
        b"CMapName currentdict /CMap defineresource pop end end" % (len(codes), mapping)
    )
    names = " ".join(["/a"] * len(codes)).encode()
    letters = bytes(0x41 + number for number in range(len(codes)))
    return pdf_file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 800] /Contents 4 0 R "
            b"/Resources << /Font << /F1 5 0 R >> >> >>",
            stream(b"BT /F1 20 Tf 60 760 Td (%s) Tj ET" % letters),
            b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [0.001 0 0 0.001 0 0] /FirstChar 65 "
            b"/LastChar %d /Widths [%s] /CharProcs << /a 6 0 R >> /Encoding << /Type /Encoding /Differences [65 %s] >> "
            b"/Resources << >> /ToUnicode 7 0 R >>" % (64 + len(codes), b" ".join([b"500"] * len(codes)), names),
            stream(b"500 0 0 0 400 600 d1 0 0 400 600 re f"),
            stream(cmap),
        ]
    )


@pytest.mark.parametrize(
    ("codes", "word"),
    [
        (("0645", "06440627", "0633"), "سلام"),
        (("0629", "064a", "062c", "0627", "062a", "0646", "06440625", "0627"), "الإنتاجية"),
        (("0645", "0627", "0644"), "لام"),
        (("05dd", "05d5", "05dc", "05e9"), "שלום"),
    ],
)
def test_letters_of_one_glyph_come_in_their_order(codes: tuple[str, ...], word: str) -> None:
    assert parse(arabic(*codes), {})["text"] == word


def columns(*rows: str) -> bytes:
    return pdf([rows])


def test_rows_of_a_table_stay_lines() -> None:
    rows = ["Start Date   End Date   Shows   Gross Amount", "12/20/24   12/24/24   48   $12,500.00"]
    rows += ["12/25/24   12/28/24   36   $10,100.00", "12/29/24   12/31/24   12   $4,800.00"]
    found = parse(columns(*rows), {})["text"].split("\n")
    assert found == [" ".join(row.split()) for row in rows]


def test_rows_between_paragraphs_stay_apart_from_them() -> None:
    prose = [
        "The shows of the season are listed here, with their dates and",
        "the amounts that were taken at the door:",
    ]
    rows = ["Hamlet   Old Vic   36   $10,100.00", "Othello   New Vic   12   $4,800.00 "]
    found = parse(columns(*prose, *rows), {})["text"].split("\n")
    assert found == [" ".join(prose), *(" ".join(row.split()) for row in rows)]


def picture_pages(*has_picture: bool) -> bytes:
    """Pages without text, some of which draw an image."""
    count = len(has_picture)
    kids = b" ".join(b"%d 0 R" % (3 + number) for number in range(count))
    image = b"<< /Resources << /XObject << /I %d 0 R >> >> /Contents %d 0 R " % (3 + count, 4 + count)
    pages = [
        (image if has else b"<< ") + b"/Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] >>" for has in has_picture
    ]
    return pdf_file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
            *pages,
            b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 "
            b"/Length 1 >>\nstream\n\x00\nendstream",
            stream(b"300 0 0 300 0 0 cm /I Do"),
        ]
    )


def test_pages_that_are_pictures_are_counted() -> None:
    assert parse(picture_pages(True, True), {})["notice"] == "no text: 2 pages need OCR (--ocr)"
    assert parse(picture_pages(True, False), {})["notice"] == "1 page needs OCR (--ocr): of 2 pages they have no text"
    assert parse(picture_pages(False, True), {})["pictures"] == [1]
    assert not {"notice", "pictures"} & parse(picture_pages(False), {}).keys()


def test_what_ocr_found_on_a_page_is_its_text() -> None:
    content = picture_pages(True, True, False)
    answer = parse(content, {"scanned": {"1": "The crane was exam-\nined in\nMarch and found well.\n\nThen"}})
    assert answer["text"] == "The crane was examined in March and found well.\n\nThen"
    assert answer["headings"] == [[0, 1, "Page 2"]]
    assert answer["notice"] == "OCR read 1 page, and found no text on 1 more"
    assert parse(content, {"scanned": {"1": "text"}, "unread": 1})["notice"] == "OCR read 1 page"
