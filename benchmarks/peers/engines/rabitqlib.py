"""rabitqlib's SymphonyQG: a graph that stores the codes of its neighbours with each row. No filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rabitqlib

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

DEGREE, CONSTRUCTION, BUILD_THREADS = 32, 200, 2


class SymphonyQG:
    settings = (32, 64, 96, 128, 192, 256, 384, 512, 768)
    filters = False

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self._index = rabitqlib.SymqgIndex(rows.shape[1], DEGREE, "ip")
        self._index.build(rows, CONSTRUCTION, num_threads=BUILD_THREADS)
        self._saved = folder / "symqg.bin"

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        index = self._index

        def search(query: Vectors) -> Any:
            return index.search(query[None], k, setting, 1)[0]

        return search

    def rows_of(self, answered: Any) -> list[int]:
        found: list[int] = answered[0].tolist()
        return found

    def size(self) -> int:
        self._index.save(str(self._saved))
        return self._saved.stat().st_size

    def close(self) -> None:
        pass
