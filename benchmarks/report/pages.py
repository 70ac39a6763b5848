"""Renders stored results: the page benchmarks/REPORT.md and its plots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.harness.metrics import Point, against, cheapest, figure, growth, memory, of, points, ratio
from benchmarks.report import plots
from benchmarks.report.plots import Line, Panel

GOALS: Final = (0.99, 0.95, 0.9)
"""Recall levels at which engines are compared."""

COMPARISON: Final = "Comparison with other engines at three recalls"
"""Sections of that name without recalls are of a release that had one; `report.capacity` takes times from them."""

HEADING: Final = "## "
"""Begins a section of the report."""

MIN_RECALL_SHOWN: Final = 0.9
"""Lower limit of the recall axis of a plot."""

CONNECTION_FIGURES: Final = (
    ("p50_ms", "Median latency", "ms"),
    ("p99_ms", "99th percentile", "ms"),
    ("rate", "Throughput", "answers a second"),
)
FIELDS: Final = {"random": "random", "near": "correlated"}
QUERIES: Final = {"ind": "passages", "ood": "questions"}
TITLES: Final = {
    "sizes": "Rows",
    "dimensions": "Dimensions",
    "distances": "Distances",
    "results": "Results per query",
    "deleted": "Deleted rows",
    "segments": "Segments",
}
INTRODUCTION: Final = """
# Benchmark report

Written by `python -m benchmarks report` from the stored samples. Machines differ and are noisy: compare the ratios. The
two sides of a ratio were measured side by side, in turns within one run; a ratio is the median over the turns, followed
by the minimum and the maximum in brackets. Absolute times show the scale. `make bench` repeats the measurements; the
docstring of each module in `benchmarks/` describes its method. Each section names the machine that it was measured on,
and stays until it is measured again. Two kinds of queries are measured apart: *passages* (`ind`) of documents that are
not stored, from the distribution of the rows, and *questions* (`ood`), as users write them.
"""

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """The stored results: comparisons with peers (by rows), scaling curves of the index, other figures by name."""

    contests: Sequence[Raw]
    curves: Sequence[Raw]
    figures: Mapping[str, Raw]


def read(folder: Path) -> Measured:
    raw = {path.stem: json.loads(path.read_bytes()) for path in sorted((folder / "raw").glob("*.json"))}
    contests = sorted((each for name, each in raw.items() if name.startswith("peers_")), key=lambda one: one["rows"])
    curves = [each for name, each in raw.items() if name.startswith("index_")]
    figures = {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
    return Measured(contests, curves, figures)


def write(found: Measured, folder: Path) -> Mapping[str, str]:
    """Writes REPORT.md and plots/ to the folder; returns the Markdown image of each plot by its name.

    A section of the earlier report stays where these results have none of its title: no one run measures everything.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = list(pictures(found)) if plots.available() else []
    for name, panels in drawn:
        plots.draw(folder / "plots" / f"{name}.svg", panels)
    shown = {name: f"![{panels[0].title}](plots/{name}.svg)" for name, panels in drawn}
    path = folder / "REPORT.md"
    written = sections("\n".join(page(found, shown)))
    earlier = sections(path.read_text("utf-8")) if path.exists() else {}
    kept = earlier | written
    titles = sorted(dict.fromkeys((*written, *earlier)), key=_place)
    path.write_text("\n\n".join(kept[title] for title in titles) + "\n", "utf-8")
    return shown


def _place(title: str) -> str:
    """Sorts the sections of single benchmarks by name, behind the others, which keep their order."""
    return title if title.startswith(f"{HEADING}`") else ""


def sections(text: str) -> dict[str, str]:
    """The sections of a page by their headings; the introduction has none."""
    found: dict[str, list[str]] = {"": []}
    for line in text.strip().splitlines():
        if line.startswith(HEADING):
            found[line] = []
        found[next(reversed(found))].append(line)
    return {title: "\n".join(lines).strip() for title, lines in found.items()}


