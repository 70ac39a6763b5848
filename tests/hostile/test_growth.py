"""The table of growth in the benchmarks: every format that the proof measures, with its number of shapes."""

from __future__ import annotations

import re

from tests import ROOT
from tests.hostile.growth import SHAPES


def test_the_table_has_every_format_and_every_shape() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").partition("| format | shapes | above")[2]
    counts = dict(re.findall(r"^\| `(\.\w+)` \| (\d+) \|", page.partition("\n\n")[0], re.MULTILINE))
    assert counts == {suffix: str(len(shapes)) for suffix, shapes in SHAPES.items()}


def test_the_number_of_shapes_that_were_tried_is_that_of_the_proof() -> None:
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert f"now {sum(map(len, SHAPES.values())):,} shapes" in security
