"""The findings on one page of a terminal, or as JSON. Without rich they are plain lines.

Runs the checks, each on its own: whatever one raises is a finding, and the next one runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Final

from aidre.api.cli import console
from aidre.api.cli.doctor.findings import ENDS_PROCESS, Finding, Level, Subject

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
    return {"section": section, **asdict(finding)}


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


CHECKS: Final[Mapping[str, tuple[str, ...]]] = {
    "installation": ("libraries", "interpreter", "kernel", "model", "extras"),
    "machine": ("clock", "memory", "open_files", "disk", "port", "sandbox", "ocr"),
    "configuration": ("configuration", "exposure", "secrets"),
    "store": ("store", "publications", "locks", "leftovers"),
}
"""The checks by module, whose imports may fail, too. The order is that of the page."""


def examine(subject: Subject) -> Iterator[tuple[str, Finding]]:
    """The section of each finding, and the finding. A library that ends processes keeps the store from being read."""
    deadly: str | None = None
    for section, names in CHECKS.items():
        for name in names:
            if section == "store" and deadly is not None:
                yield section, Finding("warning", name, f"not checked: {deadly} ends the process", "reinstall it")
                continue
            for finding in _run(section, name, subject):
                deadly = finding.what if ENDS_PROCESS in finding.text else deadly
                yield section, finding


def _run(section: str, name: str, subject: Subject) -> Iterator[Finding]:
    what = name.replace("_", " ")
    try:
        yield from getattr(import_module(f"aidre.api.cli.doctor.{section}"), name)(subject)
    except ImportError as error:
        yield Finding("warning", what, f"not checked, a library cannot be loaded: {_reason(error)}", "reinstall aidre")
    except Exception as error:  # the outermost handler: a doctor is asked where things are broken
        yield Finding("warning", what, f"not checked: {_reason(error)}")


def _reason(error: Exception) -> str:
    """One line; the kind of an error that does not explain itself."""
    text = " ".join(str(error).split())
    code = getattr(type(error), "code", None)
    return text if code is not None and text else f"{type(error).__name__}: {text}" if text else type(error).__name__
