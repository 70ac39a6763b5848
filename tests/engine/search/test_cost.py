"""The cost model: which way of searching it calls cheaper, at the sizes where the ways change places."""

from __future__ import annotations

import pytest

from aidre.engine.search.cost import (
    MIN_SPACE_ROWS,
    exact_cost,
    gather_cost,
    scan_can_pay,
    scan_cost,
    scan_setup_cost,
)

ROW_BYTES = 768
"""Of 384 dimensions in float16."""


@pytest.mark.parametrize(
    ("rows", "row_bytes", "pays"),
    [
        (MIN_SPACE_ROWS - 1, 1 << 20, False),
        (2_000, ROW_BYTES, False),
        (4_000, ROW_BYTES, True),
        (20_000, 64, False),
        (60_000, 64, True),
    ],
)
def test_a_scan_can_pay_where_enough_bytes_are_compared(rows: int, row_bytes: int, pays: bool) -> None:
    assert scan_can_pay(rows, row_bytes) is pays


@pytest.mark.parametrize(("share", "gathered"), [(0.005, True), (0.1, True), (0.9, False)])
def test_few_rows_of_a_segment_are_cheaper_gathered_and_most_are_cheaper_in_place(share: float, gathered: bool) -> None:
    allowed = int(100_000 * share)
    assert (gather_cost(allowed, ROW_BYTES) < exact_cost(allowed, ROW_BYTES, 100_000)) is gathered


@pytest.mark.parametrize(("share", "scanned"), [(0.005, False), (0.02, False), (0.06, True), (0.5, True), (1.0, True)])
def test_a_scan_loses_to_gathering_below_some_three_percent_of_the_rows(share: float, scanned: bool) -> None:
    rows, allowed = 300_000, int(300_000 * share)
    scan = scan_cost(rows, 96, allowed) + scan_setup_cost(100, ROW_BYTES)
    assert (scan < min(gather_cost(allowed, ROW_BYTES), exact_cost(allowed, ROW_BYTES, rows))) is scanned


def test_a_mask_and_lists_make_a_scan_dearer_and_deep_candidates_its_setup() -> None:
    assert scan_cost(1_000, 96, 999) > scan_cost(1_000, 96, 1_000)
    assert scan_cost(1_000, 96, 1_000, lists=10) > scan_cost(1_000, 96, 1_000)
    assert scan_setup_cost(1_000, ROW_BYTES) > scan_setup_cost(100, ROW_BYTES)
    assert exact_cost(1_000, ROW_BYTES, 2_000) > exact_cost(1_000, ROW_BYTES)
