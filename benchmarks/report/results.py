"""Stores benchmark results, and writes benchmarks/REPORT.md, its plots and the figures of README.md from them.

    python -m benchmarks report

The figures of a benchmark are stored as JSON in benchmarks/results/, raw samples in benchmarks/results/raw/; neither is
committed. Every figure of the report is computed from these files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.machine import machine

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "benchmarks" / "results"


def record(
    name: str, figures: Mapping[str, Any], *, raw: Any = None, variant: str | None = None, readme: bool = False
) -> None:
    """Stores the figures and samples of one benchmark; with `readme` also rewrites the report and README.md.

    Figures of a variant, such as another interpreter, stand beside those without one.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = named(name, variant)
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine(), **figures}, indent=1) + "\n", "utf-8")
    if raw is not None:
        keep(name, raw)
    if readme:
        write()


def named(name: str, variant: str | None) -> str:
    return f"{name}_{variant}" if variant else name


def keep(name: str, raw: Any) -> None:
    """Stores raw samples."""
    (RESULTS / "raw").mkdir(parents=True, exist_ok=True)
    (RESULTS / "raw" / f"{name}.json").write_text(json.dumps({"machine": machine(), **raw}) + "\n", "utf-8")


def write(results: Path = RESULTS, root: Path = ROOT) -> None:
    """Writes benchmarks/REPORT.md with its plots, and the figures of README.md, which are taken from that report."""
    from benchmarks.report import pages, readme

    pages.write(pages.read(results), root / "benchmarks")
    text = (root / "benchmarks" / "REPORT.md").read_text("utf-8")
    for name, lines in readme.PARTS.items():
        if written := list(lines(text)):
            write_between(root / "README.md", name, written)


def write_between(path: Path, name: str, lines: Iterable[str]) -> None:
    """Replaces what a page has between the comments `<!-- name -->` and `<!-- /name -->`. ValueError without them."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    text = "\n".join(lines)
    written, count = marked.subn(lambda match: f"{match[1]}\n{text}\n\n{match[2]}", path.read_text("utf-8"))
    if count == 0:
        raise ValueError(f"{path} has no comments <!-- {name} --> and <!-- /{name} -->")
    path.write_text(written, "utf-8")
