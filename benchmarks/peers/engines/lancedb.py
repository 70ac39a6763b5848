"""LanceDB, embedded: IVF_HNSW_SQ re-ranked with exact scores, and scalar indexes for filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.index import BTree, IvfHnswSq

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION = 16, 128


class LanceDb:
    settings = (32, 64, 128, 256)
    filters = True

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
        columns = {"number": pa.array(range(len(rows))), "v": vectors}
        columns |= {name: pa.array(column) for name, column in values.items()}
        self._folder = folder / "lancedb"
        self._table = lancedb.connect(str(self._folder)).create_table("bench", pa.table(columns))
        graph = IvfHnswSq(distance_type="cosine", num_partitions=1, m=NEIGHBOURS, ef_construction=CONSTRUCTION)
        self._table.create_index("v", config=graph)
        for name in values:
            self._table.create_index(name, config=BTree())

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        table = self._table
        condition = f"{only.field} < {only.value!r}" if only else None

        def search(query: Vectors) -> Any:
            search_request = (
                table.search(query, vector_column_name="v").distance_type("cosine").select(["number"]).limit(k)
            )
            search_request = search_request.ef(setting).refine_factor(2)
            if condition:
                search_request = search_request.where(condition, prefilter=True)
            return search_request.to_arrow()

        return search

    def rows_of(self, answered: Any) -> list[int]:
        found: list[int] = answered.column("number").to_pylist()
        return found

    def size(self) -> int:
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def close(self) -> None:
        pass
