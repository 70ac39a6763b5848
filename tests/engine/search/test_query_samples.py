"""The generated queries of a calibration: live rows, and mixtures that lie off the rows."""

from __future__ import annotations

import numpy as np
import pytest

from aidre.engine.index.vectors.distance import VectorColumn
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.model import Distance
from aidre.engine.search import query_samples
from aidre.engine.search.calibration import CalibrationTarget
from aidre.engine.search.query_samples import NO_ROW, QuerySample, asked_sample, generated_samples, row_key
from aidre.engine.segment.view import RowMask
from tests.support.stores import DISTANCES, Vectors, normal, space_of, structured


def target_of(distance: Distance, rows: Vectors, first: int = 0) -> CalibrationTarget:
    """The rows from `first` on are live."""
    space = space_of(distance, rows.shape[1])
    live = RowMask(np.arange(len(rows)) >= first, len(rows))
    return CalibrationTarget("a", VectorColumn(space, encode(space, rows).codes), live, None)


def samples_of(distance: Distance, *targets: CalibrationTarget) -> list[QuerySample]:
    space = space_of(distance, targets[0].column.codes.shape[1])
    return generated_samples(space, targets, sum(target.live.count for target in targets))


def test_rows_are_live_rows_of_all_targets_and_mixtures_and_pairs_are_none() -> None:
    rows, mixtures, pairs = samples_of(
        "dot", target_of("dot", normal(60, 8), 40), target_of("dot", normal(500, 8, 1), 100)
    )
    assert (rows.kind, len(rows.queries)) == ("rows", 60)
    assert (mixtures.kind, len(mixtures.queries)) == ("mixtures", 140)
    assert (pairs.kind, len(pairs.queries)) == ("pairs", 60)
    live = {row_key(0, row) for row in range(40, 60)} | {row_key(1, row) for row in range(100, 500)}
    assert set(rows.row_keys.tolist()) <= live
    assert min(rows.row_keys) < row_key(1, 0) < max(rows.row_keys)
    assert len(set(rows.row_keys.tolist())) == 60
    assert {*mixtures.row_keys.tolist(), *pairs.row_keys.tolist()} == {NO_ROW}


@pytest.mark.parametrize("distance", DISTANCES)
def test_samples_are_the_same_for_the_same_rows(distance: Distance) -> None:
    first, second = (samples_of(distance, target_of(distance, structured(400, 64))) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert (one.queries == other.queries).all()


def test_mixtures_lie_farther_from_the_rows_than_rows_do() -> None:
    vectors = structured(2_000, 128)
    target = target_of("cosine", vectors)
    rows, mixtures, pairs = samples_of("cosine", target)
    stored = target.column.codes.astype(np.float32)
    nearest = [np.sort(sample.queries @ stored.T, axis=1)[:, -2].mean() for sample in (rows, mixtures, pairs)]
    assert nearest[1] < nearest[2] < nearest[0]
    assert nearest[1] < nearest[0] - 0.1
    assert nearest[1] > 0.3  # and are not noise alone
    np.testing.assert_allclose(np.linalg.norm(mixtures.queries, axis=1), 1, rtol=1e-5)


def test_mixtures_of_a_euclidean_space_surround_its_rows() -> None:
    vectors = structured(1_000, 32) * 7 + 100
    _, mixtures, _ = samples_of("euclidean", target_of("euclidean", vectors))
    centre, radius = vectors.mean(axis=0), np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).mean()
    distances = np.linalg.norm(mixtures.queries - centre, axis=1)
    assert 0.7 * radius < distances.mean() < 1.3 * radius


def test_few_rows_are_each_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_samples, "SAMPLED_QUERIES", 50)
    rows, mixtures, pairs = samples_of("dot", target_of("dot", normal(6, 4)))
    assert rows.row_keys.tolist() == [0, 1, 2, 3, 4, 5]
    assert (len(mixtures.queries), len(pairs.queries)) == (26, 12)


def test_pairs_lie_between_two_rows() -> None:
    target = target_of("cosine", normal(300, 256))
    _, mixtures, pairs = samples_of("cosine", target)
    stored = target.column.codes.astype(np.float32)
    for sample, shares in ((mixtures, (0.0, 0.7)), (pairs, (0.7, 1.01))):
        best = np.sort(sample.queries @ stored.T, axis=1)[:, -2:]
        assert shares[0] < np.median(best[:, 0] / best[:, 1]) < shares[1]


def test_queries_that_are_asked_are_no_rows() -> None:
    sample = asked_sample("given", normal(3, 4))
    assert sample.row_keys.tolist() == [NO_ROW] * 3
