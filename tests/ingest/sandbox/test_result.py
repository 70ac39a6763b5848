"""Answers of parsers as documents: what is taken, what a file says instead, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records.file import File
from aidre.ingest.sandbox.result import check_answer

GOOD = {
    "text": "Title\n\nText",
    "title": "Title",
    "url": "https://x.org/a",
    "updated_at": "2026-04-01T10:00:00+02:00",
    "language": "de",
    "headings": [[0, 1, "Title"]],
    "metadata": {"author": "A"},
}


def test_an_answer_becomes_a_document() -> None:
    document = check_answer(GOOD).document(File(Path("a/b.pdf"), "docs", "a/b.pdf", "https://base/a/b.pdf"))
    assert (document.id, document.title, document.url) == ("docs/a/b.pdf", "Title", "https://x.org/a")
    assert (document.updated_at, document.metadata) == ("2026-04-01T08:00:00Z", {"language": "de", "author": "A"})
    assert (document.text, document.headings[0].title) == ("Title\n\nText", "Title")


def test_what_an_answer_leaves_out_comes_from_the_file() -> None:
    document = check_answer({"text": "x"}).document(File(Path("a/b.pdf"), "docs", "a/b.pdf", "https://base/a/b.pdf"))
    assert (document.title, document.url, document.metadata) == ("b", "https://base/a/b.pdf", {})
    assert document.updated_at is None


def test_a_date_in_another_notation_is_not_taken() -> None:
    assert check_answer(GOOD | {"updated_at": "2026-13-45T99:00:00Z"}).updated_at is None


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "text",
        {},
        {"text": None},
        GOOD | {"title": 1},
        GOOD | {"url": ["x"]},
        GOOD | {"metadata": []},
        GOOD | {"objects": ["x"]},
        GOOD | {"objects": {}},
        GOOD | {"headings": {}},
        GOOD | {"headings": ["x"]},
        GOOD | {"headings": [[0, 1]]},
        GOOD | {"headings": [[0, True, "x"]]},
        GOOD | {"headings": [[-1, 1, "x"]]},
        GOOD | {"headings": [[12, 1, "x"]]},
        GOOD | {"headings": [[0, 1 << 40, "x"]]},
        GOOD | {"headings": [[5, 1, "x"], [4, 1, "y"]]},
    ],
)
def test_an_answer_of_another_shape_is_refused(answer: Any) -> None:
    with pytest.raises(InvalidDocument, match="no sense"):
        check_answer(answer)
