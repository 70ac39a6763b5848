"""The vectors that rows bring: lengths, types, values, and the faults of single rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from aidre.ingest.records.source_items import Rejected
from tests.support.rows import from_json, one, table


def test_a_vector_whose_square_is_out_of_range_is_read(tmp_path: Path) -> None:
    document = one(from_json(tmp_path, [{"id": "a", "vectors": {"d": [1e30, -2.5]}}]))
    assert document.vectors is not None
    assert document.vectors["d"].tolist() == np.array([1e30, -2.5], np.float32).tolist()


def test_bad_vectors_of_a_batch_fail_row_by_row(tmp_path: Path) -> None:
    vectors = [[1.0, 2.0], [1.0], [float("nan"), 1.0], [float("inf"), 1.0], [0.0, 0.0]]
    column = pa.array([{"d": vector} for vector in vectors])
    found = table(tmp_path, {"id": list("abcde"), "vectors": column})
    failed = {each.where: each.reason for each in found if isinstance(each, Rejected)}
    assert sorted(failed) == ["r.parquet:2", "r.parquet:3", "r.parquet:4"]
    assert "1 numbers" in failed["r.parquet:2"] and "finite" in failed["r.parquet:3"]
