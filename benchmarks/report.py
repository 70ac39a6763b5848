"""Keeps what was measured, and writes of it benchmarks/REPORT.md, its plots, and README's table.

    python -m benchmarks report

Figures of a benchmark lie as JSON in benchmarks/results/, raw samples in benchmarks/results/raw/ (neither is
committed). All that is written is computed from them, so that no figure stands there that no command produced.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"
MARKED: Final = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)


def record(name: str, figures: Mapping[str, Any], *, raw: Any = None, readme: bool = False) -> None:
    """Store the figures of one benchmark, and its samples; with `readme` write the report and README.md."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine(), **figures}, indent=1) + "\n", "utf-8")
    if raw is not None:
        keep(name, raw)
    if readme:
        write()


def keep(name: str, raw: Any) -> None:
    """Store raw samples."""
    (RESULTS / "raw").mkdir(parents=True, exist_ok=True)
    (RESULTS / "raw" / f"{name}.json").write_text(json.dumps({"machine": machine(), **raw}) + "\n", "utf-8")


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def write(results: Path = RESULTS, root: Path = ROOT) -> None:
    """benchmarks/REPORT.md with its plots, and the table in README.md."""
    from benchmarks import pages

    found = pages.read(results)
    shown = pages.write(found, root / "benchmarks")
    path = root / "README.md"
    short = "\n".join(pages.short(found, shown))
    path.write_text(MARKED.sub(lambda match: f"{match[1]}\n{short}\n{match[2]}", path.read_text("utf-8")), "utf-8")
