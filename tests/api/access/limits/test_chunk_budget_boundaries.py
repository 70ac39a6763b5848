"""Where a budget ends, and accounts that share a group of slots: none inherits what another was given."""

from __future__ import annotations

import pytest

from aidre.api.access.limits.chunk_budget import GROUPS, WAYS, ChunkBudget
from aidre.api.http.http_errors import RateLimited


@pytest.mark.slow
def test_an_account_without_a_slot_has_received_nothing() -> None:
    budget = ChunkBudget([], 10, lambda: 1_800_000_000.0)
    for number in range(3 * GROUPS * WAYS):
        budget.give(f"address {number}", "docs", ["a", "b"])
    assert [budget.count(f"stranger {number}") for number in range(100)] == [0] * 100
    budget.close()


def test_a_budget_is_spent_by_its_last_chunk() -> None:
    budget = ChunkBudget([], 3, lambda: 1_800_000_000.0)
    budget.give("a", "docs", ["1", "2"])
    budget.check("a")
    budget.give("a", "docs", ["3"])
    with pytest.raises(RateLimited):
        budget.check("a")
    budget.close()
