"""Vectors that rows bring: their form is checked here, their values once more by the engine when it stores them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import EmbeddingSpace, Json

Brought = dict[str, NDArray[np.float32]]


class VectorRules:
    """Which vectors a document may bring to a collection, and which it must: those of spaces without a model."""

    def __init__(self, spaces: Sequence[EmbeddingSpace], with_model: Collection[str]) -> None:
        self._spaces = {space.id: space for space in spaces}
        self._required = frozenset(self._spaces) - frozenset(with_model)

    def missing(self, vectors: Mapping[str, Any] | None) -> str | None:
        """What is wrong with a document that brings these vectors, None where every space is served."""
        if not self._required or (vectors is not None and vectors.keys() >= self._required):
            return None
        name = min(self._required - (vectors or {}).keys())
        return f"no vector for embedding space {name!r}, which has no model to make one"

    def space(self, name: str) -> EmbeddingSpace:
        """The space of this id; raises InvalidDocument where the collection has none."""
        space = self._spaces.get(name)
        if space is None:
            raise InvalidDocument(
                f"vectors.{name}: the collection has no such embedding space, declare it under [[spaces]]"
            )
        return space

    def from_lists(self, vectors: Json) -> Brought | None:
        """The member `vectors` of a JSON row; raises InvalidDocument."""
        if vectors is None:
            return None
        if type(vectors) is not dict:
            raise InvalidDocument("vectors must be an object of number lists")
        read: Brought = {}
        for name, numbers in vectors.items():
            if numbers is not None:
                vector = _vector(self.space(name), numbers)
                square = float(np.vdot(vector, vector))  # which, unlike `@`, says nothing of overflow
                if not 0.0 < square < math.inf and (fault := self.faults(name, vector[None, :])):
                    raise InvalidDocument(fault[0])
                read[name] = vector
        return read or None

    def faults(self, name: str, matrix: NDArray[np.float32]) -> dict[int, str]:
        """What is wrong with the rows of a matrix, by row."""
        space = self._spaces[name]
        directed = space.distance == "cosine" or space.normalized
        # One pass finds NaN, infinity and nearly every zero row; the exact look is for the few that it suspects.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", matrix, matrix)
        suspects = np.flatnonzero(~(np.isfinite(squares) & (squares > 0)))
        faults = {}
        for row in suspects.tolist():
            if not np.isfinite(matrix[row]).all():
                faults[row] = f"vectors.{name} has a number that is not finite"
            elif directed and not matrix[row].any():
                faults[row] = f"vectors.{name} is zero and has no direction"
        return faults


def wrong_length(space: EmbeddingSpace, length: int) -> str:
    return f"vectors.{space.id} has {length} numbers: the embedding space has {space.dimensions} dimensions"


def _vector(space: EmbeddingSpace, numbers: Json) -> NDArray[np.float32]:
    if type(numbers) is not list:
        raise InvalidDocument(f"vectors.{space.id} must be a list of numbers")
    if len(numbers) != space.dimensions:
        raise InvalidDocument(wrong_length(space, len(numbers)))
    try:
        vector = np.frombuffer(array("f", numbers), np.float32)  # numbers out of range are infinite
    except (TypeError, OverflowError):
        raise InvalidDocument(f"vectors.{space.id} must be a list of numbers") from None
    # true and false are read as 1 and 0; only where these occur are the types worth a look.
    if ((vector == 0) | (vector == 1)).any() and bool in map(type, numbers):
        raise InvalidDocument(f"vectors.{space.id} must be a list of numbers")
    return vector
