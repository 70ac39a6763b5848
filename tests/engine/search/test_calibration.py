"""Calibration: scans only where their measured recall reaches the target, and a reason where it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection import generations
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.vectors.distance import VectorColumn
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.index.vectors.scan import Scan, search_depth
from aidre.engine.model import Distance
from aidre.engine.search import calibration
from aidre.engine.search.calibration import CalibrationTarget, calibrate, sample_rows
from aidre.engine.segment.view import RowMask
from aidre.engine.storage.manifest import Calibration, Depth
from tests.support.stores import NAME, Vectors, ask, best, fill, names, normal, put, space_of, structured, true_scores


def target_of(distance: Distance, rows: Vectors, alive: int | None = None, name: str = "a") -> CalibrationTarget:
    space = space_of(distance, rows.shape[1])
    mask = None if alive is None else np.arange(len(rows)) < alive
    return CalibrationTarget(name, VectorColumn(space, encode(space, rows).codes), RowMask(mask, len(rows)), None)


def calibration_of(snapshot: Snapshot) -> Calibration:
    calibration = snapshot.manifest.spaces[0].calibration
    assert calibration is not None
    return calibration


def test_a_small_space_is_exact_and_says_so() -> None:
    calibration = calibrate(space_of("cosine", 64), [target_of("cosine", structured(1000, 64))], 0.99)
    assert calibration.kind == "exact"
    assert calibration.reason is not None
    assert "small" in calibration.reason


def test_two_dimensions_are_too_few_for_a_scan_and_stay_exact() -> None:
    target = target_of("euclidean", normal(400_000, 2))
    calibration = calibrate(space_of("euclidean", 2), [target], 0.99)
    assert calibration.kind == "exact"
    assert calibration.queries > 0
    assert calibration.reason is not None
    assert "0.99" in calibration.reason
    assert target.index is None
    assert target.built is None


def test_rows_without_structure_need_more_codes_or_stay_exact() -> None:
    target = target_of("cosine", normal(20_000, 64))
    calibration = calibrate(space_of("cosine", 64), [target], 0.99)
    assert calibration.code_size > 16 or calibration.kind == "exact"
    assert calibration.reason or calibration.depths[0].mean >= 0.99


def test_a_scan_that_finds_nothing_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = np.empty(0, np.int64), np.empty(0)
    monkeypatch.setattr(Scan, "search_all", lambda self, queries, count: [nothing] * len(queries))
    target = target_of("cosine", structured(20_000, 64))
    calibration = calibrate(space_of("cosine", 64), [target], 0.99)
    assert calibration.kind == "exact"


def test_no_codebook_is_trained_where_every_segment_has_its_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = [target_of("cosine", structured(10_000, 64, seed), name=str(seed)) for seed in range(2)]
    calibrate(space_of("cosine", 64), targets, 0.9)
    for target in targets:
        target.built, target.trained_rows = None, 1_000  # of the few rows that there were at the time
    trained: list[int] = []
    monkeypatch.setattr(calibration, "train_codebook", lambda *given: trained.append(len(given[1])))
    assert calibrate(space_of("cosine", 64), targets, 0.9).kind == "scan"
    assert trained == [] and [target.built for target in targets] == [None, None]


def test_depths_grow_with_the_number_of_results_and_reach_the_target() -> None:
    target = target_of("cosine", structured(20_000, 384))
    calibration = calibrate(space_of("cosine", 384), [target], 0.99)
    assert calibration.kind == "scan"
    assert calibration.rows == 20_000
    assert target.index is not None
    assert target.index.code_size == calibration.code_size
    assert [depth.results for depth in calibration.depths] == [10, 100, 1000][: len(calibration.depths)]
    candidates = [depth.candidates for depth in calibration.depths]
    assert candidates == sorted(candidates)
    for depth in calibration.depths:
        assert depth.candidates >= 2 * depth.results
        assert 0.99 <= depth.mean <= 1.0
        assert depth.p5 <= 1.0


def test_more_rows_are_searched_deeper_however_easy_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MIN_DEPTH_ROWS", 3_000)
    rows = np.repeat(structured(300, 384), 20, axis=0) + normal(6_000, 384) * 1e-3
    found = calibrate(space_of("cosine", 384), [target_of("cosine", rows)], 0.99)
    least = calibration.MIN_DEPTH_PER_RESULT * 10 + calibration.MIN_DEPTH
    assert found.depths[0].candidates >= least * 2**calibration.MIN_DEPTH_EXPONENT


def test_deleted_rows_are_neither_asked_nor_counted() -> None:
    target = target_of("cosine", structured(20_000, 384), alive=12_000)
    calibration = calibrate(space_of("cosine", 384), [target], 0.99)
    assert calibration.rows == 12_000
    assert calibration.kind == "scan"
    assert len(sample_rows([target], 30_000)) == 12_000


def test_a_sample_is_drawn_from_all_segments_by_their_rows() -> None:
    low, high = np.full((3000, 4), 1.0, np.float32), np.full((1000, 4), 2.0, np.float32)
    sample = sample_rows([target_of("dot", low), target_of("dot", high, name="b")], 400)
    assert len(sample) == 400
    assert (sample[:, 0] == 2.0).sum() == 100


def test_a_target_out_of_reach_leaves_the_space_exact_and_its_answers_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "RECALL_TARGET", 1.01)
    rows = structured(14_000, 96)
    snapshot = fill(tmp_path, space_of("cosine", 96), rows)
    calibration = calibration_of(snapshot)
    assert (calibration.kind, calibration.depths) == ("exact", ())
    assert calibration.reason == "no affordable depth reaches recall 1.01 with 4-bit codes"
    assert not snapshot.segments[0].segment.scans
    for query in structured(10, 96, 1):
        found = set(ask(snapshot, query))
        assert len(found & set(best(true_scores("cosine", rows, query), names(14_000), 10))) >= 9


def test_a_space_is_calibrated_anew_when_it_has_doubled(tmp_path: Path) -> None:
    space = space_of("cosine", 384)
    rows = structured(12_000, 384)
    calibrated = []
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        for start, end in ((0, 500), (500, 4500), (4500, 8000), (8000, 12_000)):
            put(writer, names(end - start, start), rows[start:end])
            writer.commit()
            writer.finish()  # a first load is calibrated less often than what comes later
            assert writer.snapshot is not None
            calibrated.append((calibration_of(writer.snapshot).kind, calibration_of(writer.snapshot).rows))
    assert calibrated == [("exact", 500), ("scan", 4500), ("scan", 4500), ("scan", 12_000)]
    snapshot = Store(tmp_path).open(NAME)
    assert [bool(part.segment.scans) for part in snapshot.segments] == [True] * 4


@pytest.mark.parametrize(
    ("wanted", "depth"), [(1, 40), (10, 40), (100, 400), (31, None), (1000, 9000), (1001, None), (50_000, None)]
)
def test_a_depth_between_calibrated_ones_lies_between_them(wanted: int, depth: int | None) -> None:
    depths = tuple(Depth(*facts, 1.0, 1.0) for facts in ((10, 40), (100, 400), (1000, 9000)))
    reach = search_depth(Calibration("scan", 0.99, 10_000, 200, 12, depths), wanted)
    found = None if reach is None else reach.candidates
    if wanted == 31:
        assert found is not None
        assert 31 < found < 400
    else:
        assert found == depth


def test_an_exact_space_has_no_depth() -> None:
    assert search_depth(None, 10) is None
    assert search_depth(Calibration("exact", 0.99, 10, reason="small"), 10) is None


def test_a_large_segment_with_one_live_row_is_searched_exactly(tmp_path: Path) -> None:
    space = space_of("cosine", 64)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        put(writer, names(20_000), structured(20_000, 64))
        writer.delete(names(19_999))
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert calibration_of(snapshot).kind == "exact"
    assert ask(snapshot, structured(1, 64)[0]) == ["d019999"]


def test_what_was_measured_on_rows_that_are_all_gone_is_measured_again(tmp_path: Path) -> None:
    space = space_of("cosine", 64)
    fill(tmp_path, space, structured(20_000, 64))
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        writer.delete(names(20_000))
        writer.commit()
        put(writer, names(15_000), structured(15_000, 64, 7))
        writer.commit()
    assert calibration_of(Store(tmp_path).open(NAME)).rows == 15_000


def test_a_first_load_whose_later_commit_replaces_all_is_calibrated_at_its_end(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[space_of("cosine", 64)]) as writer:
        for seed in (1, 2):
            put(writer, names(20_000), structured(20_000, 64, seed))
            writer.commit()
        writer.finish()
    [part] = Store(tmp_path).open(NAME).segments
    assert part.segment.scans


def test_a_collection_that_turned_over_is_calibrated_again(tmp_path: Path) -> None:
    space = space_of("cosine", 384)
    ids = names(8_000)
    path = tmp_path / "store"
    fill(path, space, structured(8_000, 384), ids)
    first = calibration_of(Store(path).open(NAME))
    assert first.written == 0
    others = normal(8_000, 384, 3)
    with Store(path).writer(NAME, spaces=[space]) as writer:
        for start in range(0, 8_000, 4_000):
            put(writer, ids[start : start + 4_000], others[start : start + 4_000])
            writer.commit()
            assert calibration_of(Store(path).open(NAME)).written == (start + 4_000) % 8_000
    last = calibration_of(Store(path).open(NAME))
    assert (last.kind, last.code_size, last.depths) != (first.kind, first.code_size, first.depths)
