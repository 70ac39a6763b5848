"""Org as a document: headlines, keywords, blocks, tables and marks."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.ingest.formats.markup.org import parse


def read(markup: str) -> dict[str, Any]:
    return parse(markup.encode(), {})


def test_headlines_and_keywords() -> None:
    page = (
        "#+TITLE: My /file/\n#+DATE: <2024-03-01 Fri 10:30>\n#+FILETAGS: :a:b:\n#+AUTHOR: Ann\n\nIntro.\n"
        "* TODO [#A] First [1/2]  :x:\n:PROPERTIES:\n:ID: 3\n:END:\nSCHEDULED: <2024-01-01>\nwords\n"
        "** COMMENT gone\ngone\n*** gone\n** Second\nmore\n* Hidden :noexport:\ngone\n* End\n"
    )
    found = read(page)
    assert (found["title"], found["updated_at"]) == ("My file", "2024-03-01T10:30")
    assert found["metadata"] == {"author": "Ann", "tags": ["a", "b"]}
    assert [(level, title) for _, level, title in found["headings"]] == [(2, "First"), (3, "Second"), (2, "End")]
    assert found["text"] == "Intro.\n\nFirst\n\nwords\n\nSecond\n\nmore\n\nEnd"


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("*b* /i/ _u_ =v= ~c~ +s+ and 2*3*4", "b i u v c s and 2*3*4"),
        ("[[https://x.org][a site]] [[https://y.org]] [[file:a.png]]", "a site https://y.org"),
        ("one\ntwo\\\\\nthree", "one two three"),
        (
            "- a\n  goes on\n  - inner\n- [X] done\n1. first\n+ term :: meaning",
            "a goes on\ninner\ndone\n1. first\nterm: meaning",
        ),
        ("| a | b |\n|---+---|\n| 1 | [[x][y]] |\n#+TBLFM: $1=2", "| a | b |\n|---|---|\n| 1 | y |"),
        ("#+begin_src sh\n  ls\n    -l\n#+end_src", "ls\n  -l"),
        ("#+BEGIN_QUOTE\nsaid\n#+END_QUOTE", "said"),
        ("#+begin_comment\nno\n#+end_comment\n# no\n#+begin_export html\n<b>\n#+end_export\nyes", "yes"),
        (": fixed\n:   width", "fixed\n  width"),
        ("words[fn:1]\n\n[fn:1] The note.", "words[1]\n\n[1] The note."),
        ("#+CAPTION: A picture\n{{{macro(x)}}} <<target>>t", "A picture\n\nt"),
        ("on <2024-05-06 Mon 10:00 +1w>", "on 2024-05-06 10:00"),
        ("#+begin_src\nnever closed", "never closed"),
        ("", ""),
    ],
)
def test_text_is_what_readers_see(markup: str, expected: str) -> None:
    assert read(markup)["text"] == expected


def test_code_and_tables_are_marked() -> None:
    found = read("x\n\n#+begin_example\ncode\n#+end_example\n\n| a | b |\n| 1 | 2 |\n")
    assert [found["text"][start:end].split("\n")[0] for start, end in found["verbatim"]] == ["code", "| a | b |"]


def test_drawers_without_an_end_are_text() -> None:
    assert read(":a:\n:b:\n\nwords\n:c:\nx\n:END:\nend")["text"] == ":a:\n\n:b:\n\nwords\n\nend"
