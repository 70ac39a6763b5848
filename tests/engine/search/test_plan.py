"""How the segments of a generation are searched together: shared passes, numbers of rows, and what is not scanned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection import generations
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.search import plan
from aidre.engine.search.plan import Plan, plan_for
from tests.support.stores import NAME, Vectors, ask, best, fill, names, put, shuffled, space_of, structured, true_scores

pytestmark = pytest.mark.usefixtures("quick_calibration")

SPACE = space_of("cosine", 768)
ROWS = 3_000


@pytest.fixture
def unmerged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generations, "segments_to_merge", lambda *_: [])


def recall(snapshot: Snapshot, rows: Vectors, ids: Sequence[str]) -> float:
    """Of the ten nearest rows (a few of which rounding may exchange)."""
    asked = rows[:: len(rows) // 20]
    found = [set(ask(snapshot, query)) & set(best(true_scores("cosine", rows, query), ids, 10)) for query in asked]
    return sum(map(len, found)) / (10 * len(asked))


def planned(snapshot: Snapshot, portion: float = 1.0, depth: int | None = 100) -> Plan:
    only = None if portion == 1.0 else parse_filter({"number": {"lt": portion * ROWS}})
    return plan_for(snapshot.segments, SPACE.id, depth, only)


@pytest.mark.slow
@pytest.mark.usefixtures("unmerged")
def test_segments_are_gone_over_in_one_pass(tmp_path: Path) -> None:
    rows = structured(ROWS, 768)
    snapshot = fill(tmp_path, SPACE, rows, commits=6, bulk=False)
    assert len(snapshot.segments) == 6
    plan = planned(snapshot)
    assert 1 <= len(plan.scans) <= 2  # a second codebook where the first rows were too few to teach all that came
    assert sum(allowed for _, allowed in plan.scans) + sum(one.allowed for one in plan.exact) == ROWS
    assert recall(snapshot, rows, names(ROWS)) >= 0.98


@pytest.mark.slow
@pytest.mark.usefixtures("unmerged")
def test_few_rows_are_gathered_and_more_are_scanned(tmp_path: Path) -> None:
    metadata = [{"number": number} for number in np.random.default_rng(1).permutation(ROWS).tolist()]
    snapshot = fill(tmp_path, SPACE, structured(ROWS, 768), commits=3, bulk=False, metadata=metadata)
    few, half = planned(snapshot, 0.005), planned(snapshot, 0.5)
    assert not few.scans
    assert sum(len(rows) for _, rows in few.gathered) == 15
    assert sum(allowed for _, allowed in half.scans) == ROWS // 2
    assert not planned(snapshot, depth=None).scans
    assert planned(snapshot, 0.5, 101) is half


@pytest.mark.slow
def test_plans_are_kept_as_long_as_together_they_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space, size = space_of("dot", 2), 4_000
    rows = structured(size, 2)
    snapshot = fill(tmp_path, space, rows, metadata=[{"number": number} for number in range(size)])
    monkeypatch.setattr(plan, "_MAX_PLAN_BYTES", 20_000)

    def made(count: int) -> Plan:
        return plan_for(snapshot.segments, space.id, None, parse_filter({"number": {"lt": count}}))

    def held() -> int:
        arrays = [rows for each in snapshot.segments.plans.values() for _, rows in each.gathered]
        bits = [one.bitmap.packed for each in snapshot.segments.plans.values() for one in each.exact if one.bitmap]
        return sum(array.nbytes for array in [*arrays, *bits])

    few = made(10)
    assert few.gathered and made(10) is few
    for count in range(2_000, 11, -37):
        made(count)
        assert held() <= 20_000
    assert len(snapshot.segments.plans) > 1 and made(10) is not few
    monkeypatch.setattr(plan, "_MAX_PLAN_BYTES", 100)
    assert made(3_000) is not made(3_000)  # larger than all may be
    for count in (10, 3_000):
        found = ask(snapshot, rows[5], filter=parse_filter({"number": {"lt": count}}))
        assert found == best(true_scores("dot", rows[:count], rows[5]), names(count), 10)


@pytest.mark.slow
@pytest.mark.usefixtures("unmerged")
def test_a_snapshot_and_the_next_one_number_the_segments_that_they_share_alike(tmp_path: Path) -> None:
    rows, ids = structured(ROWS, 768), shuffled(names(ROWS))
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for start in range(0, ROWS, 1_000):
            put(writer, ids[start : start + 1_000], rows[start : start + 1_000])
            writer.commit()
            writer.finish()
            if start == 1_000:
                previous = Store(tmp_path).open(NAME)
    newer = Snapshot(tmp_path / NAME, Store(tmp_path).open(NAME).manifest, previous)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(ids[:1_000])
        writer.commit()
    newest = Snapshot(tmp_path / NAME, Store(tmp_path).open(NAME).manifest, newer)
    slots = [
        [scan.slot for part in each.segments for scan in part.segment.scans.values()] for each in (previous, newer)
    ]
    assert slots[1][: len(slots[0])] == slots[0]
    assert len(set(slots[1])) == len(slots[1]) == 3
    for snapshot, living in ((previous, slice(0, 2_000)), (newer, slice(0, ROWS)), (newest, slice(1_000, ROWS))):
        assert recall(snapshot, rows[living], ids[living]) >= 0.98


# -- two threads for one query -----------------------------------------------------------------------------
