"""ScaNN: a partitioning tree, asymmetric hashing within partitions, candidates re-ranked in float32. No filters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import scann

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

REORDERED = 200


class Scann:
    settings = (2, 4, 8, 12, 16, 24, 32, 48, 64, 100)
    """Probed partitions, in percent."""

    filters = False

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self._partitions = round(math.sqrt(len(rows)))
        self._index = (
            scann.scann_ops_pybind.builder(rows, 10, "dot_product")
            .tree(num_leaves=self._partitions, num_leaves_to_search=20, training_sample_size=min(len(rows), 250_000))
            .score_ah(2, anisotropic_quantization_threshold=0.2)
            .reorder(REORDERED)
            .set_n_training_threads(2)
            .build()
        )
        self._folder = folder / "scann"

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        index, leaves = self._index, max(1, self._partitions * setting // 100)

        def search(query: Vectors) -> Any:
            return index.search(query, k, pre_reorder_num_neighbors=REORDERED, leaves_to_search=leaves)[0]

        return search

    def rows_of(self, answered: Any) -> list[int]:
        found: list[int] = answered.tolist()
        return found

    def size(self) -> int:
        self._folder.mkdir()
        self._index.serialize(str(self._folder))
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def close(self) -> None:
        pass
