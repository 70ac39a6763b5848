"""Synthetic vectors with the structure of text embeddings, texts of words by a power law, and Parquet files.

A row is a point of a Gaussian mixture (2,000 centres in 48 latent dimensions, unit variance) under a fixed random
projection to d dimensions, plus noise, normalized to unit length: like sentence embeddings, the data have a low
intrinsic dimension, so near neighbours exist. The rows of a block depend only on the seed and the number of the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

LATENT = 48
CENTRES = 2_000
BLOCK = 50_000
"""Rows generated at once."""
WORDS = 30
"""Of a text of `rows_of`."""

_NOISE = 0.15
_SPREAD = 1.2


def blocks(rows: int, dimensions: int, seed: int = 5) -> Iterator[NDArray[np.float32]]:
    """`rows` unit vectors in blocks of BLOCK, each of shape (n, dimensions)."""
    world = np.random.default_rng(seed)
    projection = world.standard_normal((LATENT, dimensions)).astype(np.float32) / np.sqrt(np.float32(LATENT))
    centres = world.standard_normal((CENTRES, LATENT)).astype(np.float32) * np.float32(_SPREAD)
    for number, start in enumerate(range(0, rows, BLOCK)):
        rng = np.random.default_rng([seed, number])
        count = min(BLOCK, rows - start)
        latent = centres[rng.integers(0, CENTRES, count)] + rng.standard_normal((count, LATENT), dtype=np.float32)
        points = latent @ projection
        points += np.float32(_NOISE) * rng.standard_normal(points.shape, dtype=np.float32)
        yield points / np.linalg.norm(points, axis=1, keepdims=True)


def vectors(rows: int, dimensions: int, seed: int = 5) -> NDArray[np.float32]:
    return np.concatenate(list(blocks(rows, dimensions, seed)))


def queries(count: int, dimensions: int, seed: int = 5) -> NDArray[np.float32]:
    """Held-out points of the same mixture, from a block number beyond any data set."""
    rng = np.random.default_rng([seed, 1 << 31])
    world = np.random.default_rng(seed)
    projection = world.standard_normal((LATENT, dimensions)).astype(np.float32) / np.sqrt(np.float32(LATENT))
    centres = world.standard_normal((CENTRES, LATENT)).astype(np.float32) * np.float32(_SPREAD)
    latent = centres[rng.integers(0, CENTRES, count)] + rng.standard_normal((count, LATENT), dtype=np.float32)
    points = latent @ projection + np.float32(_NOISE) * rng.standard_normal((count, dimensions), dtype=np.float32)
    unit: NDArray[np.float32] = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    return unit


def write_parquet(path: Path, rows: int, dimensions: int, space: str) -> None:
    """Writes the Parquet columns that `aidre ingest` reads: id, title, text, url, metadata, vectors."""
    vector = pa.list_(pa.float32(), dimensions)
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("title", pa.string()),
            ("text", pa.string()),
            ("url", pa.string()),
            ("metadata", pa.struct([("year", pa.int32()), ("language", pa.string())])),
            ("vectors", pa.struct([(space, vector)])),
        ]
    )
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        first = 0
        for block in blocks(rows, dimensions):
            numbers = range(first, first + len(block))
            years = pa.array([1990 + number % 36 for number in numbers], pa.int32())
            languages = pa.array([("en", "de", "tr", "zh")[number % 4] for number in numbers])
            column = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), dimensions)
            columns = [
                pa.array([f"row-{number:08d}" for number in numbers]),
                pa.array([f"Row {number}" for number in numbers]),
                pa.array([f"A short passage about thing {number}, with a few words behind it." for number in numbers]),
                pa.array([f"https://example.com/rows/{number}" for number in numbers]),
                pa.StructArray.from_arrays([years, languages], ["year", "language"]),
                pa.StructArray.from_arrays([column], [space]),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            first += len(block)


def rows_of(first: int, count: int) -> pa.Table:
    """Rows as a table: texts of words by a power law, and two fields."""
    rng = np.random.default_rng([3, first])
    ranks = np.minimum(rng.zipf(1.3, (count, WORDS)), 200_000)
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"row-{number:08d}" for number in numbers],
            "text": [" ".join(f"w{rank}" for rank in row) for row in ranks.tolist()],
            "year": pa.array([1990 + number % 36 for number in numbers], pa.int32()),
            "language": [("en", "de", "tr", "zh")[number % 4] for number in numbers],
        }
    )
