"""What stands on PDF pages beside their text is left out, and what only looks like it stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aidre.ingest.formats.pdf import parse
from aidre.ingest.formats.pdf_pages import strip_page_furniture
from tests.support.documents import pdf

PROSE = ["Functions are made by the reserved word that is", "followed by a list of arguments and a body of it."]
TERMS = ["apply", "array", "binding", "closure", "default", "environment", "formals", "function", "generic", "lapply"]


def pages_of(*pages: Sequence[str], among: int = 20) -> list[list[str]]:
    """These pages before others of text."""
    return [*map(list, pages), *(list(PROSE) for _ in range(among - len(pages)))]


def test_contents_with_leaders_are_left_out() -> None:
    contents = [
        "Table of Contents",
        "1 Introduction. . . . . . . . . . . . . . . . . . . . 1",
        "2 Objects . . . . . . . . . . . . . . . . . . . . . . . . 2",
        "2.1 Basic types of which there are",
        "some . . . . . . . . . . . . . . . . . . . . . . . . 2",
        "3 Evaluation ...................... 10",
    ]
    assert strip_page_furniture(pages_of(contents))[0] == []
    assert strip_page_furniture(pages_of([*contents, "", *PROSE, *PROSE]))[0][-4:] == [*PROSE, *PROSE]


def test_an_index_is_left_out_with_its_letters_and_its_rest_on_the_next_page() -> None:
    dotted = ["Index", "A", *(f"{term} . . . . . . . . . . . {number}, 12" for number, term in enumerate(TERMS, 3))]
    plain = ["Index", "∗ algebra", *(f"{term}, {number}, 12" for number, term in enumerate(TERMS, 3)), "zip, see unzip"]
    rest = ["Y", "yaml . . . . . . . . . . . . 7"]
    assert strip_page_furniture(pages_of(dotted, rest, plain))[:3] == [[], [], []]


@pytest.mark.parametrize(
    "lines",
    [
        [
            f"{dish} ............ {price}"
            for dish, price in zip(TERMS[::-1], [9, 14, 8, 12, 7, 15, 9, 11, 6, 13], strict=True)
        ],
        [f"{dish} ............ {price}" for dish, price in zip(TERMS, range(900, 910), strict=True)],
        [f"{name}, {number}" for number, name in enumerate(TERMS, 1950)],
        ["a 12 34", "b 13 37", "c 15 40", "d 16 41", "e 18 44", "f 19 47"],
        ["and so on . . . . 3", *PROSE],
        ["He waited.....", "And waited.....", "Then he left....."],
    ],
)
def test_price_lists_tables_and_dots_stay(lines: list[str]) -> None:
    assert strip_page_furniture(pages_of(lines))[0] == lines


def test_a_document_that_is_nothing_but_contents_is_kept() -> None:
    contents = [[f"{number} Part . . . . . . . . . . {number}" for number in range(1, 9)]]
    assert strip_page_furniture(contents) == contents


def test_running_heads_are_left_out() -> None:
    def page(number: int) -> list[str]:
        head = f"{number} Chapter 2: Objects" if number % 2 else f"The Language {number}"
        return [head, *PROSE, f"- draft {number} of it"]

    assert strip_page_furniture([page(number) for number in range(3, 9)])[0] == [
        "", *PROSE, "- draft 3 of it"
    ]  # fmt: skip


def test_page_numbers_alone_are_left_out_also_roman_ones() -> None:
    pages = [["i", *PROSE], ["ii", *PROSE], *([f"{number}", *PROSE] for number in range(1, 8))]
    assert all(page == ["", *PROSE] for page in strip_page_furniture(pages))


def test_heads_of_a_book_go_even_where_their_words_stand_on_one_page_only() -> None:
    pages = [
        [f"{number} {TERMS[number % 10]}{number}" if number % 2 else f"{TERMS[number % 10]}{number} {number}", *PROSE]
        for number in range(1, 30)
    ]
    assert all(page == ["", *PROSE] for page in strip_page_furniture(pages))


def test_numbered_headings_on_pages_of_their_own_stay() -> None:
    pages = [[f"{number} {term}", *PROSE] for number, term in enumerate(TERMS, 1)]
    assert strip_page_furniture(pages) == pages


def test_a_sentence_goes_on_over_the_end_of_a_page() -> None:
    first = ["The first page ends in the middle of a sentence that", "goes on over the end of its page and is"]
    second = ["ended here. Another sentence stands below it, as long", "as the lines of this page are, or nearly so."]
    found = parse(pdf([first, second]), {})
    assert "and is ended here. Another" in found["text"]
    assert [found["text"][start:][:8] for start, _, _ in found["headings"]] == ["The firs", "Another "]


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        (
            ["Institute of Things", "# On the Measurement", "# of Things", "A. Author", *PROSE],
            "On the Measurement of Things",
        ),
        (["# Data", *PROSE], "Data"),
        (["# 2024", "Report", *PROSE], None),
        (PROSE, None),
        (["# untitled", *PROSE], None),
        (["# " + "Too many words for a title. " * 9], None),
    ],
)
def test_the_title_is_what_stands_in_the_largest_type_of_the_first_page(lines: list[str], title: str | None) -> None:
    lines = [line.replace("# ", "\x01") for line in lines]
    content = pdf([lines, PROSE], size_of=lambda line: 24 if line.startswith("\x01") else 12)
    assert parse(content, {}).get("title") == title


def test_the_title_of_the_document_information_wins_and_the_only_bookmark_of_the_first_level_is_the_last_resort() -> (
    None
):
    def sized(line: str) -> int:
        return 24 if line == "Large" else 12

    assert parse(pdf([["Large", *PROSE]], info={"Title": "Own"}, size_of=sized), {})["title"] == "Own"
    assert parse(pdf([["Large", *PROSE]], info={"Title": "x.doc"}, size_of=sized), {})["title"] == "Large"
    assert parse(pdf([PROSE], outline=[("The only one", 0)]), {})["title"] == "The only one"
    assert "title" not in parse(pdf([PROSE], outline=[("One", 0), ("Two", 0)]), {})


def test_a_line_of_nothing_but_dots_is_read_to_its_end() -> None:
    pages = [["." * 1_000_000 + "x", "a " * 500_000, ". " * 500_000 + "1"]]
    assert strip_page_furniture(pages) == pages
