"""Calibration: scans only where their measured recall reaches the target, and a reason where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection import generations
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.index.vectors.distance import VectorColumn
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.index.vectors.quantizer import centroids_of, train_centroids
from aidre.engine.index.vectors.scan import PreparedScan, ScanGroup
from aidre.engine.index.vectors.transform import train_transform
from aidre.engine.model import Distance
from aidre.engine.search import calibration, depth_choice
from aidre.engine.search.calibration import (
    CalibrationTarget,
    _code_sizes_to_try,
    build_missing_indexes,
    calibrate,
    sample_rows,
)
from aidre.engine.search.depth_choice import Choice
from aidre.engine.search.query_samples import asked_sample
from aidre.engine.search.rotation_choice import rotation_may_pay, rotation_pays
from aidre.engine.segment.view import RowMask
from aidre.engine.storage.format import MAX_SEGMENT_ROWS
from aidre.engine.storage.manifest import Calibration, Depth
from tests.support.stores import Vectors, ask, best, fill, names, normal, space_of, structured, true_scores


def target_of(distance: Distance, rows: Vectors, alive: int | None = None, name: str = "a") -> CalibrationTarget:
    space = space_of(distance, rows.shape[1])
    mask = None if alive is None else np.arange(len(rows)) < alive
    return CalibrationTarget(name, VectorColumn(space, encode(space, rows).codes), RowMask(mask, len(rows)), None)


def unit(vectors: NDArray[Any]) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def found(target: CalibrationTarget, candidates: int, queries: Vectors, k: int = 10) -> float:
    """The recall of the best candidates of a scan, compared exactly."""
    assert target.index is not None
    scores = queries @ target.column.codes.astype(np.float32).T
    bounds = np.sort(scores, axis=1)[:, -k] - 1e-6
    scanned = PreparedScan(ScanGroup([target.index])).search_all(queries, candidates)
    rows = [ids % MAX_SEGMENT_ROWS for ids, _ in scanned]
    return float(np.mean([min(k, int((scores[i, own] >= bounds[i]).sum())) / k for i, own in enumerate(rows)]))


def calibration_of(snapshot: Snapshot) -> Calibration:
    calibration = snapshot.manifest.spaces[0].calibration
    assert calibration is not None
    return calibration


def test_a_small_space_is_exact_and_says_so() -> None:
    calibration = calibrate(space_of("cosine", 64), [target_of("cosine", structured(1000, 64))], 0.99)
    assert calibration.kind == "exact"
    assert calibration.reason is not None
    assert "small" in calibration.reason


def test_two_dimensions_are_too_few_for_a_scan_and_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "scan_can_pay", lambda rows, row_bytes: True)  # as for 300,000 rows
    target = target_of("euclidean", normal(20_000, 2))
    found = calibrate(space_of("euclidean", 2), [target], 0.99)
    assert found.kind == "exact"
    assert found.queries > 0
    assert found.reason is not None
    assert "0.99" in found.reason
    assert target.index is None
    assert target.built is None


@pytest.mark.slow
def test_rows_without_structure_need_more_codes_or_stay_exact() -> None:
    with_structure = calibrate(space_of("cosine", 128), [target_of("cosine", structured(10_000, 128))], 0.99)
    without = calibrate(space_of("cosine", 128), [target_of("cosine", normal(10_000, 128))], 0.99)
    assert (with_structure.kind, with_structure.code_size) == ("scan", 32)
    assert without.kind == "exact" or without.code_size > 32
    assert without.kind == "exact" or without.depths[0].mean >= 0.99


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_a_scan_that_finds_nothing_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = np.empty(0, np.int64), np.empty(0)
    monkeypatch.setattr(PreparedScan, "search_all", lambda self, queries, count: [nothing] * len(queries))
    target = target_of("cosine", structured(1_700, 768))
    assert calibrate(space_of("cosine", 768), [target], 0.99).kind == "exact"


@pytest.mark.slow
def test_no_codebook_is_trained_where_every_segment_has_its_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = [target_of("cosine", structured(2_500, 256, seed), name=str(seed)) for seed in range(2)]
    calibrate(space_of("cosine", 256), targets, 0.9)
    for target in targets:
        target.built, target.trained_rows = None, 1_000  # of the few rows that there were at the time
    trained: list[int] = []
    monkeypatch.setattr(calibration, "train_codebook", lambda *given: trained.append(len(given[1])))
    assert calibrate(space_of("cosine", 256), targets, 0.9).kind == "scan"
    assert trained == [] and [target.built for target in targets] == [None, None]


@pytest.mark.slow
def test_depths_grow_with_the_number_of_results_and_reach_the_target() -> None:
    target = target_of("cosine", structured(8_000, 384))
    calibration = calibrate(space_of("cosine", 384), [target], 0.99)
    assert calibration.kind == "scan"
    assert calibration.rows == 8_000
    assert target.index is not None
    assert target.index.code_size == calibration.code_size
    assert [depth.results for depth in calibration.depths] == [10, 100, 1000][: len(calibration.depths)]
    candidates = [depth.candidates for depth in calibration.depths]
    assert candidates == sorted(candidates)
    for depth in calibration.depths:
        assert depth.candidates >= 2 * depth.results
        assert 0.99 <= depth.mean <= 1.0
        assert depth.p5 <= 1.0


@pytest.mark.slow
def test_what_is_promised_is_found_by_queries_between_the_rows() -> None:
    rng = np.random.default_rng(1)
    groups = unit(rng.standard_normal((60, 256)))
    rows = unit(np.repeat(groups, 80, axis=0) + 0.05 * unit(rng.standard_normal((4_800, 256))))
    target = target_of("cosine", rows)
    [depth, *_] = calibrate(space_of("cosine", 256), [target], 0.99).depths
    share, picks, noise = rng.random((300, 1)), rng.integers(0, 4_800, (300, 2)), unit(rng.standard_normal((300, 256)))
    between = unit(unit(share * rows[picks[:, 0]] + (1 - share) * rows[picks[:, 1]]) + noise)
    assert depth.mean <= found(target, depth.candidates, between) + 0.01
    assert depth.mean >= 0.99


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [({64: 900, 128: 100}, 128), ({64: 120, 128: 100}, 64), ({64: 900, 128: 890}, 64), ({64: 0, 128: 300}, 128)],
)
def test_the_code_size_is_the_one_that_makes_searches_cheapest(
    monkeypatch: pytest.MonkeyPatch, candidates: dict[int, int], chosen: int
) -> None:
    def measured(_: object, __: object, code_size: int, *___: object) -> dict[float, Choice]:
        found = candidates.get(code_size, 0)
        return {0.99: Choice((Depth(10, found, 0.99, 0.9),) if found else (), ())}

    monkeypatch.setattr(calibration, "_measure_depths", measured)
    target = target_of("cosine", structured(8_000, 256))
    assert calibrate(space_of("cosine", 256), [target], 0.99).code_size == chosen
    assert target.index is not None
    assert target.index.code_size == chosen
    assert target.built is not None


@pytest.mark.usefixtures("quick_calibration")
@pytest.mark.parametrize(("rows", "is_retried"), [(8_000, False), (200_000, True)])
def test_smaller_codes_are_tried_again_where_larger_ones_have_become_dear(rows: int, is_retried: bool) -> None:
    space, stored = space_of("cosine", 256), target_of("cosine", structured(2_000, 256))
    build_missing_indexes(space, [stored], 128)
    column = VectorColumn(space, np.zeros((rows, 256), np.float16))
    target = CalibrationTarget("a", column, RowMask(None, rows), stored.index)
    assert (_code_sizes_to_try(space, [target])[0] < 128) == is_retried


@pytest.mark.slow
def test_given_queries_that_are_harder_are_found_and_remembered() -> None:
    space, rows = space_of("cosine", 256), structured(8_000, 256)
    far = unit(normal(200, 256))
    target = target_of("cosine", rows)
    usual = calibrate(space, [target], 0.9)
    asked = calibrate(space, [target], 0.9, queries=[asked_sample("given", far)])
    [known, *_] = asked.learned
    assert (known.kind, known.results) == ("given", 10)
    assert (asked.code_size, asked.depths[0].candidates) > (usual.code_size, usual.depths[0].candidates)
    assert asked.depths[0].mean <= found(target, asked.depths[0].candidates, far) + 0.01
    later = calibrate(space, [target], 0.9, previous=asked)
    assert later.learned == asked.learned
    assert later.depths[0].candidates >= asked.depths[0].candidates * 0.95
    assert calibrate(space, [target_of("cosine", rows[:500])], 0.9, previous=asked).learned == asked.learned


@pytest.mark.slow
def test_more_rows_are_searched_deeper_however_easy_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_choice, "MIN_DEPTH_ROWS", 3_000)
    rows = np.repeat(structured(300, 384), 20, axis=0) + normal(6_000, 384) * 1e-3
    found = calibrate(space_of("cosine", 384), [target_of("cosine", rows)], 0.99)
    least = depth_choice.MIN_DEPTH_PER_RESULT * 10 + depth_choice.MIN_DEPTH
    assert found.depths[0].candidates >= least * 2**depth_choice.MIN_DEPTH_EXPONENT


@pytest.mark.slow
def test_deleted_rows_are_neither_asked_nor_counted() -> None:
    target = target_of("cosine", structured(8_000, 384), alive=5_000)
    calibration = calibrate(space_of("cosine", 384), [target], 0.99)
    assert calibration.rows == 5_000
    assert calibration.kind == "scan"
    assert len(sample_rows([target], 30_000)) == 5_000


def test_a_sample_is_drawn_from_all_segments_by_their_rows() -> None:
    low, high = np.full((3000, 4), 1.0, np.float32), np.full((1000, 4), 2.0, np.float32)
    sample = sample_rows([target_of("dot", low), target_of("dot", high, name="b")], 400)
    assert len(sample) == 400
    assert (sample[:, 0] == 2.0).sum() == 100


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_a_target_out_of_reach_leaves_the_space_exact_and_its_answers_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "RECALL_TARGET", 1.01)
    rows = structured(3_400, 384)
    snapshot = fill(tmp_path, space_of("cosine", 384), rows)
    calibration = calibration_of(snapshot)
    assert (calibration.kind, calibration.depths) == ("exact", ())
    assert calibration.reason == "no affordable depth reaches recall 1.01 with 4-bit codes"
    assert not snapshot.segments[0].segment.scans
    for query in structured(10, 384, 1):
        found = set(ask(snapshot, query))
        assert len(found & set(best(true_scores("cosine", rows, query), names(3_400), 10))) >= 9


# -- rotation ----------------------------------------------------------------------------------------------


def correlated(count: int, dimensions: int = 128, seed: int = 0) -> Vectors:
    """Unit rows whose variance lies in few directions, none of them along a dimension."""
    rng = np.random.default_rng([3, seed])
    turned = np.linalg.qr(np.random.default_rng(4).standard_normal((dimensions, dimensions)))[0]
    scales = np.geomspace(1, 0.02, dimensions)
    return unit(rng.standard_normal((count, dimensions)) * scales @ turned)


def test_the_smallest_codes_are_tried_where_there_are_many_rows() -> None:
    space, rows = space_of("cosine", 384), np.zeros((300_000, 384), np.float16)
    sizes = [
        _code_sizes_to_try(space, [CalibrationTarget("a", VectorColumn(space, rows[:n]), RowMask(None, n), None)])[0]
        for n in (20_000, 300_000)
    ]
    assert sizes == [96, 64]


@pytest.mark.slow
def test_rows_in_few_directions_are_rotated_and_need_no_more_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    space, rows = space_of("cosine", 128), correlated(12_000)
    target = target_of("cosine", rows)
    rotated = calibrate(space, [target], 0.99)
    assert target.index is not None
    assert target.index.transform is not None
    assert rotated.code_size == 32
    assert found(target, rotated.depths[0].candidates, correlated(200, seed=1)) >= 0.99
    monkeypatch.setattr(calibration, "rotation_may_pay", lambda *given: False)
    monkeypatch.setattr(calibration, "_code_sizes_to_try", lambda *given: [32])
    target = target_of("cosine", rows)
    plain = calibrate(space, [target], 0.99)
    assert target.index is None or target.index.transform is None
    assert not plain.depths or plain.depths[0].candidates > 1.5 * rotated.depths[0].candidates


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [128, 384])
def test_rows_that_a_rotation_cannot_help_are_not_rotated(dimensions: int) -> None:
    target = target_of("cosine", normal(8_000, dimensions))
    calibrate(space_of("cosine", dimensions), [target], 0.9)
    assert target.index is None or (target.index.transform, target.index.code_size > dimensions / 5) == (None, True)


@pytest.mark.parametrize("is_binary", [False, True])
def test_a_trial_finds_that_rows_of_few_values_are_better_unrotated(is_binary: bool) -> None:
    rows = correlated(4_100, 96)
    if is_binary:
        rows = (normal(4_100, 96) > 0).astype(np.float32)
    sample, queries = rows[:4_000], rows[4_000:]
    codes = 24, train_transform(sample, 24, 96)
    # Beside a scan of this many rows the time of rotating a query does not count.
    assert rotation_pays(space_of("dot", 96), sample, queries, codes, 10_000_000) != is_binary


def test_a_rotation_has_to_be_cheap_beside_the_scan_and_the_build() -> None:
    assert rotation_may_pay(384, 256, 64, 60_000)
    assert not rotation_may_pay(384, 256, 64, 10_000)
    assert not rotation_may_pay(1536, 1024, 256, 200_000)
    assert rotation_may_pay(1536, 1024, 256, 500_000)


@pytest.mark.slow
def test_new_segments_get_the_codebook_of_the_space_and_share_its_scan() -> None:
    space = space_of("cosine", 128)
    first, second = target_of("cosine", correlated(12_000)), target_of("cosine", correlated(500, seed=2), name="b")
    calibrate(space, [first], 0.99)
    assert first.index is not None
    build_missing_indexes(space, [first, second], first.index.code_size)
    assert second.index is not None
    assert second.index.codes_key == first.index.codes_key
    assert second.index.transform is not None


@pytest.mark.slow
def test_a_space_that_gets_lists_later_keeps_its_codebook_and_rotates_the_centroids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space, target = space_of("cosine", 128), target_of("cosine", correlated(12_000))
    for name in ("rotation_may_pay", "rotation_pays"):  # on so few rows that hangs on the costs of the kernel in use
        monkeypatch.setattr(calibration, name, lambda *_: True)
    build_missing_indexes(space, [target], 22)
    assert target.index is not None
    assert target.index.codebook().index.d < 128
    monkeypatch.setattr(calibration, "nlist_for", lambda rows: 32)
    centroids = train_centroids(space, target.column.codes, 32)
    build_missing_indexes(space, [target], target.index.code_size, centroids)
    assert target.index.nlist == 32
    assert target.index.codebook().index.d < 128
    assert target.index.transform is not None
    rotated = target.index.transform.apply(centroids)
    stored = centroids_of(target.index.codebook().index)
    assert np.abs(stored - rotated).max() < 1e-3
    assert target.index.transform is not None
    assert found(target, 400, correlated(50, seed=1)) >= 0.99
