"""Ground truth of a calibration: sampled live rows, and their neighbours against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from aidre.engine.index.vectors.distance import VectorColumn
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.model import Distance
from aidre.engine.search import query_samples
from aidre.engine.search.calibration import CalibrationTarget
from aidre.engine.search.ground_truth import find_ground_truth
from aidre.engine.search.query_samples import NO_ROW, generated_samples, row_key, row_of, target_of
from aidre.engine.segment.view import RowMask
from tests.support.stores import DISTANCES, NAME, normal, space_of, true_scores

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
