"""SVG plots, byte-identical for identical results; colour-blind safe, legible on light and dark backgrounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.engines.protocol import ENTRIES

COLOURS: Final = ("#1F83C6", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A800")
"""The Okabe-Ito palette, with a darker yellow and a lighter blue."""

MARKS: Final = "osD^vPX"
INK, GRID = "#7a7a7a", "#9a9a9a40"
OURS: Final = "aidre"
MAX_TICKS: Final = 7
"""Up to this many distinct values of x become the ticks."""

STYLE: Final[Mapping[str, Any]] = {
    "svg.hashsalt": "aidre",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot. `points` are ordered by x."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = True
    log_y: bool = True
    limits: tuple[float, float] | None = None
    """Limits of the y axis."""


def available() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(path: Path, panels: Sequence[Panel]) -> None:
    """Draws the panels side by side with a shared legend."""
    with _figure(path, len(panels)) as (figure, axes):
        looks = _looks(line.name for panel in panels for line in panel.lines)
        for panel, at in zip(panels, axes, strict=True):
            for line in panel.lines:
                at.plot(*zip(*line.points, strict=True), label=line.name, **looks[line.name] | _dash(line))
            at.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            for logarithmic, axis in ((panel.log_x, at.xaxis), (panel.log_y, at.yaxis)):
                if logarithmic:
                    _logarithmic(axis)
            measured = sorted({x for line in panel.lines for x, _ in line.points})
            if panel.log_x and len(measured) <= MAX_TICKS:
                at.set_xticks(measured)
            if panel.limits:
                at.set_ylim(*panel.limits)
        handles = {label: handle for at in axes for handle, label in zip(*at.get_legend_handles_labels(), strict=True)}
        handles = {name: handles[name] for name in looks if name in handles}
        figure.legend(handles.values(), handles, loc="outside right upper", fontsize=9)


def _logarithmic(axis: Any) -> None:
    """Logarithmic scale with ticks at 1, 3, 10, 30 ..., labelled 1k, 3k, 10k."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _dash(line: Line) -> dict[str, Any]:
    return {"linestyle": "--", "marker": "", "color": INK} if line.dashed else {}


def _looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour and marker by name, the same in every plot; aidre comes first, with a heavier line."""
    known = [one.name for one in ENTRIES]
    shown = sorted(dict.fromkeys(names), key=lambda name: not name.startswith(OURS))
    free = itertools.count(0 if set(shown).isdisjoint(known) else len(known))
    looks: dict[str, dict[str, Any]] = {}
    for name in shown:
        round_, colour = divmod(known.index(name) if name in known else next(free), len(COLOURS))
        looks[name] = {"color": COLOURS[colour], "marker": MARKS[(colour + round_) % len(MARKS)]}
        if name.startswith(OURS):
            looks[name] |= {"linewidth": 2.6, "zorder": 3}
        elif round_:
            looks[name] |= {"markerfacecolor": "none"}
    return looks


@contextmanager
def _figure(path: Path, panels: int) -> Iterator[tuple[Any, Any]]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(dict(STYLE)):
        figure = Figure(figsize=(2.6 + 4.4 * panels, 4.0), layout="constrained")
        axes = figure.subplots(1, panels, squeeze=False)[0]
        yield figure, axes
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
