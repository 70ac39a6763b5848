"""Fingerprints: every member of a document counts, and rows in columns have those of their documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, Heading
from aidre.ingest.chunking import Chunker
from aidre.ingest.formats.tables.parquet import read_parquet
from aidre.ingest.pipeline.fingerprint import columnar_fingerprints, fingerprint, same_text, settings_digest
from aidre.ingest.records.batch import RowBatch
from aidre.ingest.records.file import File
from aidre.ingest.records.vectors import VectorRules
from tests.support.ingests import BROUGHT, SCALED, WORDS

SETTINGS = settings_digest([WORDS], Chunker())
DOCUMENT = Document("a", "words", "T", vectors={"s": np.ones(3, np.float32)}, metadata={"n": 1, "o": 2})
CHANGES: list[dict[str, Any]] = [
    {"text": "Words"},
    {"title": None},
    {"url": "https://x.org"},
    {"updated_at": "2026-04-01T00:00:00Z"},
    {"type": "Article"},
    {"section": "S"},
    {"canonical": False},
    {"metadata": {"n": 1}},
    {"semantic_payload": {"k": 1}},
    {"schema_object": {"@type": "Thing"}},
    {"vectors": {"s": np.array([1, 1, 2], np.float32)}},
    {"vectors": {"t": np.ones(3, np.float32)}},
    {"vectors": None},
    {"headings": (Heading(0, 1, "T"),)},
    {"verbatim": ((0, 5),)},
]


@pytest.mark.parametrize("change", CHANGES, ids=["-".join(change) for change in CHANGES])
def test_every_member_that_is_stored_counts(change: dict[str, Any]) -> None:
    before, after = fingerprint(DOCUMENT, SETTINGS), fingerprint(replace(DOCUMENT, **change), SETTINGS)
    assert before != after
    assert same_text(before, after) == ("text" not in change)


def test_the_id_the_source_and_the_order_of_metadata_do_not_count() -> None:
    other = replace(DOCUMENT, id="b", source="src", origin="a.md", metadata={"o": 2, "n": 1})
    assert fingerprint(other, SETTINGS) == fingerprint(DOCUMENT, SETTINGS)


def test_a_payload_that_is_the_object_is_told_from_an_equal_one_and_from_none() -> None:
    thing = {"@type": "Thing"}
    documents = [
        replace(DOCUMENT, schema_object=thing, semantic_payload=thing),
        replace(DOCUMENT, schema_object=thing, semantic_payload=None),
        replace(DOCUMENT, schema_object=None, semantic_payload=thing),
    ]
    assert len({fingerprint(each, SETTINGS) for each in documents}) == 3


def test_the_settings_are_spaces_with_their_revisions_and_the_chunking() -> None:
    given = [
        settings_digest([WORDS], Chunker()),
        settings_digest([replace(WORDS, revision="next")], Chunker()),
        settings_digest([WORDS, BROUGHT], Chunker()),
        settings_digest([WORDS], Chunker(target=50)),
    ]
    assert len(set(given)) == len({fingerprint(DOCUMENT, each) for each in given}) == 4
    assert settings_digest([BROUGHT, WORDS], Chunker()) == given[2]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"text": "\ud800"}, "surrogate"), ({"metadata": {"a": object()}}, "cannot be written as JSON")],
)
def test_a_document_that_cannot_be_written_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidDocument, match=reason):
        fingerprint(replace(DOCUMENT, **change), SETTINGS)


@pytest.mark.slow
def test_rows_in_columns_have_the_fingerprints_of_their_documents(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "text": "é€😀", "title": "T", "url": "https://x.org", "updated_at": "2026-04-01", "n": 1, "a": "x"},
        {"id": "b", "text": "", "section": "S", "type": "Article", "n": None, "a": '"\\\n'},
        {"id": "c", "text": "words", "n": -5},
    ]
    vectors = {"brought": [0.5, -1.0, 2.0, 3.0], "scaled": [1.0, 0.0, 0.0, 0.0]}
    pq.write_table(pa.Table.from_pylist([row | {"vectors": vectors} for row in rows]), tmp_path / "r.parquet")
    found = list(read_parquet(File(tmp_path / "r.parquet", "src", "r.parquet"), VectorRules([BROUGHT, SCALED], [])))
    (batch,) = found
    assert isinstance(batch, RowBatch)
    documents = [document for _, document in batch.documents()]
    assert [each.id for each in documents] == ["a", "b", "c"]
    assert columnar_fingerprints(batch, SETTINGS) == [fingerprint(each, SETTINGS) for each in documents]
