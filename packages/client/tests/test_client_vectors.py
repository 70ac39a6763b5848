"""Vectors without numpy: what counts as one, and that numpy's give the same bytes."""

from __future__ import annotations

import base64
from array import array
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from aidre_client.errors import InvalidInput
from aidre_client.values.vectors import to_base64, to_rows, to_vector

NUMBERS = [0.1, -2.0, 3.0, 1e-9]


class ArrayLike:
    """What numpy would read as an array, as tensors are."""

    def __init__(self, listed: Any) -> None:
        self._listed = listed

    def __array__(self) -> Any:
        return memoryview(array("d", self._listed))


@pytest.mark.parametrize("given", [NUMBERS, tuple(NUMBERS), array("d", NUMBERS), ArrayLike(NUMBERS)])
def test_a_vector_is_any_list_of_numbers(given: Any) -> None:
    assert to_vector(given) == array("f", NUMBERS)


@pytest.mark.parametrize("given", [range(3), [0, 1.0, Fraction(2)]])
def test_whole_numbers_and_fractions_are_numbers(given: Any) -> None:
    assert to_vector(given).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "given",
    [3, None, "abc", b"abc", {"a": 1}, {1.0}, iter([1.0]), [None], ["1"], [True], [1j], [[1.0]], [Decimal(1)]],
)
def test_what_is_no_list_of_numbers_is_no_vector(given: Any) -> None:
    with pytest.raises(InvalidInput, match="list of numbers with one axis"):
        to_vector(given)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e39, 10**400])
def test_a_number_beyond_float32_is_no_part_of_a_vector(number: Any) -> None:
    with pytest.raises(InvalidInput, match="not finite"):
        to_vector([1.0, number])


def test_a_vector_is_sent_as_little_endian_float32() -> None:
    assert base64.b64decode(to_base64(to_vector([1.0, -2.0]))) == bytes.fromhex("0000803f000000c0")


def test_a_matrix_has_rows_whoever_made_it() -> None:
    assert to_rows([[1.0, 2.0]]) == [[1.0, 2.0]]
    assert to_rows("words") is None


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "uint64"])
def test_a_vector_of_numpy_is_its_numbers(kind: str) -> None:
    np = pytest.importorskip("numpy")
    given = np.array([1, 2, 100], kind)
    assert to_vector(given).tolist() == to_vector(list(given)).tolist() == [1.0, 2.0, 100.0]
    rounded = np.linspace(-1, 1, 384)
    assert base64.b64decode(to_base64(to_vector(rounded))) == rounded.astype("<f4").tobytes()
    with pytest.raises(InvalidInput, match="one axis"):
        to_vector(np.zeros((1, 3), kind))
    with pytest.raises(InvalidInput, match="list of numbers"):
        to_vector(np.array([True, False]))
