"""Reads tables of benchmarks/REPORT.md, for the pages that show some of their figures."""

from __future__ import annotations

from collections.abc import Mapping

Table = Mapping[str, Mapping[str, str]]


def table_of(section: str, title: str) -> Table:
    """A table of a section by its first column."""
    after = section.partition(f"**{title}**\n\n")[2].partition("\n\n")[0]
    header, _, rest = after.partition("\n")
    return rows_of(rest, header) if header else {}


def rows_of(text: str, header: str) -> Table:
    """The rows of a table after its header, by their first cells."""
    columns = cells_of(header)
    lines = [line for line in text.partition("\n\n")[0].splitlines() if line.startswith("| ")]
    return {cells_of(line)[0]: dict(zip(columns, cells_of(line), strict=True)) for line in lines}


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
