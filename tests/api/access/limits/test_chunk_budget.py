"""How exactly different chunks are counted, and for how long, `api/access/limits/chunk_budget.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.api.access.limits import chunk_budget
from aidre.api.access.limits.chunk_budget import DAY, EXACT_CHUNKS, NAME, REGISTERS, WAYS, ChunkBudget
from aidre.api.http.http_errors import RateLimited
from aidre.api.http.shared_file import HEADER
from tests.support.clocks import Clock

MIDNIGHT = 20_000 * DAY
MOST = 1_000_000


def ids(first: int, last: int) -> list[str]:
    return [f"doc_{number}#chunk_1" for number in range(first, last)]


def test_as_many_as_fit_are_counted_exactly_and_none_twice() -> None:
    budget = ChunkBudget([], MOST, Clock(MIDNIGHT))
    for number in range(0, EXACT_CHUNKS, 16):
        budget.give("a", "docs", ids(number, number + 16))
        budget.give("a", "docs", ids(0, number + 16))
        assert budget.count("a") == number + 16
    assert budget.count("b") == 0
    budget.close()


def test_a_chunk_counts_once_in_each_collection() -> None:
    budget = ChunkBudget([], MOST, Clock(MIDNIGHT))
    for collection in ("one", "two", "one"):
        budget.give("a", collection, ["x#chunk_1"])
    assert budget.count("a") == 2
    budget.close()


@pytest.mark.parametrize("many", [1_000, 10_000, 40_000])
def test_beyond_that_the_count_is_off_by_little(many: int) -> None:
    budget = ChunkBudget([], MOST, Clock(MIDNIGHT))
    errors = []
    for account in ("a", "b", "c", "d", "e"):
        for number in range(0, many, 1_000):
            budget.give(account, f"docs {account}", ids(number, number + 1_000))
        errors.append(budget.count(account) / many - 1)
        before = budget.count(account)
        budget.give(account, f"docs {account}", ids(0, 1_000))
        assert budget.count(account) == before
    assert all(abs(error) < 0.07 for error in errors), errors  # five deviations and more
    assert abs(sum(errors) / len(errors)) < 0.03, errors
    budget.close()


def refused(budget: ChunkBudget, account: str) -> int:
    """In how many seconds the account is to come again."""
    with pytest.raises(RateLimited) as caught:
        budget.check(account)
    headers = caught.value.headers
    wait = headers["retry-after"]
    assert headers["ratelimit"] == f'"chunks";r=0;t={wait}'
    assert (headers["ratelimit-limit"], headers["ratelimit-remaining"]) == ("20", "0")
    assert headers["ratelimit-reset"] == wait
    return int(wait)


def test_a_share_is_spent_until_the_day_ends() -> None:
    clock = Clock(MIDNIGHT + 1_000)
    budget = ChunkBudget([], 20, clock)
    budget.check("a")
    budget.give("a", "docs", ids(0, 19))
    budget.check("a")
    budget.give("a", "docs", ids(10, 29))
    assert refused(budget, "a") == DAY - 1_000
    budget.check("b")
    clock.now = MIDNIGHT + DAY - 0.5
    assert refused(budget, "a") == 1
    clock.now = MIDNIGHT + DAY
    budget.check("a")
    assert budget.count("a") == 0
    budget.close()


def test_workers_and_later_servers_count_on(tmp_path: Path) -> None:
    clock = Clock(MIDNIGHT)
    one, other = ChunkBudget([tmp_path], MOST, clock), ChunkBudget([tmp_path], MOST, clock)
    one.give("a", "docs", ids(0, 10))
    other.give("a", "docs", ids(5, 15))
    assert (one.count("a"), other.count("a")) == (15, 15)
    one.close()
    other.close()
    later = ChunkBudget([tmp_path], MOST, clock)
    later.give("a", "docs", ids(0, 15))
    assert later.count("a") == 15
    later.close()
    assert b"doc_" not in (tmp_path / NAME).read_bytes()


def test_those_who_read_least_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_budget, "GROUPS", 16)
    budget = ChunkBudget([], MOST, Clock(MIDNIGHT))
    budget.give("scraper", "docs", ids(0, 300))
    addresses = [f"address {number}" for number in range(16 * WAYS * 2)]
    for address in addresses:
        budget.give(address, "docs", ["x"])
    assert budget.count("scraper") == 300
    assert 0 < sum(budget.count(address) for address in addresses) < 16 * WAYS
    budget.close()


def test_a_spoiled_file_is_counted_on_without_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_budget, "GROUPS", 8)
    ChunkBudget([tmp_path], MOST, Clock(MIDNIGHT)).close()
    path = tmp_path / NAME
    content = path.read_bytes()
    for filling in (b"\xff", b"\x01", b"\x7f\x00\x40"):
        body = (filling * len(content))[: len(content) - HEADER.size]
        path.write_bytes(content[: HEADER.size] + body)
        budget = ChunkBudget([tmp_path], MOST, Clock(MIDNIGHT))
        for number in range(10):
            budget.give(f"a{number}", "docs", ids(0, 700))
            assert 600 < budget.count(f"a{number}") < 800
        budget.close()


def test_registers_that_are_full_of_nonsense_end_in_a_count_not_in_an_error(tmp_path: Path) -> None:
    budget = ChunkBudget([tmp_path], MOST, Clock(MIDNIGHT))
    budget.give("a", "docs", ids(0, EXACT_CHUNKS + 1))
    _, slot = budget._slot("a", int(MIDNIGHT) // DAY)
    start = slot + 40 - 8
    budget._file.body[start : start + REGISTERS] = b"\x00" * REGISTERS
    for number in range(0, 20_000, 1_000):
        budget.give("a", "docs", ids(number, number + 1_000))
    assert budget.count("a") >= EXACT_CHUNKS
    budget.close()


@pytest.mark.parametrize("id", ["", "\udcff", "x" * 100_000, "a\nb"])
def test_an_id_of_any_letters_counts(id: str) -> None:
    budget = ChunkBudget([], MOST, Clock(MIDNIGHT))
    budget.give("a", "docs", [id, id])
    assert budget.count("a") == 1
    budget.close()
