"""The quick forms of clients that make a server keep much, and of inputs that grow."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile import growth, hoards
from tests.hostile.report import Report

SMALL = (100, 200)


def test_what_clients_make_a_server_keep_is_bounded(report: Report, chance: random.Random) -> None:
    hoards.run(report, 300, chance)
    assert report.figures[0][1].startswith("300 clients")


@pytest.mark.parametrize("suffix", growth.SHAPES)
def test_every_shape_of_a_format_is_read(suffix: str, tmp_path: Path) -> None:
    """PDFium may end on marks within marks, where the stack is small: in the sandbox that ends a child."""
    measure = growth.measure_apart if suffix == ".pdf" else growth.measure
    with growth.parsed_here():
        for shape in growth.SHAPES[suffix]:
            found = measure(tmp_path, suffix, shape, SMALL)
            assert len(found.seconds) == len(SMALL) or "the parser ended" in found.said, shape
