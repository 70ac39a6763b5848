"""The plots of the results: legible SVG, the same from the same results."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.report import pages, plots
from tests.benchmarks.measurements import written


@pytest.mark.slow
def test_the_plots_are_legible_svg_and_the_same_every_time(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(plots, "available", lambda: True)
    text = written(measured)
    drawn = {path.name: path.read_bytes() for path in (measured / "benchmarks" / "plots").iterdir()}
    assert sorted(drawn) == ["connections_bench_http.svg", "filtered_60000.svg", "growth.svg", "recalls_60000.svg"]
    for name, content in drawn.items():
        assert f"(plots/{name})" in text
        words = "".join(ElementTree.fromstring(content).itertext())
        assert "aidre" in words
    (name, panels) = next(pages.pictures(pages.read(measured / "results")))
    plots.draw(measured / "again.svg", panels)
    assert (measured / "again.svg").read_bytes() == drawn[f"{name}.svg"]
