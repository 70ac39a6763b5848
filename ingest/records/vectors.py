"""Checks the vectors that rows bring: lengths, types and values. The engine checks the values again on storing."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import EmbeddingSpace, Json

if TYPE_CHECKING:  # parsers in the sandbox, which bring no vectors, read this module
    import numpy as np
    from numpy.typing import NDArray

RowVectors: TypeAlias = "dict[str, NDArray[np.float32]]"
"""One float32 vector for each space, by the id of the space."""


class VectorRules:
    """The vectors that documents of a collection may bring, and those that they must: of each space without a model."""

    def __init__(self, spaces: Sequence[EmbeddingSpace], with_model: Collection[str]) -> None:
        self._spaces = {space.id: space for space in spaces}
        self.required = frozenset(self._spaces) - frozenset(with_model)
        """Ids of the spaces of which each document brings a vector."""

    def explain_missing(self, vectors: Mapping[str, Any] | None) -> str:
        """The fault of a document that lacks a required vector."""
        space = min(self.required - (vectors or {}).keys())
        return f"no vector for embedding space {space!r}, which has no model to make one"

    def space(self, name: str) -> EmbeddingSpace:
        """The space with this id; raises InvalidDocument if the collection has none."""
        space = self._spaces.get(name)
        if space is None:
            raise InvalidDocument(
                f"vectors.{name}: the collection has no such embedding space, declare it under [[spaces]]"
            )
        return space

    def parse_lists(self, vectors: Json) -> RowVectors | None:
        """The vectors of a JSON row's member `vectors`, None if there are none; raises InvalidDocument.

        One list of numbers is for the only space."""
        if vectors is None:
            return None
        if type(vectors) is list and len(self._spaces) == 1:
            vectors = dict.fromkeys(self._spaces, vectors)
        if type(vectors) is not dict:
            raise InvalidDocument(
                "vectors must be an object of number lists by space, or one list where the collection has one space: "
                f"it has {len(self._spaces)}"
            )
        import numpy as np

        parsed: RowVectors = {}
        for name, numbers in vectors.items():
            if numbers is not None:
                vector = _parse_vector(self.space(name), numbers)
                square = float(np.vdot(vector, vector))  # unlike `@`, vdot warns of no overflow
                if not 0.0 < square < math.inf and (faults := self.find_faults(name, vector[None, :])):
                    raise InvalidDocument(faults[0])
                parsed[name] = vector
        return parsed or None

    def find_faults(self, name: str, matrix: NDArray[np.float32]) -> dict[int, str]:
        """Faults of a matrix of shape (rows, dimensions) in the space `name`, by row: NaN, infinity, no direction."""
        import numpy as np

        space = self._spaces[name]
        needs_direction = space.distance == "cosine" or space.normalized
        # One pass finds every row with NaN, infinity or only zeros, and some that overflow or underflow; only these are
        # examined exactly.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", matrix, matrix)
        suspects = np.flatnonzero(~(np.isfinite(squares) & (squares > 0)))
        faults = {}
        for row in suspects.tolist():
            if not np.isfinite(matrix[row]).all():
                faults[row] = f"vectors.{name} has a number that is not finite"
            elif needs_direction and not matrix[row].any():
                faults[row] = f"vectors.{name} is zero and has no direction"
        return faults


def format_wrong_length(space: EmbeddingSpace, length: int) -> str:
    return f"vectors.{space.id} has {length} numbers: the embedding space has {space.dimensions} dimensions"


def _parse_vector(space: EmbeddingSpace, numbers: Json) -> NDArray[np.float32]:
    import numpy as np

    if type(numbers) is not list:
        raise InvalidDocument(f"vectors.{space.id} must be a list of numbers")
    if len(numbers) != space.dimensions:
        raise InvalidDocument(format_wrong_length(space, len(numbers)))
    try:
        vector = np.frombuffer(array("f", numbers), np.float32)  # numbers out of range become infinite
    except (TypeError, OverflowError):
        raise InvalidDocument(f"vectors.{space.id} must be a list of numbers") from None
    # array() reads true and false as 1 and 0, so the types need a check only if one of these occurs.
    if ((vector == 0) | (vector == 1)).any() and bool in map(type, numbers):
        raise InvalidDocument(f"vectors.{space.id} must be a list of numbers")
    return vector
