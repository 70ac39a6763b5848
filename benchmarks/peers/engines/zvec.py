"""zvec: an embedded store with an HNSW graph and inverted indexes for filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zvec

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION, BATCH = 16, 128, 1_000


class Zvec:
    settings = (32, 64, 128, 192, 256, 384, 512)
    filters = True

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        zvec.init(log_level=zvec.LogLevel.ERROR, query_threads=1, optimize_threads=2)
        ordered = zvec.InvertIndexParam(enable_range_optimization=True)
        graph = zvec.HnswIndexParam(metric_type=zvec.MetricType.COSINE, m=NEIGHBOURS, ef_construction=CONSTRUCTION)
        schema = zvec.CollectionSchema(
            "bench",
            [zvec.FieldSchema(name, zvec.DataType.DOUBLE, index_param=ordered) for name in values],
            [zvec.VectorSchema("v", zvec.DataType.VECTOR_FP32, rows.shape[1], graph)],
        )
        self._folder = folder / "zvec"
        self._collection = zvec.create_and_open(str(self._folder), schema)
        for first in range(0, len(rows), BATCH):
            numbers = range(first, min(first + BATCH, len(rows)))
            self._collection.insert(
                [
                    zvec.Doc(
                        str(number),
                        vectors={"v": rows[number].tolist()},
                        fields={name: float(column[number]) for name, column in values.items()},
                    )
                    for number in numbers
                ]
            )
        self._collection.optimize()
        self._collection.flush()

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        collection, parameters = self._collection, zvec.HnswQueryParam(ef=setting)
        condition = f"{only.field} < {only.value!r}" if only else None

        def search(query: Vectors) -> Any:
            search_request = zvec.Query("v", vector=query, param=parameters)
            return collection.query(search_request, topk=k, filter=condition, output_fields=[])

        return search

    def rows_of(self, answered: Any) -> list[int]:
        return [int(document.id) for document in answered]

    def size(self) -> int:
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def close(self) -> None:
        pass
