"""turbovec: a scan of 4-bit codes. It has no exact scores, so this adapter re-ranks candidates in float32 by numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import turbovec

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

BITS = 4


class TurboVec:
    settings = (10, 15, 20, 40)
    """Number of candidates to re-rank; up to k, there is no re-ranking."""

    filters = True

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self._rows, self._values = rows, values
        self._index = turbovec.TurboQuantIndex(dim=rows.shape[1], bit_width=BITS)
        self._index.add(rows)
        self._index.prepare()

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        index, rows, depth = self._index, self._rows, max(setting, k)
        mask = only.mask(self._values) if only else None

        def search(query: Vectors) -> Any:
            found = index.search(query[None], depth, mask=mask)[1][0]
            if depth > k:
                found = found[np.argsort(-(rows[found] @ query))[:k]]
            return found

        return search

    def rows_of(self, answered: Any) -> list[int]:
        found: list[int] = answered.tolist()
        return found

    def size(self) -> int:
        return len(self._index.to_bytes()) + self._rows.nbytes

    def close(self) -> None:
        pass
