"""The stored vectors of one space as they pile up until a commit: blocks in their order.

Large blocks are made side by side in one room, so that joining them copies nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.model import Encoded

_ROOM_ROWS = 7 << 14
_ROOM_BYTES = 320 << 20
"""A room has place for what a commit of a bulk load holds; none of its memory is used before vectors fill it."""

_LEAST_ROWS = 1_024
"""Smaller blocks are copied in no time."""


class VectorBlocks:
    def __init__(self) -> None:
        self.blocks: list[Encoded] = []
        self._room: NDArray[Any] | None = None
        self._given = self._filled = 0
        self._stand_together = True

    def space_for(self, rows: int, dimensions: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Memory for so many vectors that may be added next."""
        if rows < _LEAST_ROWS:
            return np.empty((rows, dimensions), dtype)
        if self._room is None or self._given + rows > len(self._room):
            most = max(rows, min(_ROOM_ROWS, _ROOM_BYTES // (dimensions * dtype.itemsize)))
            self._stand_together = not self.blocks
            self._room, self._given = np.empty((most, dimensions), dtype), 0
        self._given += rows
        return self._room[self._given - rows : self._given]

    def add(self, encoded: Encoded) -> None:
        self.blocks.append(encoded)
        if self._stand_together:
            end = self._filled + len(encoded.codes)
            self._stand_together = self._room is not None and _is_same(encoded.codes, self._room[self._filled : end])
            self._filled = end

    def __getitem__(self, row: int) -> tuple[NDArray[Any], np.float32]:
        """Codes (d,) and norm of a vector."""
        for block in self.blocks:
            if row < len(block.codes):
                return block.codes[row], block.norms[row]
            row -= len(block.codes)
        raise IndexError(row)

    def joined(self, *, keep: bool) -> Encoded:
        """All vectors as one block, which they then are. Without `keep` nothing is held twice meanwhile."""
        blocks = list(self.blocks) if keep else self.blocks
        if len(blocks) > 1:
            end = sum(len(block.codes) for block in blocks)
            norms = np.concatenate([block.norms for block in blocks])
            if self._stand_together and self._room is not None:
                codes = self._room[:end]
            else:
                codes = np.empty((end, *blocks[0].codes.shape[1:]), blocks[0].codes.dtype)
                while blocks:
                    block = blocks.pop()
                    codes[end - len(block.codes) : end] = block.codes
                    end -= len(block.codes)
            self.blocks = [Encoded(codes, norms)]
        return self.blocks[0]


def _is_same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays are the same memory."""
    first, second = (each.__array_interface__ for each in (one, other))
    return all(first[name] == second[name] for name in ("data", "shape", "strides", "typestr"))
