"""For tests of tables: rows written in each format, and the items that are read from them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from aidre.engine.model import Document, EmbeddingSpace
from aidre.ingest.formats.tables.json_lines import read_json_lines
from aidre.ingest.formats.tables.parquet import read_parquet
from aidre.ingest.records.batch import RowBatch
from aidre.ingest.records.file import File
from aidre.ingest.records.mapping import ColumnMapping, Mappings, parse_column_mapping
from aidre.ingest.records.source_items import Item, Rejected
from aidre.ingest.records.vectors import VectorRules

SPACES = [EmbeddingSpace("s", 3, "cosine"), EmbeddingSpace("d", 2, "dot")]


RULES = VectorRules(SPACES, [])


def lines(tmp_path: Path, content: bytes) -> list[Item]:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    return list(read_json_lines(File(path, "src", "r.jsonl", "https://base/r.jsonl"), RULES))


def table(tmp_path: Path, columns: dict[str, Any], **options: Any) -> list[Item]:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table(columns), path, **options)
    found = read_parquet(File(path, "src", "r.parquet"), RULES)
    return [one for each in found for one in (each.documents() if isinstance(each, RowBatch) else [each])]


def from_json(tmp_path: Path, rows: Sequence[dict[str, Any]]) -> list[Item]:
    return lines(tmp_path, b"\n".join(map(orjson.dumps, rows)))


def from_parquet(tmp_path: Path, rows: Sequence[dict[str, Any]]) -> list[Item]:
    names = dict.fromkeys(name for row in rows for name in row)
    return table(tmp_path, {name: [row.get(name) for row in rows] for name in names})


def documents(found: Sequence[Item]) -> list[Document]:
    assert not [each for each in found if isinstance(each, Rejected)]
    return [each[1] for each in found if isinstance(each, tuple)]


def where(each: Item) -> str:
    """The place that a document or a failure is named by."""
    if isinstance(each, tuple):
        return each[0]
    assert isinstance(each, Rejected)
    return each.where


def one(found: Sequence[Item]) -> Document:
    (document,) = documents(found)
    return document


def reason(found: Sequence[Item]) -> str:
    (rejected,) = found
    assert isinstance(rejected, Rejected)
    assert "\n" not in rejected.reason
    return rejected.reason


Row = Mapping[str, Any]


Format = Callable[[Path, Sequence[Row]], None]


def as_csv(path: Path, rows: Sequence[Row]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    for row in rows:
        writer.writerow({name: v if type(v) is str else orjson.dumps(v).decode() for name, v in row.items()})
    path.with_suffix(".csv").write_text(text.getvalue())


def as_lines(path: Path, rows: Sequence[Row]) -> None:
    path.with_suffix(".jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))


def as_json(path: Path, rows: Sequence[Row]) -> None:
    path.with_suffix(".json").write_bytes(orjson.dumps(rows))


def as_parquet(path: Path, rows: Sequence[Row]) -> None:
    names = dict.fromkeys(name for row in rows for name in row)
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path.with_suffix(".parquet"))


def mapping(**table: Any) -> ColumnMapping:
    made = parse_column_mapping(table, "m")
    assert made is not None
    return made


def mappings(**table: Any) -> Mappings:
    return Mappings(others=mapping(**table))
