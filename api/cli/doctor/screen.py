"""The findings on one page of a terminal, or as JSON. Without rich they are plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from aidre.api.cli import console
from aidre.api.cli.doctor.findings import Finding, Level

if TYPE_CHECKING:
    from aidre.engine.model import Json

_MARKS: Final[dict[Level, tuple[str, str]]] = {
    "ok": ("✓", "green"),
    "note": ("·", "cyan"),
    "warning": ("!", "yellow"),
    "refuses": ("✗", "bold red"),
}
_HEADINGS: Final = {
    "installation": "Installation",
    "machine": "Machine",
    "configuration": "Configuration",
    "store": "Store",
}

_WHAT_COLUMNS: Final = 24


def facts_of(section: str, finding: Finding) -> dict[str, Json]:
    """A finding as a JSON object."""
    return {
        "section": section,
        "level": finding.level,
        "what": finding.what,
        "text": finding.text,
        "cure": finding.cure,
    }


def show(found: Sequence[tuple[str, Finding]]) -> None:
    try:
        _show_rich(found)
    except ImportError:
        console.print_lines(_plain_lines(found))
    console.print_line()
    console.print_line(_verdict(found))


def _verdict(found: Iterable[tuple[str, Finding]]) -> str:
    levels = [finding.level for _, finding in found]
    refusals, warnings = levels.count("refuses"), levels.count("warning")
    if refusals:
        return f"A server would refuse to start: {refusals} to cure (✗), {warnings} to look at (!)."
    return f"A server would start; {warnings} to look at (!)." if warnings else "All is well."


def _plain_lines(found: Iterable[tuple[str, Finding]]) -> Iterable[str]:
    for section, finding in found:
        cure = f" -> {console.printable(finding.cure)}" if finding.cure and finding.level != "ok" else ""
        mark = _MARKS[finding.level][0]
        yield f"{mark} {_HEADINGS[section]}: {finding.what}: {console.printable(finding.text)}{cure}"


def _show_rich(found: Iterable[tuple[str, Finding]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen, shown = Console(highlight=False, soft_wrap=False), ""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=1)
    table.add_column(max_width=_WHAT_COLUMNS)
    table.add_column(ratio=1)
    for section, finding in found:
        if section != shown:
            if shown:
                table.add_row("", "", "")
            shown = section
            table.add_row("", Text(_HEADINGS[section], "bold"), "")
        mark, style = _MARKS[finding.level]
        text = Text(console.printable(finding.text))
        if finding.cure and finding.level != "ok":
            text.append(f"\n→ {console.printable(finding.cure)}", "dim")
        table.add_row(Text(mark, style), Text(console.printable(finding.what)), text)
    screen.print(table)
