"""Vectors without numpy: what a program gives as one, and how it is sent. numpy is needed to give vectors back."""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections.abc import Sequence
from numbers import Real
from typing import Any

from aidre_client.errors import ConfigurationError, InvalidInput


def to_vector(value: Any) -> array[float]:
    """A vector as float32. InvalidInput for what is none, or has a number that is not finite.

    Lists, tuples, arrays of numpy and whatever numpy would read as an array.
    """
    listed = _listed(value)
    if listed is None or not all(map(_is_number, listed)):
        raise InvalidInput("a vector is a list of numbers with one axis, shape (dimensions,)")
    try:
        vector = array("f", listed)
    except OverflowError:
        vector = array("f", [math.inf])
    if not all(map(math.isfinite, vector)):
        raise InvalidInput("a vector has numbers that are not finite")
    return vector


def to_rows(value: Any) -> Sequence[Any] | None:
    """The rows of a matrix, or None for what has none."""
    return _listed(value)


def _listed(value: Any) -> Sequence[Any] | None:
    if hasattr(value, "__array__"):  # of numpy, or of a library that numpy knows how to read
        value = value.__array__()
    if hasattr(value, "tolist"):
        value = value.tolist()
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int | Real) and not isinstance(value, bool)


def to_base64(vector: array[float]) -> str:
    """The little-endian bytes of a vector."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return base64.b64encode(vector.tobytes()).decode()


def need_numpy() -> None:
    """ConfigurationError where numpy, as whose arrays chunks have their vectors, is not installed."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise ConfigurationError("vectors of chunks need numpy: pip install 'aidre-client[numpy]'") from None
