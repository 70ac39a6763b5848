"""Milvus Lite through pymilvus, embedded, in a local file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pymilvus import DataType, MilvusClient

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION, BATCH = 16, 128, 2_000


class MilvusLite:
    settings = (32, 64, 128, 256, 512)
    filters = True

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self._file = folder / "milvus.db"
        self._client = MilvusClient(str(self._file))
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("number", DataType.INT64, is_primary=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=rows.shape[1])
        for name in values:
            schema.add_field(name, DataType.DOUBLE)
        self._client.create_collection("bench", schema=schema)
        for first in range(0, len(rows), BATCH):
            numbers = range(first, min(first + BATCH, len(rows)))
            self._client.insert(
                "bench",
                [
                    {
                        "number": number,
                        "v": rows[number].tolist(),
                        **{name: float(column[number]) for name, column in values.items()},
                    }
                    for number in numbers
                ],
            )
        self._client.flush("bench")
        indexes = self._client.prepare_index_params()
        indexes.add_index(
            "v", index_type="HNSW_SQ", metric_type="IP", params={"M": NEIGHBOURS, "efConstruction": CONSTRUCTION}
        )
        self._client.create_index("bench", indexes)
        self._client.load_collection("bench")

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        client = self._client
        parameters = {"metric_type": "IP", "params": {"ef": setting}}
        condition = f"{only.field} < {only.value!r}" if only else ""

        def search(query: Vectors) -> Any:
            return client.search(
                "bench", data=[query], anns_field="v", limit=k, filter=condition, search_params=parameters
            )[0]

        return search

    def rows_of(self, answered: Any) -> list[int]:
        return [int(hit["number"]) for hit in answered]

    def size(self) -> int:
        if self._file.is_file():
            return self._file.stat().st_size
        return sum(path.stat().st_size for path in self._file.rglob("*") if path.is_file())

    def close(self) -> None:
        self._client.close()
