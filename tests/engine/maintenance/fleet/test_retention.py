"""What a publisher removes without listing the bucket, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.fleet import retention
from aidre.engine.maintenance.fleet.retention import KEEP, SLOT, Superseded
from tests.engine.maintenance.fleet.tenants import methods
from tests.support.buckets import S3, S3Place, proxy_of
from tests.support.stores import NAME, write

BEGAN = 1_800_000_000 // SLOT * SLOT
DAY = KEEP.total_seconds()


def noted(*keys: str) -> Superseded:
    """A process that has published these, the second time."""
    found = Superseded()
    found.note(set(), BEGAN - 1)
    found.note(set(keys), BEGAN)
    return found


def test_what_came_and_went_within_a_slot_stays_for_an_hour() -> None:
    found = noted("a", "b")
    found.note({"b"}, BEGAN + 5)
    assert found.due(BEGAN + 3_500) == []
    assert found.due(BEGAN + 3_500 + 700) == ["a"]
    assert found.due(BEGAN + 2 * DAY) == []


def test_what_was_there_at_the_end_of_a_slot_stays_for_a_day() -> None:
    found = noted("a", "b")
    found.note({"b"}, BEGAN + SLOT)
    assert found.due(BEGAN + DAY) == []
    assert found.due(BEGAN + DAY + 2 * SLOT) == ["a"]


def test_what_was_there_before_the_process_stays_for_a_day() -> None:
    found = Superseded()
    found.note({"a"}, BEGAN)
    found.note(set(), BEGAN + 1)
    assert found.due(BEGAN + DAY - 1) == []
    assert found.due(BEGAN + DAY + SLOT) == ["a"]


def test_what_is_named_again_is_not_removed() -> None:
    found = noted("a")
    found.note(set(), BEGAN + 1)
    found.note({"a"}, BEGAN + 2)
    assert found.due(BEGAN + 2 * DAY) == []


def test_a_day_of_commits_each_second_leaves_few_objects() -> None:
    found, stored, most = Superseded(), set[str](), 0
    for second in range(2 * 3_600):
        names = {f"manifest{second}", f"segment{second}", f"segment{second // 100 * 100}"}
        stored |= names
        found.note(names, BEGAN + second)
        stored -= set(found.due(BEGAN + second))
        most = max(most, len(stored))
    assert most < 2 * (3_600 + 2 * SLOT)


def test_a_publisher_that_runs_lists_nothing_and_leaves_little(
    s3: S3, s3_place: S3Place, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_BRIEF_SECONDS", -SLOT)  # at once
    monkeypatch.setattr(retention, "_SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(retention, "SLOT", 1e12)
    with proxy_of(s3) as proxy:
        publisher = s3_place.through(proxy).publisher(path)
        publisher.publish([NAME])
        for number in range(4):
            write(path, [f"d{number}"], number + 3)
            if number == 1:
                proxy.asked.clear()
            publisher.publish([NAME])
        assert methods(proxy.asked)["LIST"] == 0
    kept = [key for key in s3_place.contents() if "/manifests/" in key]
    assert kept == [f"{NAME}/manifests/{Store(path).current(NAME):06d}.json"]
