"""Tables of a PDF between ruled lines as tables of Markdown, and pages whose lines are not a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from aidre.ingest.formats.pdf import parse
from aidre.ingest.formats.pdf_cells import Rule, find_frames
from tests.support.documents import pdf_file, stream

COLUMNS = (72, 232, 332, 432)
HEAD = {(0, 0): ["Region"], (0, 1): ["2025"], (0, 2): ["2026"]}
BODY = {
    (1, 0): ["North of the", "two rivers"],
    (1, 1): ["12.5"],
    (1, 2): ["13.0"],
    (2, 0): ["South"],
    (2, 2): ["4.0"],
}
WRITTEN = "| Region | 2025 | 2026 |\n|---|---|---|\n| North of the two rivers | 12.5 | 13.0 |\n| South |  | 4.0 |"
Cells = Mapping[tuple[int, int], Sequence[str]]


def shown(x: float, y: float, *lines: str) -> str:
    return f"BT /F1 10 Tf {x} {y} Td 12 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"


def ruled(cells: Cells, *, top: int = 700, lacking: Sequence[tuple[str, int, int]] = (), form: str = "stroke") -> str:
    """The drawing of a table of rows of 40 points; lines are drawn slot by slot, without those that are `lacking`.

    ("level", 1, 0) is the line below the first row of the first column, ("upright", 1, 0) the one behind its cell.
    """
    rows = [top - 40 * row for row in range(max(row for row, _ in cells) + 2)]
    lines = []
    for line, y in enumerate(rows):
        spans = enumerate(pairwise(COLUMNS))
        lines += [(left, y, right, y) for column, (left, right) in spans if ("level", line, column) not in lacking]
    for line, x in enumerate(COLUMNS):
        heights = enumerate(pairwise(rows))
        lines += [(x, below, x, above) for row, (above, below) in heights if ("upright", line, row) not in lacking]
    if form == "stroke":
        drawn = [f"{x} {y} m {x2} {y2} l S" for x, y, x2, y2 in lines]
    else:
        drawn = [f"{x} {y} {max(x2 - x, 0.7)} {max(y2 - y, 0.7)} re f" for x, y, x2, y2 in lines]
    texts = [shown(COLUMNS[column] + 4, rows[row] - 12, *cell) for (row, column), cell in cells.items()]
    return "\n".join(drawn + texts)


def read(*pages: str) -> str:
    objects = [b"", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"]
    kids = []
    for content in pages:
        objects.append(stream(content.encode("latin-1")))
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>>>>>"
            % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[0] = b"<</Type/Catalog/Pages 2 0 R>>"
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), b" ".join(kids))
    found = parse(pdf_file(objects), {})["text"]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("form", ["stroke", "filled"])
def test_rows_stay_rows_and_the_lines_of_a_cell_in_their_cell(form: str) -> None:
    assert read(ruled(HEAD | BODY, form=form)) == WRITTEN


def test_paragraphs_around_a_table_stay_apart_from_it() -> None:
    above = shown(72, 740, "The sales of the year are listed by region", "and by year, in thousands.")
    below = shown(72, 500, "and what was sold elsewhere is not in the table, which ends", "here.")
    text = "The sales of the year are listed by region and by year, in thousands."
    end = "and what was sold elsewhere is not in the table, which ends here."
    assert read("\n".join([above, ruled(HEAD | BODY), below])) == f"{text}\n\n{WRITTEN}\n\n{end}"


def test_the_order_in_which_cells_are_drawn_does_not_matter() -> None:
    cells = HEAD | BODY
    assert read(ruled(dict(sorted(cells.items(), key=lambda item: item[0][1])))) == WRITTEN


def test_names_above_each_other_are_one_name_and_cells_that_span_rows_are_in_each() -> None:
    cells = {(0, 0): ["Region"], (0, 1): ["Sales"], (1, 1): ["2025"], (1, 2): ["2026"]}
    cells |= {(2, 0): ["North"], (2, 1): ["1"], (2, 2): ["2"], (3, 1): ["3"], (3, 2): ["4"]}
    spans = [("level", 1, 0), ("upright", 2, 0), ("level", 3, 0)]
    assert read(ruled(cells, lacking=spans)).split("\n") == [
        "| Region | Sales / 2025 | Sales / 2026 |", "|---|---|---|", "| North | 1 | 2 |", "| North | 3 | 4 |",
    ]  # fmt: skip


def test_a_row_that_spans_the_table_is_its_caption() -> None:
    cells = {(0, 0): ["Sales of two years"]} | {
        (row + 1, column): cell for (row, column), cell in (HEAD | BODY).items()
    }
    found = read(ruled(cells, lacking=[("upright", 1, 0), ("upright", 2, 0)]))
    assert found == f"Sales of two years\n\n{WRITTEN}"


def test_a_table_that_goes_on_has_the_names_of_its_columns_on_the_next_page() -> None:
    rest = {(0, 0): ["West"], (0, 1): ["7"], (0, 2): ["8"], (1, 0): ["East"], (1, 1): ["9"], (1, 2): ["10"]}
    head, rule = WRITTEN.split("\n")[:2]
    assert read(ruled(HEAD | BODY), ruled(rest)).endswith(f"\n\n{head}\n{rule}\n| West | 7 | 8 |\n| East | 9 | 10 |")
    prose = shown(72, 760, *["A paragraph of a page that begins with one, and not with the rest of a table."] * 4)
    assert read(ruled(HEAD | BODY), f"{prose}\n{ruled(rest)}").endswith(
        "| West | 7 | 8 |\n|---|---|---|\n| East | 9 | 10 |"
    )


def test_a_side_without_a_line_is_a_side_of_the_table() -> None:
    sides = [("upright", line, row) for line in (0, 3) for row in range(3)]
    assert read(ruled(HEAD | BODY, lacking=sides)) == WRITTEN


NO_TABLES = {
    "frame": (HEAD | BODY, [("upright", line, row) for line in (1, 2) for row in range(3)]),
    "rows that no line parts": (
        {(0, column): ["Name"] for column in range(3)} | {(1, column): ["one", "two", "six"] for column in range(3)},
        [],
    ),
    "squares of a chart": ({(0, 0): ["Sales"], (0, 1): ["Cost"], (1, 0): ["1"], (1, 1): ["2"], (8, 2): ["3"]}, []),
    "a corner": (HEAD | BODY, [("level", 1, 0), ("upright", 1, 0)]),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_lines_that_make_no_table_leave_the_text_as_it_is(name: str) -> None:
    cells, lacking = NO_TABLES[name]
    drawn = ruled(cells, lacking=lacking)
    assert read(drawn) == read("\n".join(line for line in drawn.split("\n") if not line.endswith("S")))


def test_lines_through_words_are_no_lines_of_a_table() -> None:
    words = shown(76, 688, *["the words of a paragraph as wide as the page, which has a frame too"] * 3)
    drawn = ruled({(0, 0): [""], (1, 0): ["a"], (1, 1): ["b"], (0, 1): ["c"]})
    assert "|" not in read(f"{drawn}\n{words}")


def test_pages_with_very_many_lines_are_drawings() -> None:
    grid = [Rule(float(5 * number), 0.0, 5000.0) for number in range(400)]
    assert find_frames(grid, grid) == [] and len(find_frames(grid[:30], grid[:30])) == 1
