"""Vectors into their stored form and back: normalisation, precision, and what is refused by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import DimensionMismatch, InvalidVector
from aidre.engine.index.vectors.encoding import decode, encode, encode_query
from aidre.engine.model import Distance
from tests.support.stores import NAME, normal, put, space_of


def test_a_cosine_space_keeps_unit_rows_and_the_norm_that_was_given() -> None:
    rows = normal(100, 128) * np.float32(30)
    encoded = encode(space_of("cosine", 128), rows)
    assert encoded.codes.dtype == np.float16
    assert np.allclose(np.linalg.norm(encoded.codes.astype(np.float64), axis=1), 1.0, atol=1e-3)
    assert np.allclose(encoded.norms, np.linalg.norm(rows, axis=1), rtol=1e-6)
    assert np.allclose(decode(encoded.codes, encoded.norms), rows, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("distance", ["dot", "euclidean"])
def test_other_spaces_keep_rows_as_given(distance: Distance) -> None:
    rows = normal(50, 128) * np.float32(1e6)
    encoded = encode(space_of(distance, 128), rows)
    assert encoded.codes.dtype == np.float32
    assert (decode(encoded.codes, encoded.norms) == rows).all()


@pytest.mark.parametrize("distance", ["cosine", "dot", "euclidean"])
def test_a_normalized_space_keeps_unit_rows_and_forgets_the_norm(distance: Distance) -> None:
    encoded = encode(space_of(distance, 16, normalized=True), normal(10, 16) * np.float32(5))
    assert np.allclose(np.linalg.norm(encoded.codes, axis=1), 1.0, atol=1e-6)
    assert (encoded.norms == 1).all()


def test_few_dimensions_are_stored_in_float32() -> None:
    assert encode(space_of("cosine", 63), normal(1, 63)).codes.dtype == np.float32
    assert encode(space_of("cosine", 64), normal(1, 64)).codes.dtype == np.float16


def test_a_declared_precision_is_kept() -> None:
    assert encode(space_of("dot", 8, precision="float16"), normal(1, 8)).codes.dtype == np.float16
    assert encode(space_of("cosine", 384, precision="float32"), normal(1, 384)).codes.dtype == np.float32


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1.0, 1e17])
def test_a_direction_survives_any_norm(scale: float) -> None:
    row = np.array([[3.0, 4.0]], dtype=np.float64) * scale
    encoded = encode(space_of("cosine", 2), row)
    assert np.allclose(encoded.codes, [[0.6, 0.8]], atol=1e-6)
    assert np.allclose(encode_query(space_of("cosine", 2), row[0]), [[0.6, 0.8]], atol=1e-6)


@pytest.mark.parametrize(
    ("value", "problem"),
    [(np.nan, "not finite"), (np.inf, "not finite"), (-np.inf, "not finite"), (1e30, "norm above")],
)
@pytest.mark.parametrize("distance", ["cosine", "dot", "euclidean"])
def test_a_row_that_cannot_be_stored_is_named(distance: Distance, value: float, problem: str) -> None:
    rows = normal(10_000, 4)
    rows[9_001, 2] = value
    with pytest.raises(InvalidVector, match=problem) as caught:
        encode(space_of(distance, 4), rows)
    assert caught.value.details["row"] == 9_001


def test_a_zero_row_is_refused_where_it_has_to_have_a_direction() -> None:
    rows = np.ones((3, 4), dtype=np.float32)
    rows[2] = 0
    with pytest.raises(InvalidVector, match="no direction") as caught:
        encode(space_of("cosine", 4), rows)
    assert caught.value.details["row"] == 2
    assert (encode(space_of("dot", 4), rows).codes == rows).all()


def test_a_vector_that_is_too_short_to_have_a_direction_is_told_from_zero() -> None:
    rows = np.full((3, 4), 1e-149)
    encode(space_of("cosine", 4), rows)
    rows[1] = 1e-160
    with pytest.raises(InvalidVector, match="norm below 1e-150: scale it up") as caught:
        encode(space_of("cosine", 4), rows)
    assert caught.value.details["row"] == 1
    with pytest.raises(InvalidVector, match="norm below"):
        encode_query(space_of("cosine", 4), rows[1])
    with pytest.raises(InvalidVector, match="is zero"):
        encode_query(space_of("cosine", 4), rows[1] * 0)


def test_a_component_beyond_float16_is_refused() -> None:
    rows = np.full((2, 4), 1.0, dtype=np.float32)
    rows[1, 0] = 70_000
    with pytest.raises(InvalidVector, match="float16") as caught:
        encode(space_of("dot", 4, precision="float16"), rows)
    assert caught.value.details["row"] == 1


@pytest.mark.parametrize("shape", [(2, 3), (2, 5), (4,), (2, 2, 4)])
def test_a_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DimensionMismatch):
        encode(space_of("cosine", 4), np.ones(shape, dtype=np.float32))


@pytest.mark.parametrize("distance", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("dimensions", [1, 8, 384])
def test_a_stored_chunk_gives_back_its_vector(distance: Distance, dimensions: int, tmp_path: Path) -> None:
    rows = normal(20, dimensions, 1) * np.float32(12)
    spaces = [space_of(distance, dimensions), space_of("dot", 3)]
    other = normal(20, 3, 2)
    with Store(tmp_path).writer(NAME, spaces=spaces) as writer:
        put(writer, [f"d{row}" for row in range(20)], {spaces[0].id: rows, spaces[1].id: other})
        writer.commit()
        writer.compact()
    snapshot = Store(tmp_path).open(NAME)
    for row in range(20):
        chunk = snapshot.get(f"d{row}#chunk_1")
        assert chunk is not None
        vectors = chunk.vectors()
        assert vectors.keys() == {spaces[0].id, spaces[1].id}
        assert vectors[spaces[0].id].dtype == np.float32
        assert np.allclose(vectors[spaces[0].id], rows[row], rtol=1e-3, atol=np.linalg.norm(rows[row]) * 1e-3)
        assert (vectors[spaces[1].id] == other[row]).all()


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<f2", "<i4", ">i8", "u1"])
def test_a_query_may_be_an_array_of_any_numbers_wherever_it_lies(dtype: str) -> None:
    space, numbers = space_of("dot", 5), [1, 2, 3, 4, 5]
    whole = np.array(numbers, dtype)
    unaligned = np.frombuffer(b"x" + whole.tobytes(), np.uint8)[1:].view(dtype)
    readonly = whole.copy()
    readonly.flags.writeable = False
    for vector in (whole, unaligned, readonly, np.repeat(whole, 2)[::2], whole[::-1][::-1]):
        assert encode_query(space, vector).tolist() == [numbers]
