"""How values are shown to a person: the beginning of a text, and rows as a table of HTML for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

MAX_TEXT: Final = 60
"""Characters of a text that a line shows."""
MAX_CELL: Final = 300
"""Characters of a cell of a table."""
MAX_ROWS: Final = 100


def beginning(text: str, most: int = MAX_TEXT) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most and len(text) <= 2 * most else line[: most - 1] + "…"


def as_html(columns: Mapping[str, Sequence[Any]]) -> str:
    """A table of the columns that have a value, all of them as text."""
    shown = {name: values for name, values in columns.items() if any(value not in (None, {}) for value in values)}
    count = max(map(len, shown.values()), default=0)
    head = "".join(f"<th>{escape(name)}</th>" for name in shown)
    rows = "".join(
        f"<tr>{''.join(f'<td>{_cell(values[row])}</td>' for values in shown.values())}</tr>"
        for row in range(min(count, MAX_ROWS))
    )
    more = f"<p>{count - MAX_ROWS:,} more rows</p>" if count > MAX_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}" if shown else "<p>no rows</p>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}: {item}" for name, item in value.items())
    return escape(beginning("" if value is None else str(value), MAX_CELL))
