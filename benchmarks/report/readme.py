"""The figures of README.md, taken from benchmarks/REPORT.md: what makes aidre different, and a table for a phone.

`python -m benchmarks report` writes both after the report, between their comments. A line whose section the report
lacks is left out, and so is an engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from benchmarks.report.pages import COMPARISON, HEADING, sections
from benchmarks.report.tables import Table, rows_of, table_of

ENGINES: Final = ("aidre", "aidre previous", "rabitqlib", "faiss HNSW", "chromadb", "lancedb")
"""Rows of the table: both releases, the fastest of all, and those that are met most often."""
MOST_ENGINES: Final = 6
SHOWN: Final = {"aidre previous": "previous release"}
LATENCY: Final = "questions, recall ≥ 0.95"
COLUMNS: Final = {
    "engine": "engine",
    LATENCY: "at .95",
    "questions, recall ≥ 0.99": "at .99",
    "build": "build",
    "bytes": "bytes",
}
"""Columns of the report, and their names in the table."""


def difference(report: str) -> Iterator[str]:
    """Five lines with figures, each from one section of the report."""
    found = sections(report)
    quality, relevance, write, pages = (
        found.get(f"{HEADING}`{name}`", "")
        for name in ("bench_quality", "bench_relevance", "bench_write", "bench_extraction")
    )
    means = {mode: _figure(quality, f"{mode} mean nDCG@10") for mode in ("hybrid", "dense", "lexical")}
    if all(means.values()):
        yield (
            f"- **Meaning and words in one score.** nDCG@10 is {means['hybrid']} over nine test sets, "
            f"{means['dense']} by vectors alone, {means['lexical']} by words alone."
        )
    if rates := table_of(relevance, "hybrid, means over sets").get("questions, whole"):
        yield (
            f"- **It says when nothing fits.** Of questions about something else {rates['answered']} get an answer; "
            f"of the others {rates['lost']} get none."
        )
    engines = _comparison(found)
    if engines.keys() >= {"aidre", "chromadb", "lancedb"}:
        times = {name: _median(engines[name][LATENCY]) for name in ("aidre", "chromadb", "lancedb")}
        yield (
            f"- **Fast on one core.** A question to 60,000 rows takes {times['aidre'].removeprefix('1 = ')} at a "
            f"recall of .95; chromadb takes {times['chromadb']} times as long, lancedb {times['lancedb']} times."
        )
    if single := _figure(write, "single ms"):
        yield (
            f"- **Durable when `add` returns.** A commit of one document takes {single} ms, of which the disk takes "
            f"{_figure(write, 'bare commit ms')}; a power cut loses none."
        )
    if scores := table_of(pages, "trafilatura, 990 pages, passages"):
        shares = ", ".join(f"{name} {cells['f1']}" for name, cells in scores.items())
        yield f"- **It reads real pages.** Finding the text of 990 web pages, F1 is: {shares}."


def table(report: str) -> Iterator[str]:
    """Five engines beside aidre's time of a question at two recalls, build and size: narrow enough for a phone."""
    engines = _comparison(sections(report))
    chosen = [name for name in ENGINES if name in engines]
    chosen += [name for name in engines if name not in chosen][: MOST_ENGINES - len(chosen)]
    if chosen:
        yield f"| {' | '.join(COLUMNS.values())} |"
        yield f"|{'---|' * len(COLUMNS)}"
    for name in chosen:
        shown = (_median(engines[name][column]).removeprefix("1 = ") for column in list(COLUMNS)[1:])
        cells = [SHOWN.get(name, name), *shown]
        yield f"| {' | '.join(cells)} |"
    if measured := version(report):
        yield ""
        yield f"Measured on aidre {measured}."


def version(report: str) -> str:
    """The release that the comparison was measured on, and its commit; empty without a comparison."""
    found = re.search(r"^\| aidre (\d[^|]*?) \|", _comparison_text(sections(report)), re.MULTILINE)
    return found[1] if found else ""


def _comparison(found: Mapping[str, str]) -> Table:
    """The comparison over 60,000 rows, else the first, by the engines' names without versions."""
    header, _, rest = _comparison_text(found).partition("\n")
    return {re.sub(r"( \d.*|, .*)$", "", name): cells for name, cells in rows_of(rest, header).items()}


def _comparison_text(found: Mapping[str, str]) -> str:
    """The same from its header on."""
    titles = [title for title in found if title.startswith(f"{HEADING}{COMPARISON}, ")]
    title = next((one for one in titles if "60,000 rows" in one), titles[0] if titles else "")
    return "| engine |" + found.get(title, "").partition("\n| engine |")[2]


def _figure(section: str, name: str) -> str:
    found = re.search(rf"^\| {re.escape(name)} \| (\S+) \|$", section, re.MULTILINE)
    return found[1] if found else ""


def _median(cell: str) -> str:
    """A ratio without its range and its recall; of aidre, whose ratio is 1, with the value."""
    if "misses" in cell:
        return "misses it"
    return re.sub(r" (\(.*|at .*)$", "", cell)


PARTS: Final[Mapping[str, Callable[[str], Iterator[str]]]] = {"difference": difference, "figures": table}
"""What is between the comments of README.md, by their names."""
