"""Keeps raw figures and writes those that README.md quotes between its markers.

Figures lie as JSON in benchmarks/results/ (not committed); the table in README is made from them, so that no
figure stands there that no command produced.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)


def record(name: str, figures: Mapping[str, Any], *, readme: bool = False) -> None:
    """Store the figures of one benchmark; with `readme` write all stored figures into README.md."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine(), **figures}, indent=1) + "\n")
    if readme:
        path = ROOT / "README.md"
        path.write_text(MARKED.sub(lambda match: match[1] + table() + match[2], path.read_text()))


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def table() -> str:
    """Every stored figure as Markdown, a table a benchmark."""
    lines = []
    for path in sorted(RESULTS.glob("*.json")):
        figures = json.loads(path.read_text())
        lines += [f"`{path.stem}` ({figures.pop('machine')})", "", "| figure | value |", "|---|---|"]
        lines += [f"| {name.replace('_', ' ')} | {value} |" for name, value in figures.items()]
        lines.append("")
    return "\n".join(["", *lines])
