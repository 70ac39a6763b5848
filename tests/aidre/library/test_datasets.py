"""Datasets become collections, `aidre/library/datasets.py`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import aidre
from aidre.library.datasets import BATCH_ROWS
from tests.aidre.library.conftest import SMALL, letters


class Dataset:
    """What is used of a dataset of Hugging Face."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.format = ""

    def with_format(self, name: str) -> Dataset:
        self.format = name
        return self

    def iter(self, batch_size: int) -> Iterator[pa.Table]:
        assert self.format == "arrow"
        for start in range(0, self.table.num_rows, batch_size):
            yield self.table.slice(start, batch_size)


def papers(rows: int = 5) -> Dataset:
    table = {
        "doi": [f"10.1/{row}" for row in range(rows)],
        "abstract": [f"abstract a{row}" for row in range(rows)],
        "year": list(range(2000, 2000 + rows)),
        "tags": [["x", f"t{row}"] for row in range(rows)],
        "seen": [datetime(2026, 1, 1)] * rows,
        "image": [{"bytes": b"x"}] * rows,
        "id": list(range(rows)),
        "embedding": [[float(row), 1.0] for row in range(rows)],
    }
    return Dataset(pa.table(table))


def test_columns_become_text_id_vectors_and_metadata(tmp_path: Path) -> None:
    docs = aidre.from_dataset(papers(), tmp_path, "papers", text="abstract", id="doi", vectors="embedding")
    assert docs["10.1/2"].text == "abstract a2"
    assert docs["10.1/2"].metadata == {"year": 2002, "tags": ["x", "t2"], "seen": "2026-01-01T00:00:00Z"}
    assert docs.search(vector=[4.0, 1.0], k=1)[0].document_id == "10.1/4"
    assert [space.id for space in docs.spaces] == ["embedding"]
    again = aidre.from_dataset(papers(), tmp_path, "papers", text="abstract", id="doi", vectors="embedding")
    assert len(again) == 5


def test_without_vectors_the_texts_are_embedded_and_ids_are_made_of_the_content(tmp_path: Path) -> None:
    for _ in range(2):
        docs = aidre.from_dataset(
            papers(), tmp_path, "papers", text="abstract", metadata=["year"], space=SMALL, embed=letters
        )
        assert len(docs) == 5
    assert all(set(one.metadata) == {"year"} for one in docs.scan())


def test_a_large_dataset_is_read_in_batches(tmp_path: Path) -> None:
    rows = 2 * BATCH_ROWS + 7
    docs = aidre.from_dataset(papers(rows), tmp_path, "papers", text="abstract", id="doi", vectors="embedding")
    assert len(docs) == rows
    assert aidre.from_dataset(Dataset(pa.table({"text": pa.array([], pa.string())})), tmp_path, "none").count() == 0


@pytest.mark.parametrize(
    ("dataset", "options", "said"),
    [
        (papers(), {}, "no column 'text'"),
        (papers(), {"text": "abstract", "vectors": "vector"}, "no column 'vector'"),
        (papers(), {"text": "abstract", "vectors": "tags"}, "something else than numbers"),
        ({"train": papers()}, {}, "choose one of its splits"),
        ([1], {}, "not list"),
        (papers(), {"text": "abstract", "metadata": ["id"]}, "cannot be metadata"),
        (
            Dataset(pa.table({"text": ["a", "b"], "v": [[1.0], [1.0, 2.0]]})),
            {"vectors": "v"},
            "one vector of one length",
        ),
        (Dataset(pa.table({"text": ["a", "b"], "v": [[1.0], None]})), {"vectors": "v"}, "one vector of one length"),
    ],
)
def test_a_misuse_is_one_error(tmp_path: Path, dataset: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(aidre.InvalidInput, match=said):
        aidre.from_dataset(dataset, tmp_path, "papers", **options)
    assert not any(tmp_path.iterdir())


def test_what_was_stored_under_a_relative_path_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    docs = aidre.from_dataset(papers(), "store", "papers", text="abstract", id="doi", vectors="embedding")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(docs) == 5
