"""A table of Markdown, made of rows of cells."""

from __future__ import annotations

from collections.abc import Sequence


def write_table(rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """The rows with any text, each in a line; empty if there are none.

    The first `names` rows name the columns: names above each other become one ("Sales / 2024"). With 0 no row does, and
    the line for them is empty.
    """
    above = [row for row in rows[:names] if any(row)]
    below = [row for row in rows[names:] if any(row)]
    width = max(map(len, [*above, *below]), default=0)
    if not width:
        return ""
    lines = [_join_names([row[column] for row in above if column < len(row)]) for column in range(width)]
    return "\n".join([_write(lines, width), "|" + "---|" * width, *(_write(row, width) for row in below)])


def _join_names(names: Sequence[str]) -> str:
    """Names from above to below; one that stands in several rows is said once."""
    return " / ".join(dict.fromkeys(name for name in names if name))


def _write(cells: Sequence[str], width: int) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells] + [""] * (width - len(cells))
    return f"| {' | '.join(escaped)} |"
