"""Which generations a bucket keeps, by the times at which they were published."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from aidre.engine.maintenance.bucket import StoredObject
from aidre.engine.maintenance.fleet.retention import SLOT, needed as needed_of

NOW = datetime(2026, 4, 1, 10, 1, tzinfo=UTC)


def published(*ages: timedelta) -> dict[int, StoredObject]:
    """A manifest of each age, the oldest first, from generation 1 on."""
    return {
        number: StoredObject(f"docs/manifests/{number:06d}.json", 1, NOW - age) for number, age in enumerate(ages, 1)
    }


def needed(*ages: timedelta) -> list[int]:
    return list(needed_of(published(*ages), NOW))


def test_what_was_superseded_more_than_a_day_ago_is_not_needed() -> None:
    assert needed(timedelta(days=3), timedelta(days=2), timedelta(hours=1)) == [2, 3]


def test_every_recent_generation_is_needed() -> None:
    assert needed(*(timedelta(seconds=age) for age in range(600, 0, -30))) == list(range(1, 21))


def test_a_day_of_commits_each_second_leaves_few_manifests_to_read() -> None:
    ages = [timedelta(seconds=age) for age in range(23 * 3600, 3600, -1)]
    found = needed(*ages)
    assert len(found) <= 23 * 3600 / SLOT + 1
    manifests = published(*ages)
    for earlier, later in pairwise(found):  # one at each full slot
        assert manifests[later].modified - manifests[earlier].modified <= timedelta(seconds=SLOT)


def test_a_generation_that_reigned_for_long_is_needed() -> None:
    middle = NOW.timestamp() % SLOT - SLOT / 2  # so that the short reign is inside of a slot
    ages = [timedelta(hours=20), *(timedelta(hours=10, seconds=middle + more) for more in (0, -1)), timedelta(0)]
    assert needed(*ages) == [1, 3, 4]
