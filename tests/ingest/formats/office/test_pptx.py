"""PPTX as a document: slides, titles, tables, notes and properties."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.office.pptx import parse
from tests.support.documents import docx, laughing, part, repacked
from tests.support.office import pptx, shape

SLIDE = "ppt/slides/slide0.xml"


def read(*slides: str, **more: Any) -> dict[str, Any]:
    return parse(pptx(slides, **more), {})


def table(*rows: str) -> str:
    cells = "".join(f"<a:tr>{row}</a:tr>" for row in rows)
    return (
        f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{cells}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    )


def cell(text: str, attributes: str = "") -> str:
    return f"<a:tc {attributes}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"


def test_slides_come_in_their_order_with_their_titles_as_headings() -> None:
    first = shape("One\nTwo", "body") + shape("The\nstart", "ctrTitle") + shape("3", "sldNum") + shape("Foot", "ftr")
    group = f"<p:grpSp>{shape('in a group')}</p:grpSp>"
    found = read(first, shape("Next", "title") + group, notes={1: "Say &lt;this&gt;"})
    assert found["text"] == "The start\n\nOne\nTwo\n\nNext\n\nin a group\n\nNotes: Say <this>"
    assert [(level, title) for _, level, title in found["headings"]] == [(1, "The start"), (1, "Next")]
    assert found["title"] == "The start"


def test_properties_are_members_but_for_titles_of_programs() -> None:
    core = (
        "<dc:title>On mills</dc:title><dc:creator>Ann</dc:creator><cp:keywords>a, b</cp:keywords>"
        "<dcterms:created>2024-01-01T00:00:00Z</dcterms:created><dcterms:modified>2024-01-02T03:04:05Z</dcterms:modified>"
    )
    found = read(shape("x", "title"), core=core)
    assert (found["title"], found["updated_at"]) == ("On mills", "2024-01-02T03:04:05Z")
    assert found["metadata"] == {"author": "Ann", "keywords": ["a", "b"], "created": "2024-01-01T00:00:00Z"}
    assert read(shape("x", "title"), core="<dc:title>PowerPoint Presentation</dc:title>")["title"] == "x"


def test_tables_are_tables_of_markdown() -> None:
    rows = (cell("a") + cell("b"), cell("1", 'rowSpan="2"') + cell("2"), cell("", 'vMerge="1"') + cell("3|4"))
    assert read(table(*rows))["text"] == "| a | b |\n|---|---|\n| 1 | 2 |\n| 1 | 3\\|4 |"


def test_hidden_slides_and_empty_presentations_have_no_text() -> None:
    assert read(shape("x"), show="0")["text"] == ""
    assert read()["text"] == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no zip", "is not a PPTX file, or a damaged one"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "older PowerPoint format: save it as .pptx"),
        (repacked(pptx(["HERE"]), {"ppt/presentation.xml": None}), "ppt/presentation.xml is missing"),
        (repacked(pptx(["x"]), {SLIDE: b"<p:sld"}), "is a damaged PowerPoint presentation: "),
        (repacked(pptx(["HERE"]), {SLIDE: laughing(part(pptx(["HERE"]), SLIDE))}), "defines XML entities"),
        (repacked(pptx(["x"]), {"ppt/media/a.bin": bytes(70 << 20)}), "inflates to more than 64 MiB"),
    ],
)
def test_what_is_no_presentation_says_so(content: bytes, said: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse(content, {})
    assert said in caught.value.message


def test_a_document_of_word_gives_no_slides() -> None:
    assert parse(docx(lambda document: document.add_paragraph("x")), {})["text"] == ""
