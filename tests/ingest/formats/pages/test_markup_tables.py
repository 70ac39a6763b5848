"""Tables of HTML in Markdown: as tables of Markdown, but for those in code."""

from __future__ import annotations

import pytest

from aidre.ingest.formats.pages.markup_tables import convert_tables, has_tables

TABLE = "<table>\n<tr><th></th><th>Adult</th></tr>\n\n<tr><td>Bus</td><td></td></tr>\n</table>"
WRITTEN = "|  | Adult |\n|---|---|\n| Bus |  |"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"# Fares\n\n{TABLE}\n\nMore.\n", f"# Fares\n\n{WRITTEN}\n\nMore.\n"),
        (
            f"Fares\n<div align=center>{TABLE.upper()}</div>",
            "Fares\n<div align=center>\n\n" + WRITTEN.upper() + "\n\n</div>",
        ),
        ("<table><tr><td>a</td><td>b\n", "<table><tr><td>a</td><td>b\n"),
        (f"```html\n{TABLE}\n```\n", f"```html\n{TABLE}\n```\n"),
        (f"~~~\n{TABLE}\n", f"~~~\n{TABLE}\n"),
        (f"    {TABLE}", f"    {TABLE}"),
        (f"The element `<table>` and {TABLE}", f"The element `<table>` and {TABLE}"),
        ("<table></table>x", "\n\nx"),
    ],
)
def test_tables_are_written_in_markdown(text: str, written: str) -> None:
    assert convert_tables(text) == written


def test_a_table_in_a_table_is_a_part_of_it() -> None:
    inner = "<table><tr><td>in</td><td>ner</td></tr><tr><td>1</td><td>2</td></tr></table>"
    text = convert_tables(f"<table><tr><td>a</td><td>{inner}</td></tr></table>\nend")
    assert "<" not in text and text.endswith("\n\nend")


def test_many_tags_take_linear_time() -> None:
    assert has_tables("<table>") and not has_tables("<tablet>")
    for text in ("x <table>" * 50_000, "<table>" * 50_000, "```\n" * 50_000 + TABLE, "</table><table x" * 30_000):
        assert convert_tables(text)
