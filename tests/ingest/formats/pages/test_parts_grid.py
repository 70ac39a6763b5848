"""Tables of HTML as tables of Markdown: every cell stays under its column."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from aidre.ingest.formats.pages.blocks import SKIPPED, find_blocks
from aidre.ingest.formats.pages.main_text import MainText, extract_fragment_text, extract_main_text
from aidre.ingest.formats.pages.parts import find_parts

HEAD = "<tr><th></th><th>Adult</th><th>Child</th></tr>"


def read(markup: str) -> MainText:
    page = f"<html><body><main><h1>Fares</h1>{markup}</main></body></html>"
    return extract_main_text(LexborHTMLParser(page), page, deep=False)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            f"{HEAD}<tr><td>Bus</td><td></td><td>2</td></tr><tr><td></td><td>4</td><td>1</td></tr>",
            ["|  | Adult | Child |", "|---|---|---|", "| Bus |  | 2 |", "|  | 4 | 1 |"],
        ),
        (  # a cell that spans rows is said of each of them
            f"{HEAD}<tr><td rowspan=2>Bus</td><td>3</td><td>2</td></tr><tr><td>4</td><td>1</td></tr>",
            ["|  | Adult | Child |", "|---|---|---|", "| Bus | 3 | 2 |", "| Bus | 4 | 1 |"],
        ),
        (
            f"{HEAD}<tr><td>Bus</td><td rowspan=3>3</td><td>2</td></tr><tr><td>Tram</td><td>1</td></tr>"
            "<tr><td>Train</td><td>5</td></tr>",
            ["|  | Adult | Child |", "|---|---|---|", "| Bus | 3 | 2 |", "| Tram | 3 | 1 |", "| Train | 3 | 5 |"],
        ),
        (
            f"{HEAD}<tr><td colspan=2>Closed</td><td>2</td></tr><tr><td>Bus</td><td>4</td><td>1</td></tr>",
            ["|  | Adult | Child |", "|---|---|---|", "| Closed |  | 2 |", "| Bus | 4 | 1 |"],
        ),
        (  # a name that spans columns is that of each of them
            "<tr><th></th><th colspan=2>2025</th><th>2026</th></tr><tr><td>Bus</td><td>1</td><td>2</td><td>3</td></tr>",
            ["|  | 2025 | 2025 | 2026 |", "|---|---|---|---|", "| Bus | 1 | 2 | 3 |"],
        ),
        (  # rows of unequal length, and one that heads others
            f"{HEAD}<tr><th colspan=3>City</th></tr><tr><td>Bus</td><td>4</td></tr>",
            ["|  | Adult | Child |", "|---|---|---|", "| City |  |  |", "| Bus | 4 |  |"],
        ),
        (
            f"<thead>{HEAD}</thead><tbody><tr><td>A|B</td><td><p>4</p><p>5</p></td><td><a href=x>1</a></td></tr>"
            "<tr hidden><td>x</td><td>y</td><td>z</td></tr></tbody>",
            ["|  | Adult | Child |", "|---|---|---|", "| A\\|B | 4 5 | 1 |"],
        ),
        (  # names above each other are one name
            "<thead><tr><th rowspan=2>Region</th><th colspan=2>Sales</th></tr>"
            "<tr><th>2025</th><th>2026</th></tr></thead><tr><th>North</th><td>1</td><td>2</td></tr><tr><th>South</th><td>3</td><td>4</td></tr>",
            ["| Region | Sales / 2025 | Sales / 2026 |", "|---|---|---|", "| North | 1 | 2 |", "| South | 3 | 4 |"],
        ),
        (
            "<tr><td></td><th colspan=2>Sales</th></tr><tr><th>Region</th><th>2025</th><th>2026</th></tr>"
            "<tr><th colspan=3>Inland</th></tr><tr><th>North</th><td>1</td><td>2</td></tr>",
            ["| Region | Sales / 2025 | Sales / 2026 |", "|---|---|---|", "| Inland |  |  |", "| North | 1 | 2 |"],
        ),
        (
            "<tr><td rowspan=2>Region</td><td colspan=2>Sales</td></tr><tr><td>2025</td><td>2026</td></tr>"
            "<tr><td>North</td><td>1</td><td>2</td></tr>",
            ["| Region | Sales / 2025 | Sales / 2026 |", "|---|---|---|", "| North | 1 | 2 |"],
        ),
        (  # a head of all rows is none
            "<thead><tr><td>Bus</td><td>1</td></tr><tr><td>Tram</td><td>2</td></tr></thead>",
            ["| Bus | 1 |", "|---|---|", "| Tram | 2 |"],
        ),
        (  # the first column has the names, and no row has
            "<tr><th>Born</th><td>1952</td></tr><tr><th>Died</th><td>2001</td></tr>",
            ["|  |  |", "|---|---|", "| Born | 1952 |", "| Died | 2001 |"],
        ),
        (  # names of rows that span rows
            "<tr><th></th><th></th><th>Fare</th></tr><tr><th rowspan=2>Bus</th><th>Adult</th><td>4</td></tr>"
            "<tr><th>Child</th><td>2</td></tr>",
            ["|  |  | Fare |", "|---|---|---|", "| Bus | Adult | 4 |", "| Bus | Child | 2 |"],
        ),
        (  # spans that make no sense
            f"{HEAD}<tr><td rowspan=0>Bus</td><td colspan=x>4</td><td rowspan=999999999>1</td></tr>",
            ["|  | Adult | Child |", "|---|---|---|", "| Bus | 4 | 1 |"],
        ),
    ],
)
def test_every_cell_is_under_its_column(rows: str, expected: list[str]) -> None:
    text = read(f"<table>{rows}</table>").text
    assert text.splitlines()[2:] == expected
    assert extract_fragment_text(f"<table>{rows}</table>").splitlines() == expected


def test_a_caption_is_a_paragraph_above_the_table_and_the_table_a_passage() -> None:
    main = read(f"<table><caption>Fares of 2026</caption>{HEAD}<tr><td>Bus</td><td>4</td><td>1</td></tr></table>")
    assert main.text.startswith("Fares\n\nFares of 2026\n\n|  | Adult | Child |\n")
    assert [main.text[start:end].count("\n") for start, end in main.verbatim] == [2]


def test_a_first_cell_as_wide_as_the_table_is_its_caption() -> None:
    head = f"<tr><th colspan=3>Fares of 2026</th></tr>{HEAD}"
    rows = "<tr><td>Bus</td><td>4</td><td>1</td></tr><tr><td>Tram</td><td>5</td><td>2</td></tr>"
    text = "Fares of 2026\n\n|  | Adult | Child |\n|---|---|---|\n| Bus | 4 | 1 |\n| Tram | 5 | 2 |"
    assert read(f"<table>{head}{rows}</table>").text == f"Fares\n\n{text}"
    assert read(f"<table><thead>{head}</thead>{rows}</table>").text == f"Fares\n\n{text}"


def test_a_table_of_links_is_still_known_as_one() -> None:
    links = "".join(f"<tr><td><a href=/{n}>page {n}</a></td><td><a href=/x{n}>more {n}</a></td></tr>" for n in range(9))
    tree = LexborHTMLParser(f"<body><table>{links}</table><table>{links.replace('<a ', '<b ')}</table>")
    linked, plain = find_blocks(tree.body, SKIPPED, find_parts(tree))
    assert linked.is_link and linked.is_link_list
    assert not plain.is_link and not plain.is_linked and linked.text == plain.text


def test_tables_that_lay_out_a_page_are_read_as_text() -> None:
    nested = "<table><tr><td><table><tr><td>a</td><td>b</td></tr></table></td><td>menu</td></tr></table>"
    assert "|" not in read(nested).text
    assert read("<table><tr><td>12</td><td>sacks</td></tr></table>").text.endswith("12\tsacks")


def test_spans_cannot_make_a_table_of_any_size() -> None:
    rows = "<tr><td colspan=1000 rowspan=1000>a</td><td>b</td></tr>" * 200
    assert len(read(f"<table>{rows}</table>").text) < 10_000