def page(found: Measured, shown: Mapping[str, str]) -> Iterator[str]:
    yield from INTRODUCTION.splitlines()
    for raw in found.contests:
        title = f"{COMPARISON}, {raw['rows']:,} rows"
        yield from _section(title, raw["machine"], shown.get(f"recalls_{raw['rows']}"))
        yield "Query latency at the fastest setting of each engine that reaches the recall, relative to aidre asked for"
        yield "that recall. The build is processor time, relative to that of aidre's whole store (with text, look-up"
        yield "tables and postings, synced to disk)."
        yield ""
        yield from contest_table(raw)
        yield from _missing(raw)
        if raw["batches"]:
            yield from ["", f"### Batches, {raw['rows']:,} rows", ""]
            yield "The same queries one by one and in batches of one call, in turns, by processor time."
            yield ""
            yield from batch_table(raw)
        if raw["filtered"]:
            yield from ["", f"### Filters, {raw['rows']:,} rows", "", shown.get(f"filtered_{raw['rows']}", ""), ""]
            yield "Latency relative to aidre under the same filter, at the shallowest setting that reaches recall 0.99,"
            yield "else at the deepest; then the recall. A correlated filter passes rows that are neighbours in vector"
            yield "space. Libraries received a prebuilt bitmap; stores, and aidre, evaluate the filter with each query."
            yield ""
            yield from filter_table(raw)
    if found.curves:
        yield from _section("Scaling", found.curves[0]["machine"], shown.get("growth"))
        yield "Times are relative to the base, measured in turns with each case: real rows, cosine, one segment."
        for raw in found.curves:
            yield from curve_tables(raw)
    for name, figures in found.figures.items():
        yield from _section(f"`{name}`", figures["machine"], shown.get(f"connections_{name}"))
        yield from figure_tables(figures)


def _section(title: str, machine: str, picture: str | None) -> Iterator[str]:
    yield from ["", f"{HEADING}{title}", "", f"{machine}.", ""]
    if picture:
        yield from [picture, ""]


def _missing(raw: Raw) -> Iterator[str]:
    for name, facts in raw["contenders"].items():
        if "problem" in facts:
            yield from ["", f"{name} was not measured: {facts['problem']}."]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def contest_table(raw: Raw) -> Iterator[str]:
    found = points(raw["runs"], raw["k"])
    ours = raw["contenders"]["aidre"]
    head = (
        "engine",
        "index",
        *(f"{named}, recall ≥ {goal}" for goal in GOALS for named in QUERIES.values()),
        "build",
        "bytes",
    )
    rows = []
    for name, facts in raw["contenders"].items():
        if "problem" in facts:
            continue
        cells = [_at(found, name, kind, goal) for goal in GOALS for kind in QUERIES]
        building = _times(facts["processor_seconds"], ours["processor_seconds"])
        if name == "aidre":
            building = f"1 = {figure(ours['processor_seconds'])} s"
        size = _times(facts["bytes"], ours["bytes"])
        if name == "aidre":
            size = f"1 = {ours['bytes'] / raw['rows']:.0f} a row"
        rows.append((f"{name} {facts['version']}", facts["index"], *cells, building, size))
    return markdown(head, rows)


def _at(found: Sequence[Point], name: str, kind: str, goal: float) -> str:
    measured = of(found, name, kind)
    if not measured:
        return "-"
    if name == "aidre":  # its setting is the recall that was asked for
        ours = next(point for point in measured if point.setting == round(1000 * goal))
        missed = "" if ours.recall >= goal else f", misses {goal}"
        return f"1 = {figure(ours.p50)} µs at {ours.recall:.4f}{missed}"
    point = cheapest(found, name, kind, goal)
    if point is None:
        return f"misses it: {max(each.recall for each in measured):.4f}"
    return f"{point.at[f'{goal:g}']} at {point.recall:.4f}"


def batch_table(raw: Raw) -> Iterator[str]:
    head = (
        "engine",
        "setting",
        "queries",
        "batch",
        "µs a query",
        "µs a query in batches",
        "throughput, 1 = single",
        "recall",
    )
    rows = [
        (
            run["contender"],
            str(run["setting"] or "-"),
            QUERIES[run["kind"]],
            str(run["size"]),
            figure(median(run["single_us"])),
            figure(median(run["batched_us"])),
            str(ratio(run["single_us"], run["batched_us"])),
            f"{run['recall']:.4f}",
        )
        for run in raw["batches"]
    ]
    return markdown(head, rows)


