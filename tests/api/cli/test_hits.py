"""How hits and facets are shown, `api/cli/hits.py`."""

from __future__ import annotations

import sys

import pytest

from aidre.api.cli.hits import facet_line, hit_lines
from aidre.engine.model import Highlight
from aidre.engine.types import Facet


def test_documents_cannot_steer_the_terminal() -> None:
    source = {"title": "\x1b[31mred", "url": "https://example.com/\x07"}
    hit = {"rank": 1, "relevance": 0.5, "document_id": "a", "source": source, "text": "one\x1b[2Jtwo \ue000"}
    assert all(line.isprintable() for line in hit_lines(hit))


def test_a_hit_says_where_it_is_and_nothing_twice() -> None:
    def place(**source: str) -> list[str]:
        hit = {"rank": 1, "relevance": 0.5, "document_id": "docs/a.md", "source": source, "text": "words"}
        return list(hit_lines(hit))[:-1]

    assert place(title="A", section="A") == ["  1   50%  A", "     docs/a.md"]
    assert place(title="A", section="A > B", url="https://x.org/a") == ["  1   50%  A", "     https://x.org/a · A > B"]
    assert place() == ["  1   50%  docs/a.md"]


def test_a_hit_begins_with_its_best_sentence_and_every_bold_word_ends_on_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    text = "Before. The " + "long-" * 20 + "word is here."
    start = text.index("long")
    marks = Highlight([(0, 6), (start, start + 104)], [], [], [(8, len(text))])
    hit = {"rank": 1, "relevance": 1.0, "document_id": "a", "source": {}, "text": text}
    lines = list(hit_lines(hit, marks))[1:]
    assert lines[0].startswith("     … The ")
    assert "Before" not in "".join(lines)
    assert any("\x1b[1m" in line for line in lines)
    assert all(line.count("\x1b[1m") <= line.count("\x1b[22m") for line in lines)


@pytest.mark.parametrize("marks", [None, Highlight([], [], [], [(23, 34)])])
def test_a_snippet_shows_no_heading_and_no_mark_of_code(marks: Highlight | None) -> None:
    text = "# A\n\nSection B\n\n\n```md\nThe answer.\n```\n\n## Next\n\nMore."
    source = {"title": "A", "section": "A > Section B"}
    hit = {"rank": 1, "relevance": 1.0, "document_id": "a", "source": source, "text": text}
    assert list(hit_lines(hit, marks))[-1].removeprefix("     ").removeprefix("… ") == "The answer. More."


def test_a_row_of_a_table_is_shown_with_the_names_of_its_columns() -> None:
    text = "| part | price |\n|---|---|\n| pump | 3 |\n| hose | 4 |\n| valve | 5 |"
    marks = Highlight([], [], [], [(text.index("| hose"), text.index("\n| valve"))])
    hit = {"rank": 1, "relevance": 1.0, "document_id": "a", "source": {}, "text": text}
    assert list(hit_lines(hit, marks))[-1] == "     | part | price | … | hose | 4 | | valve | 5 |"


def test_a_facet_names_what_it_leaves_out() -> None:
    assert facet_line("a\x1b", Facet((("x", 2_000), (True, 1)), 2_100, 99, None, None, 12)) == (
        "a : x (2,000), True (1); 10 more values; 99 documents without"
    )
