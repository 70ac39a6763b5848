"""RTF as a document: text in its encodings, headings, tables, and groups that are not text."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.office.rtf import MAX_DEPTH, parse


def read(body: str) -> dict[str, Any]:
    return parse(b"{\\rtf1\\ansi\\ansicpg1252 " + body.encode("latin-1") + b"}", {})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("One\\par Two \\b bold\\b0\\par", "One\n\nTwo bold"),
        ("caf\\'e9 \\u8364? \\u-10179?\\u-8704?!", "café € 😀!"),
        ("\\uc0\\u8364 x \\uc2\\u8364??y", "€x €y"),
        ("{\\fonttbl{\\f1\\fcharset204 T;}}{\\f1 \\'cf\\'f0} a", "Пр a"),
        ("{\\fonttbl{\\f2\\fcharset128 T;}}{\\f2 \\'93\\'fa\\'96\\'7b}", "日本"),
        ("a\\~b \\{c\\} d\\_e\\line f\\tab g", "a b {c} d-e f\tg"),
        ("{\\pict 89504e47}{\\*\\generator X;}{\\header head}{\\*\\unknown x}shown", "shown"),
        ('{\\field{\\*\\fldinst HYPERLINK "x"}{\\fldrslt a link}}', "a link"),
        ("\\bin3 \\}}x", "x"),
        ("one\\\ntwo", "one\n\ntwo"),
        ("}}}} after", "after"),
        ("{{{never closed", "never closed"),
    ],
)
def test_text_is_what_readers_see(body: str, expected: str) -> None:
    assert read(body)["text"] == expected


def test_headings_are_known_by_style_and_outline_level() -> None:
    found = read(
        "{\\stylesheet{\\s0 Normal;}{\\s7\\b heading 2;}}\\pard\\s7 Styled\\par\\pard words\\par"
        "\\pard\\outlinelevel0 Outlined\\par\\pard end"
    )
    assert [(level, title) for _, level, title in found["headings"]] == [(2, "Styled"), (1, "Outlined")]
    assert found["text"] == "Styled\n\nwords\n\nOutlined\n\nend"


def test_tables_are_tables_of_markdown() -> None:
    row = "\\trowd\\cellx1\\cellx2\\intbl {}\\cell {}\\cell\\row "
    assert read(row.format("a", "b") + row.format("1\\par 2", "3|") + "\\pard end")["text"] == (
        "| a | b |\n|---|---|\n| 1 2 | 3\\| |\n\nend"
    )


def test_the_information_of_a_file_is_members() -> None:
    found = read(
        "{\\info{\\title My \\'e4}{\\author Ann}{\\keywords a, b}{\\creatim\\yr2024\\mo3\\dy1\\hr10\\min5}"
        "{\\revtim\\yr2024\\mo3\\dy2}{\\company X}}text"
    )
    assert (found["title"], found["updated_at"]) == ("My ä", "2024-03-02T00:00:00Z")
    assert found["metadata"] == {"author": "Ann", "keywords": ["a", "b"]}


def test_what_is_no_rtf_and_what_is_too_deep_is_refused() -> None:
    with pytest.raises(InvalidDocument, match="is not an RTF file"):
        parse(b"plain", {})
    with pytest.raises(InvalidDocument, match="inside each other"):
        read("{" * (MAX_DEPTH + 1))
    assert parse(b" ", {})["text"] == ""