def _times(one: float, other: float) -> str:
    return f"{figure(one / other)}"


def filter_table(raw: Raw) -> Iterator[str]:
    cells = {
        (point.contender, *case): f"{point.ratio}, {point.recall:.3f}"
        for case, runs in _by_filter(raw).items()
        for point in points(runs, raw["k"])
    }
    names = list(dict.fromkeys(name for name, *_ in cells))
    head = ["filter", "queries", "aidre µs, recall", *names]
    rows = []
    for (field, share, kind), runs in _by_filter(raw).items():
        label = f"{share * 100:g} % {FIELDS[field]}"
        others = (cells.get((name, field, share, kind), "-") for name in names)
        rows.append([label, QUERIES[kind], _ours(runs), *others])
    return markdown(head, rows)


def _by_filter(raw: Raw) -> dict[tuple[str, float, str], list[Raw]]:
    grouped: dict[tuple[str, float, str], list[Raw]] = {}
    for run in raw["filtered"]:
        grouped.setdefault((run["field"], run["share"], run["kind"]), []).append(run)
    return dict(sorted(grouped.items(), key=lambda pair: (pair[0][0] != "random", -pair[0][1], pair[0][2])))


def _ours(runs: Sequence[Raw]) -> str:
    times = sorted(time for run in runs for time in run["anchor"])
    found = [count for run in runs for count in run["anchor_found"]]
    return f"{figure(times[len(times) // 2])}, {sum(found) / (len(found) * runs[0]['possible']):.3f}"


def curve_tables(raw: Raw) -> Iterator[str]:
    base = f"base: {raw['base']['rows']:,} rows of {raw['base']['dimensions']} dimensions"
    for group in dict.fromkeys(case["group"] for case in raw["cases"]):
        yield from ["", f"### {TITLES[group]} ({base})", ""]
        yield from markdown(
            (
                TITLES[group].lower(),
                "queries",
                "method",
                "recall",
                "time",
                "p50 µs",
                "p99 / p50",
                "bytes a row",
                "private MB",
                "build s",
                "open ms",
            ),
            [_case_row(case) for case in raw["cases"] if case["group"] == group],
        )
    fitted = [f"{name} {power:.2f}" for name, power in growth(raw["cases"]).items()]
    if fitted:
        yield from ["", f"Growth exponents over the rows: {', '.join(fitted)} (least squares in logarithms)."]


def _case_row(case: Raw) -> Sequence[str]:
    times = sorted(time for turn in case["microseconds"] for time in turn)
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    recall = sum(case["found"]) / max(1, len(case["found"]) * case["possible"])
    segments = f", {case['segments']} segments" if case["segments"] > 1 else ""
    return (
        case["label"],
        QUERIES[case["queries"]],
        case["kind"] + segments,
        f"{recall:.4f}",
        str(against(case)),
        figure(p50),
        figure(p99 / p50, 2),
        f"{case['bytes'] / case['rows']:.0f}",
        f"{case['private_bytes'] / 1e6:.1f}",
        figure(case["seconds"]),
        figure(1000 * case["open_seconds"]),
    )


def figure_tables(figures: Raw) -> Iterator[str]:
    """One table for the flat members, and one for each nested member."""
    flat = {name: value for name, value in figures.items() if name != "machine" and not isinstance(value, dict)}
    if flat:
        yield from markdown(
            ("figure", "value"), [(name.replace("_", " "), _cell(value)) for name, value in flat.items()]
        )
    for name, value in figures.items():
        if not isinstance(value, dict):
            continue
        nested = [one for one in value.values() if isinstance(one, dict)]
        yield from ["", f"**{name.replace('_', ' ')}**", ""]
        if not nested:
            yield from markdown(
                ("figure", "value"), [(one.replace("_", " "), _cell(each)) for one, each in value.items()]
            )
            continue
        rows = list(_unfolded(value, ()))
        columns = list(dict.fromkeys(key for _, row in rows for key in row))
        yield from markdown(
            ("", *(column.replace("_", " ") for column in columns)),
            [(", ".join(path), *(_cell(row.get(column, "-")) for column in columns)) for path, row in rows],
        )


