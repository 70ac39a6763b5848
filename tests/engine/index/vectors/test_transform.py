"""Rotations: what they preserve, how they share out the variance, and that a damaged one is refused."""

from __future__ import annotations

import numpy as np
import pytest

from aidre.engine.index.vectors.transform import Transform, _balanced_groups, train_transform, transform_from_bytes
from aidre.engine.storage.arrow import FileProblem
from tests.support.stores import Vectors, normal, structured

DIMENSIONS = 48


def trained(codes_dimensions: int, rows: Vectors | None = None) -> Transform:
    return train_transform(structured(2_000, DIMENSIONS) if rows is None else rows, 8, codes_dimensions)


@pytest.mark.parametrize("codes_dimensions", [DIMENSIONS, 64])
def test_a_rotation_into_as_many_dimensions_preserves_inner_products(codes_dimensions: int) -> None:
    rows = structured(200, DIMENSIONS, 1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rotated = trained(codes_dimensions).apply(rows)
    assert rotated.shape == (200, codes_dimensions)
    assert np.allclose(rotated @ rotated.T, rows @ rows.T, atol=1e-3)


def test_few_vectors_and_many_are_rotated_alike() -> None:
    transform, rows = trained(32), normal(100, DIMENSIONS)
    assert np.allclose(transform.apply(rows)[:5], transform.apply(rows[:5]), atol=1e-5)
    assert np.allclose(transform.apply(rows), rows @ transform.rotation.T, atol=1e-5)


def test_what_is_left_out_varies_least_and_the_mean_is_not_left_out() -> None:
    scales = np.linspace(0.1, 1, DIMENSIONS, dtype=np.float32)
    rows = normal(3_000, DIMENSIONS) * scales
    rows[:, 0] += 5  # the dimension of least variance
    kept = trained(32, rows).apply(rows)
    assert np.abs((rows**2).sum() - (kept**2).sum()) < 0.2 * rows.var(axis=0).sum() * len(rows)
    assert np.isclose(np.linalg.norm(kept.mean(axis=0)), 5, atol=0.2)


@pytest.mark.parametrize("codes_dimensions", [32, DIMENSIONS, 64])
def test_sub_quantizers_get_groups_of_about_the_same_product(codes_dimensions: int) -> None:
    scales = np.geomspace(0.01, 1, DIMENSIONS)
    rows = (normal(4_000, DIMENSIONS) * scales).astype(np.float32)[:, np.random.default_rng(1).permutation(DIMENSIONS)]

    def products(vectors: Vectors) -> Vectors:
        return np.asarray(np.log(vectors.var(axis=0).reshape(8, -1) + 1e-12).sum(axis=1))

    if codes_dimensions <= DIMENSIONS:
        assert np.ptp(products(trained(codes_dimensions, rows).apply(rows))) < np.ptp(products(rows)) / 2
    groups = _balanced_groups(np.pad(scales**2, (0, 64 - DIMENSIONS)), 8)
    assert sorted(dimension for group in groups for dimension in group) == list(range(64))
    assert {len(group) for group in groups} == {8}


@pytest.mark.parametrize("rows", [np.zeros((300, DIMENSIONS)), np.ones((300, DIMENSIONS)), np.eye(DIMENSIONS)[:9]])
def test_rows_without_variance_still_give_a_rotation(rows: Vectors) -> None:
    transform = trained(DIMENSIONS, np.asarray(rows, np.float32))
    assert transform_from_bytes(transform.to_bytes(), DIMENSIONS).rotation.tolist() == transform.rotation.tolist()


@pytest.mark.parametrize("codes_dimensions", [32, DIMENSIONS, 64])
def test_a_rotation_comes_back_from_its_bytes(codes_dimensions: int) -> None:
    transform = trained(codes_dimensions)
    again = transform_from_bytes(transform.to_bytes(), codes_dimensions)
    assert again.rotation.tolist() == transform.rotation.tolist()
    assert again.digest == transform.digest != trained(codes_dimensions, structured(500, DIMENSIONS, 7)).digest
    assert again.rotation.flags.c_contiguous


@pytest.mark.parametrize("how", ["short", "odd", "empty", "no numbers", "infinite", "longer", "twice the same axis"])
@pytest.mark.parametrize("codes_dimensions", [32, 64])
def test_a_damaged_rotation_is_refused(codes_dimensions: int, how: str) -> None:
    rotation = trained(codes_dimensions).rotation.astype(np.float16)
    if how in ("no numbers", "infinite"):
        rotation[3, 4] = np.nan if how == "no numbers" else np.inf
    elif how == "longer":
        rotation *= np.float16(1.1)
    elif how == "twice the same axis":
        rotation[:, 1], rotation[1] = rotation[:, 0], rotation[0]
    stored = rotation.tobytes()
    stored = {"short": stored[:-2], "odd": stored[:-1], "empty": b""}.get(how, stored)
    with pytest.raises(FileProblem, match="rotation"):
        transform_from_bytes(stored, codes_dimensions)
