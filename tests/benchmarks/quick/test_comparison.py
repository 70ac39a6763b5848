"""What a quick run prints: its ratios beside the stored ones, and which became slower."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.quick import __main__ as quick, groups
from benchmarks.quick.comparison import ratios, table


def raw(**seconds: tuple[list[float], list[float]]) -> dict[str, Any]:
    """The file of pytest-benchmark, with the medians of what is watched and of its yardstick in each turn."""
    sides = [
        (group, f"{name}{group}[{turn}]", value)
        for group, (watched, yardstick) in seconds.items()
        for name, values in (("quick_", watched), ("yardstick_of_", yardstick))
        for turn, value in enumerate(values)
    ]
    return {"benchmarks": [{"group": group, "name": name, "stats": {"median": value}} for group, name, value in sides]}


def test_each_group_has_a_row_and_the_slower_one_is_named() -> None:
    measured = raw(
        search=([2.0, 9.0, 2.2], [1.0, 3.0, 1.0]),  # 2, 3 and 2.2: a busy turn slows both sides
        http=([4.0, 4.4, 4.2], [2.0, 2.0, 2.0]),
        new=([1.0], [4.0]),
    )
    head, *rows, last = table(ratios(measured), {"search": 2.0, "http": 1.5})
    assert head.split() == ["group", "ratio", "(range)", "stored", "change"]
    assert [row.split() for row in rows] == [
        ["search", "2.20", "(2.00", "to", "3.00)", "2.00", "+10", "%"],
        ["http", "2.10", "(2.00", "to", "2.20)", "1.50", "+40", "%"],
        ["new", "0.250", "(0.250", "to", "0.250)", "-", "new"],
    ]
    assert last == "Slower than stored by a quarter or more: http."
    assert [*table(ratios(measured), {"http": 2.0})][-1].endswith(": none.")


def test_every_group_has_both_sides_and_a_stored_ratio() -> None:
    names = [name for name in vars(groups) if name.startswith(("quick_", "yardstick_"))]
    watched = {name.removeprefix("quick_") for name in names if name.startswith("quick_")}
    assert {name.removeprefix("yardstick_of_") for name in names if name.startswith("yardstick_of_")} == watched
    assert watched == set(json.loads(quick.STORED.read_bytes())["ratios"]) >= {"search", "hybrid", "ingest", "http"}