def _unfolded(value: Raw, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Raw]]:
    """The innermost mappings, each with its path of names."""
    flat = {name: each for name, each in value.items() if not isinstance(each, dict)}
    if flat:
        yield path, flat
    for name, each in value.items():
        if isinstance(each, dict):
            yield from _unfolded(each, (*path, name))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        shown = figure(value, 4)
        return shown.rstrip("0").rstrip(".") if "." in shown else shown
    if isinstance(value, list):
        return " to ".join(_cell(each) for each in value)
    return str(value)


def pictures(found: Measured) -> Iterator[tuple[str, list[Panel]]]:
    for raw in found.contests:
        yield f"recalls_{raw['rows']}", [_recall_panel(raw, kind) for kind in QUERIES]
        if raw["filtered"]:
            yield f"filtered_{raw['rows']}", [_filter_panel(raw, field) for field in FIELDS]
    if any(growth(raw["cases"]) for raw in found.curves):
        yield "growth", _growth_panels(found.curves)
    for name, figures in found.figures.items():
        if "connections" in figures:
            yield f"connections_{name}", _connection_panels(figures["connections"])


def _recall_panel(raw: Raw, kind: str) -> Panel:
    lines = []
    grouped: dict[str, list[Point]] = {}
    for point in points(raw["runs"], raw["k"]):
        if point.kind == kind:
            grouped.setdefault(point.contender, []).append(point)
    for name, each in grouped.items():
        found = [(point.recall, 1 / point.ratio.median) for point in each if point.recall >= MIN_RECALL_SHOWN]
        shown = [(rate, recall) for recall, rate in sorted(found)]
        if shown:
            lines.append(Line(name, shown))
    title = f"{QUERIES[kind].capitalize()} over {raw['rows']:,} embeddings"
    return Panel(
        title, "throughput, 1 = aidre by default", "recall@10", lines, log_y=False, limits=(MIN_RECALL_SHOWN, 1.003)
    )


def _filter_panel(raw: Raw, field: str) -> Panel:
    lines: dict[str, list[tuple[float, float]]] = {}
    for (name, share, kind), runs in _by_filter(raw).items():
        if (name, kind) == (field, "ood"):
            for point in points(runs, raw["k"]):
                lines.setdefault(point.contender, []).append((100 * share, point.ratio.median))
            lines.setdefault("aidre", []).append((100 * share, 1.0))
    shown = [Line(name, sorted(each)) for name, each in lines.items()]
    return Panel(f"Filters, {FIELDS[field]}, questions", "rows that pass, %", "time, 1 = aidre", shown)


def _growth_panels(curves: Sequence[Raw]) -> list[Panel]:
    times, sizes = [], []
    for raw in curves:
        cases = [case for case in raw["cases"] if case["group"] == "sizes" and case["queries"] == "ood"]
        if len(cases) < 2:
            continue
        powers, label = growth(raw["cases"]), f"{cases[0]['dimensions']} dimensions"
        timed = [(case["rows"], against(case).median) for case in cases]
        kept = [(case["rows"], memory(case) / 1e6) for case in cases]
        times += [Line(f"aidre, {label}", timed), _fitted(timed, powers["time"], label)]
        sizes += [Line(f"aidre, {label}", kept), _fitted(kept, powers["memory"], label)]
    return [
        Panel("Time over rows", "rows", "p50, 1 = the base", times),
        Panel("Memory over rows", "rows", "mapped and private, MB", sizes),
    ]


def _fitted(shown: Sequence[tuple[float, float]], power: float, label: str) -> Line:
    offset = sum(log10(cost) - power * log10(rows) for rows, cost in shown) / len(shown)
    line = [(rows, 10 ** (offset + power * log10(rows))) for rows, _ in shown]
    return Line(f"rows^{power:.2f}, {label}", line, dashed=True)


def _connection_panels(servers: Raw) -> list[Panel]:
    """Panels of the series measured at several numbers of connections."""
    panels = []
    for key, title, unit in CONNECTION_FIGURES:
        found = {
            name: sorted((float(connections), row[key]) for connections, row in rows.items() if row.get(key))
            for name, rows in servers.items()
        }
        most = max(map(len, found.values()), default=0)
        lines = [Line(name, each) for name, each in found.items() if len(each) >= min(3, most)]
        panels.append(Panel(title, "connections", unit, lines))
    return panels
