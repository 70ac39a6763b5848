"""Titles of HTML pages: the page's own, not its site's."""

from __future__ import annotations

import pytest

from aidre.ingest.formats.pages.main_text import find_title


@pytest.mark.parametrize(
    ("title", "heading", "site", "found"),
    [
        (
            "bisect — Array bisection — Python 3.11.2 documentation",
            "bisect — Array bisection",
            None,
            "bisect — Array bisection",
        ),
        ("Python documentation: Sorting", "Sorting", None, "Sorting"),
        ("The Site | Sorting HOW TO", "Sorting HOW TO", None, "Sorting HOW TO"),
        ("Index — Python 3.11.2 documentation", "Index – A", None, "Index – A"),
        ("Sorting · Docs", "How to sort", None, "Sorting · Docs"),
        ("Sorting · Docs", "How to sort", "Docs", "Sorting"),
        ("Docs: Sorting", "", "DOCS", "Sorting"),
        ("A - b", "A", None, "A - b"),
        ("Sorting", "Sorting", "Sorting", "Sorting"),
        ("Client-side rendering", "Client", None, "Client-side rendering"),
        ("Chapter 5. Data", "5. Data", None, "Chapter 5. Data"),
        ("", "Sorting", None, None),
        (None, "Sorting", None, None),
    ],
)
def test_the_name_of_the_site_is_no_part_of_a_title(
    title: str | None, heading: str, site: str | None, found: str | None
) -> None:
    assert find_title(title, [(0, 1, heading)] if heading else [], site) == found


def test_the_heading_of_a_page_is_its_first_of_level_1_else_its_first() -> None:
    assert find_title("Sorting — Docs", [(0, 2, "Before"), (9, 1, "Sorting")], None) == "Sorting"
    assert find_title("Sorting — Docs", [(0, 2, "Sorting"), (9, 3, "Docs")], None) == "Sorting"
