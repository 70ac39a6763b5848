"""How the segments of a generation are searched together: shared passes, numbers of rows, and what is not scanned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection import generations
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.vectors import distance, quantizer, scan as passes
from aidre.engine.index.vectors.codes import VectorIndex, index_to_batch, open_index
from aidre.engine.index.vectors.distance import spare_core
from aidre.engine.index.vectors.encoding import encode, encode_query
from aidre.engine.index.vectors.quantizer import row_blocks, train_codebook
from aidre.engine.index.vectors.scan import Scan, ScanGroup
from aidre.engine.search import plan
from aidre.engine.search.plan import Plan, plan_for
from tests.support.stores import NAME, Vectors, ask, best, fill, names, put, shuffled, space_of, structured, true_scores

SPACE = space_of("cosine", 384)
ROWS = 6_000


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


@pytest.mark.usefixtures("unmerged")
def test_segments_are_gone_over_in_one_pass(tmp_path: Path) -> None:
    rows = structured(ROWS, 384)
    snapshot = fill(tmp_path, SPACE, rows, commits=6, bulk=False)
    assert len(snapshot.segments) == 6
    plan = planned(snapshot)
    assert 1 <= len(plan.scans) <= 2  # a second codebook where the first rows were too few to teach all that came
    assert sum(allowed for _, allowed in plan.scans) + sum(one.allowed for one in plan.exact) == ROWS
    assert recall(snapshot, rows, names(ROWS)) >= 0.98


@pytest.mark.usefixtures("unmerged")
def test_few_rows_are_gathered_and_more_are_scanned(tmp_path: Path) -> None:
    metadata = [{"number": number} for number in np.random.default_rng(1).permutation(ROWS).tolist()]
    snapshot = fill(tmp_path, SPACE, structured(ROWS, 384), commits=3, bulk=False, metadata=metadata)
    few, half = planned(snapshot, 0.005), planned(snapshot, 0.5)
    assert not few.scans
    assert sum(len(rows) for _, rows in few.gathered) == 30
    assert sum(allowed for _, allowed in half.scans) == ROWS // 2
    assert not planned(snapshot, depth=None).scans
    assert planned(snapshot, 0.5, 101) is half


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


@pytest.mark.usefixtures("unmerged")
def test_a_snapshot_and_the_next_one_number_the_segments_that_they_share_alike(tmp_path: Path) -> None:
    rows, ids = structured(ROWS, 384), shuffled(names(ROWS))
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for start in range(0, ROWS, 2_000):
            put(writer, ids[start : start + 2_000], rows[start : start + 2_000])
            writer.commit()
            writer.finish()
            if start == 2_000:
                previous = Store(tmp_path).open(NAME)
    newer = Snapshot(tmp_path / NAME, Store(tmp_path).open(NAME).manifest, previous)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(ids[:2_000])
        writer.commit()
    newest = Snapshot(tmp_path / NAME, Store(tmp_path).open(NAME).manifest, newer)
    slots = [
        [scan.slot for part in each.segments for scan in part.segment.scans.values()] for each in (previous, newer)
    ]
    assert slots[1][: len(slots[0])] == slots[0]
    assert len(set(slots[1])) == len(slots[1]) == 3
    for snapshot, living in ((previous, slice(0, 4_000)), (newer, slice(0, ROWS)), (newest, slice(2_000, ROWS))):
        assert recall(snapshot, rows[living], ids[living]) >= 0.98


# -- two threads for one query -----------------------------------------------------------------------------


@pytest.fixture
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantizer, "MAX_FAISS_INDEX_ROWS", 1_000)
    monkeypatch.setattr(passes, "MIN_SHARED_ROWS", 4_000)
    monkeypatch.setattr(quantizer, "_BLOCK_ROWS", 250)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "_core_is_idle", lambda: True)


def scan_of(rows: Vectors) -> VectorIndex:
    codes = encode(SPACE, rows).codes
    indexes = quantizer.quantize_rows(train_codebook(SPACE, codes, 24), row_blocks(codes))
    batch = index_to_batch(indexes, "abc", len(codes))
    assert batch.num_rows == len(indexes) == -(-len(codes) // 1_000)
    return open_index(SPACE, batch, len(codes), "abc")


@pytest.mark.usefixtures("short_lists", "idle")
def test_a_pass_that_two_threads_share_finds_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = structured(5_500, 384)
    one = Scan(ScanGroup([scan_of(rows)]))
    for query in encode(SPACE, rows[:10]).codes.astype(np.float32)[:, None]:
        with monkeypatch.context() as patched:
            patched.setattr(passes, "spare_core", nobody)
            alone = one.search(query, 5_500)
        shared = one.search(query, 5_500)
        assert sorted(shared[0].tolist()) == sorted(alone[0].tolist()) == list(range(5_500))
        assert (shared[1] == alone[1]).all()
        assert (one.search(query, 100)[1] == alone[1][:100]).all()


@contextmanager
def nobody() -> Iterator[None]:
    yield None


@pytest.mark.usefixtures("short_lists", "idle")
def test_a_shared_pass_keeps_to_its_bitmap() -> None:
    rows = structured(5_500, 384)
    allowed = np.random.default_rng(0).random(5_500) < 0.01
    allowed[:2_750] = False  # nothing for the first thread
    one = Scan(ScanGroup([scan_of(rows)]), bitmap=distance.Bitmap(np.packbits(allowed, bitorder="little")))
    found, _ = one.search(encode_query(SPACE, rows[0]), int(allowed.sum()))
    assert sorted(found.tolist()) == np.flatnonzero(allowed).tolist()


@pytest.mark.usefixtures("idle")
def test_a_second_long_search_gets_no_thread_while_the_first_has_one() -> None:
    with spare_core() as first:
        assert isinstance(first, ThreadPoolExecutor)
        with spare_core() as second:
            assert second is None
    with spare_core() as third:
        assert third is first


@pytest.mark.parametrize(
    ("state", "spare"),
    [
        (b"0.5 0.4 0.3 1/99 7\n", True),
        (b"0.5 0.4 0.3 2/99 7\n", False),
        (b"9.5 0.4 0.3 12/99 7\n", False),
        (b"", False),
        (b"none", False),
    ],
)
def test_a_thread_is_lent_only_while_a_core_is_idle(state: bytes, spare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("os.pread", lambda *_: state)
    with spare_core() as helper:
        assert (helper is not None) == spare


@pytest.mark.usefixtures("short_lists", "idle")
def test_a_store_of_long_lists_answers_as_brute_force_does(tmp_path: Path) -> None:
    rows, ids = structured(ROWS, 384), shuffled(names(ROWS))
    snapshot = fill(tmp_path, SPACE, rows, ids)
    assert len(snapshot.segments[0].segment.scans[SPACE.id].quantized) == 6
    assert recall(snapshot, rows, ids) >= 0.98
