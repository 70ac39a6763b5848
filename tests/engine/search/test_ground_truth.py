"""Ground truth of a calibration: sampled live rows, and their neighbours against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from aidre.engine.index.vectors.distance import VectorColumn
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.model import Distance
from aidre.engine.search import ground_truth, query_samples
from aidre.engine.search.calibration import CalibrationTarget, build_missing_indexes
from aidre.engine.search.depth_choice import RequiredDepth
from aidre.engine.search.ground_truth import find_ground_truth, measure_required_depths, with_more_queries
from aidre.engine.search.query_samples import NO_ROW, generated_samples, row_key, row_of, target_of
from aidre.engine.segment.view import RowMask
from tests.support.stores import DISTANCES, NAME, normal, space_of, structured, true_scores

SIZES = (300, 50, 150)
"""Rows of three targets."""


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dimensions", [8, 96])
def test_neighbours_are_those_of_brute_force_over_the_live_rows_without_the_query(
    distance: Distance, dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_samples, "SAMPLED_QUERIES", 30)
    space, rng = space_of(distance, dimensions), np.random.default_rng(1)
    stored = [encode(space, normal(size, dimensions, size)).codes for size in SIZES]
    live = [rng.random(size) < 0.7 for size in SIZES]
    targets = [
        CalibrationTarget(f"{NAME}{number}", VectorColumn(space, codes), RowMask(mask, len(codes)), None)
        for number, (codes, mask) in enumerate(zip(stored, live, strict=True))
    ]
    keys = np.concatenate([row_key(number, np.flatnonzero(mask)) for number, mask in enumerate(live)])
    rows = np.concatenate([codes[mask] for codes, mask in zip(stored, live, strict=True)])
    truth = find_ground_truth(space, targets, len(keys), generated_samples(space, targets, len(keys)))
    assert truth.k_values == (10, 100)
    assert truth.kinds == {"rows": slice(0, 7), "mixtures": slice(7, 23), "pairs": slice(23, 30)}
    assert len(truth.queries) == len(truth.query_keys) == len(truth.neighbours) == 30
    assert {target_of(key) for key in truth.query_keys[:7]} == {0, 1, 2}
    assert set(truth.query_keys[7:]) == {NO_ROW}
    for key, query, found in zip(truth.query_keys, truth.queries, truth.neighbours, strict=True):
        assert key == NO_ROW or (query == stored[target_of(key)][row_of(key)]).all()
        others = keys != key
        order = keys[others][np.argsort(-true_scores(distance, rows[others], query), kind="stable")]
        assert sorted(found.keys.tolist()) == found.keys.tolist()
        assert set(found.keys.tolist()) == set(order[:100].tolist())
        assert set(found.keys[found.tiers == 0].tolist()) == set(order[:10].tolist())
        assert set(found.tiers.tolist()) == {0, 1}


def test_few_rows_have_all_others_as_neighbours() -> None:
    space = space_of("dot", 4)
    target = CalibrationTarget(NAME, VectorColumn(space, encode(space, normal(6, 4)).codes), RowMask(None, 6), None)
    truth = find_ground_truth(space, [target], 6, generated_samples(space, [target], 6)[:1])
    assert truth.k_values == (5,)
    assert truth.query_keys == [0, 1, 2, 3, 4, 5]
    for key, found in zip(truth.query_keys, truth.neighbours, strict=True):
        assert found.keys.tolist() == [other for other in range(6) if other != key]


def test_neighbours_that_tie_are_of_one_tier() -> None:
    space = space_of("dot", 4)
    rows = np.repeat(np.eye(4, dtype=np.float32)[:1], 40, axis=0)
    target = CalibrationTarget(NAME, VectorColumn(space, encode(space, rows).codes), RowMask(None, 40), None)
    truth = find_ground_truth(space, [target], 40, generated_samples(space, [target], 40))
    assert truth.k_values == (10,)
    assert all((found.tiers == 0).all() and len(found.keys) == 10 for found in truth.neighbours[:40])


@pytest.mark.slow
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_deep_scan_finds_for_more_queries_what_brute_force_would(
    distance: Distance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_samples, "SAMPLED_QUERIES", 40)
    monkeypatch.setattr(ground_truth, "MORE_QUERIES", 60)
    space, rng = space_of(distance, 96), np.random.default_rng(1)
    codes = [encode(space, structured(size, 96, size)).codes for size in (400, 2_600, 1_500)]
    targets = [
        CalibrationTarget(
            f"{NAME}{number}", VectorColumn(space, one), RowMask(rng.random(len(one)) < 0.9, len(one)), None
        )
        for number, one in enumerate(codes)
    ]
    indexed = {1: targets[1], 2: targets[2]}
    build_missing_indexes(space, list(indexed.values()), 24)
    rows = sum(target.live.count for target in indexed.values())
    truth = find_ground_truth(space, targets, rows, generated_samples(space, targets, rows))
    exact = truth.by_kind(measure_required_depths(truth, indexed, 1_000))
    more = with_more_queries(space, truth, indexed, exact, 1_000)
    assert {kind: len(queries) for kind, queries in more.items()} == {"rows": 33, "mixtures": 40, "pairs": 27}
    asked = generated_samples(
        space, list(indexed.values()), rows, 60, seed=ground_truth._MORE_SEED, shares=ground_truth._MORE_SHARES
    )
    known = find_ground_truth(space, list(indexed.values()), rows, asked)
    by_brute_force = known.by_kind(measure_required_depths(known, dict(enumerate(indexed.values())), 1_000))
    for kind, queries in by_brute_force.items():
        found: list[RequiredDepth] = list(more[kind])[-len(queries) :]
        assert [(one.max_tier, one.missed) for one in found] == len(queries) * [(0, found[0].missed)]
        for one, true in zip(found, queries, strict=True):
            nearest = np.sort(true.ranks[true.tiers == 0])
            seen = np.sort(one.ranks)
            assert len(seen) == 10
            assert abs(len(set(seen.tolist()) & set(nearest.tolist())) - np.count_nonzero(nearest < 1_000)) <= 1


def test_what_a_deep_scan_misses_counts_as_missed() -> None:
    lost = RequiredDepth(np.array([0, 1, 50, 50]), np.zeros(4, np.int64), np.zeros(4), np.array([0, 0, 0, 1]))
    keys = np.array([row_key(ordinal, 0) for ordinal in (0, 1, 1, 1)])
    of_each = [ground_truth.Neighbours(keys, lost.tiers)] * 2

    def missed(ordinals: list[int], depth: int) -> float:
        return ground_truth._missed_share([lost, lost], of_each, np.array(ordinals), depth)

    assert missed([0, 1], 50) == pytest.approx(1 / 3)
    assert missed([1], 50) == pytest.approx(1 / 2)  # those in a column without an index are compared, not scanned
    assert missed([0, 1], 51) == 0
    assert missed([2], 50) == 1
