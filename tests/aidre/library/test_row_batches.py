"""Tables and plain rows with vectors are stored by columns: the same documents as row by row."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import aidre
from aidre.ingest.pipeline import DocumentWriter
from aidre.library import row_batches

SPACE = aidre.EmbeddingSpace("mine", 2, "cosine")
ALWAYS, NEVER = 1, 1 << 60


@contextmanager
def from_rows(least: int) -> Iterator[mock.Mock]:
    """Rows are stored by columns from so many on; counts the batches that were."""
    write = DocumentWriter.write_columns
    with (
        mock.patch.object(row_batches, "MIN_COLUMNAR_ROWS", least),
        mock.patch.object(DocumentWriter, "write_columns", autospec=True, side_effect=write) as counted,
    ):
        yield counted


def vectors_of(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    angles = np.arange(count, dtype=np.float32)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def outcome(least: int, rows: Any, vectors: Any) -> tuple[Any, ...]:
    """The ids, or the error; what is stored; and whether the other way finds it unchanged."""
    with tempfile.TemporaryDirectory() as place, aidre.open(place) as db:
        docs = db.collection("docs", space=SPACE)
        try:
            with from_rows(least):
                ids = docs.add(rows, vectors=vectors)
        except aidre.AidreError as error:
            return error.code, error.message, error.details, len(docs)
        stored = [(one, (one.vectors or {})["mine"].tolist()) for one in docs.scan(vectors=True)]
        shown = [
            (one.id, one.text, one.title, one.url, one.type, one.metadata, list(one.metadata), vector)
            for one, vector in stored
        ]
        sections = {hit.document_id: hit.chunk.section for hit in docs.search(vector=[1, 0], k=100)}
        with from_rows(NEVER if least == ALWAYS else ALWAYS):
            generation = docs.generation
            docs.add(rows, vectors=vectors)
        return ids, sorted(shown, key=repr), sections, docs.generation == generation


def both(rows: Any, vectors: Any) -> None:
    assert outcome(ALWAYS, rows, vectors) == outcome(NEVER, rows, vectors)


TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["", " ", "\x1c", "alpha beta", 'quote " \\ \n', "\u2028é"]))
DATES = st.sampled_from(["2026-04-01", "2026-04-01T10:00:00+02:00", "no date", ""])
MEMBERS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "id": (st.one_of(st.sampled_from(["a", "b", "c"]), st.text(max_size=4)), pa.string()),
    "title": (TEXTS, pa.large_string()),
    "url": (TEXTS, pa.string()),
    "type": (TEXTS, pa.string()),
    "section": (TEXTS, pa.string()),
    "updated_at": (DATES, pa.string()),
    "price": (st.integers(-(1 << 63), (1 << 63) - 1), pa.int64()),
    "weight": (st.floats(width=64), pa.float64()),
    "is_new": (st.booleans(), pa.bool_()),
    "name": (TEXTS, pa.string()),
    "when": (st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), pa.timestamp("us")),
    "day": (st.dates(), pa.date32()),
    "tags": (st.lists(TEXTS, max_size=2), pa.list_(pa.string())),
    "size": (
        st.fixed_dictionaries({"w": st.integers(0, 9), "u": TEXTS}),
        pa.struct({"w": pa.int8(), "u": pa.string()}),
    ),
    "metadata": (st.sampled_from(["{}", '{"b":1,"a":2}', "no JSON", "[1]"]), pa.string()),
    "content_hash": (TEXTS, pa.string()),
    "canonical": (st.booleans(), pa.bool_()),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 5))
    names = draw(st.permutations(sorted(draw(st.sets(st.sampled_from(sorted(MEMBERS)), max_size=5)))))
    arrays = {}
    for name in [*names, "text"]:
        values, kind = (TEXTS, pa.string()) if name == "text" else MEMBERS[name]
        nullable = st.one_of(st.none(), values) if draw(st.booleans()) else values
        arrays[name] = pa.array(draw(st.lists(nullable, min_size=count, max_size=count)), kind)
    return pa.table(arrays)


@settings(max_examples=60)
@given(tables())
def test_a_table_gives_the_same_documents_both_ways(table: pa.Table) -> None:
    both(table, vectors_of(table.num_rows))


PLAIN = st.one_of(st.none(), TEXTS, st.integers(-(1 << 70), 1 << 70), st.floats(), st.booleans())


@st.composite
def mappings(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Mostly of the same members and types."""
    count = draw(st.integers(1, 5))
    chosen = sorted(draw(st.sets(st.sampled_from(["id", "title", "url", "price", "weight", "is_new", "name"]))))
    rows = [{"text": draw(TEXTS)} | {name: draw(MEMBERS[name][0]) for name in chosen} for _ in range(count)]
    if draw(st.booleans()):
        row = draw(st.sampled_from(rows))
        row[draw(st.sampled_from([*row, "more", "metadata", "vectors"]))] = draw(PLAIN)
    return rows


@settings(max_examples=60)
@given(mappings())
def test_plain_mappings_give_the_same_documents_both_ways(rows: list[dict[str, Any]]) -> None:
    both(rows, vectors_of(len(rows)))


@settings(max_examples=20)
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_give_the_same_documents_both_ways(texts: list[str]) -> None:
    both(texts, vectors_of(len(texts)))


ROWS = [{"id": f"d{n}", "text": f"text {n}", "price": n, "name": "é"} for n in range(5)]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        tuple(ROWS),
        iter(ROWS),
        (row for row in ROWS),
        pa.Table.from_pylist(ROWS),
        [{**row, "price": float(n)} for n, row in enumerate(ROWS)],
        [{"text": row["text"]} for row in ROWS],
        [row["text"] for row in ROWS],
    ],
    ids=["list", "tuple", "iterator", "generator", "table", "floats", "without ids", "texts"],
)
def test_what_is_plain_is_stored_by_columns(db: aidre.Database, rows: Any) -> None:
    docs = db.collection("docs", space=SPACE)
    with from_rows(ALWAYS) as counted:
        ids = docs.add(rows, vectors=vectors_of(5))
    assert counted.call_count == 1
    assert [one.text for one in docs.get(ids) if one is not None] == [f"text {n}" for n in range(5)]


@pytest.mark.parametrize(
    "rows",
    [
        [*ROWS[:4], {**ROWS[4], "price": True}],
        [*ROWS[:4], {**ROWS[4], "price": 4.0}],
        [*ROWS[:4], {**ROWS[4], "price": None}],
        [*ROWS[:4], {**ROWS[4], "price": Decimal("4.5")}],
        [*ROWS[:4], {**ROWS[4], "more": 1}],
        [*ROWS[:4], dict(reversed(ROWS[4].items()))],
        [*ROWS[:4], "text 4"],
        [*ROWS[:4], aidre.Document("d4", "text 4")],
        [{**row, "weight": Decimal("0.5")} for row in ROWS],
    ],
)
def test_what_columns_would_change_is_stored_row_by_row(db: aidre.Database, rows: Any) -> None:
    docs = db.collection("docs", space=SPACE)
    with from_rows(ALWAYS) as counted:
        docs.add(rows, vectors=vectors_of(5))
    assert counted.call_count == 0
    both(rows, vectors_of(5))


def test_few_rows_go_the_general_way(db: aidre.Database) -> None:
    docs = db.collection("docs", space=SPACE)
    with from_rows(6) as counted:
        docs.add(ROWS, vectors=vectors_of(5))
    assert (counted.call_count, len(docs)) == (0, 5)


def test_of_two_rows_with_one_id_the_later_is_kept(db: aidre.Database) -> None:
    rows = [{"id": name, "text": f"{name} {n}"} for n, name in enumerate("abab")]
    docs = db.collection("docs", space=SPACE)
    with from_rows(ALWAYS) as counted:
        assert docs.add(rows, vectors=vectors_of(4)) == ["a", "b", "a", "b"]
    assert counted.call_count == 1
    assert {one.id: one.text for one in docs.scan()} == {"a": "a 2", "b": "b 3"}
    both(rows, vectors_of(4))


def test_a_table_of_several_batches_keeps_rows_and_vectors_together(db: aidre.Database) -> None:
    count = 11
    table = pa.concat_tables([pa.table({"id": [f"d{n}"], "text": [f"text {n}"]}) for n in range(count)])
    docs = db.collection("docs", space=SPACE)
    with mock.patch.object(row_batches, "BATCH_ROWS", 4), from_rows(ALWAYS) as counted:
        docs.add(table, vectors=vectors_of(count))
    assert counted.call_count == 3
    for number, vector in enumerate(vectors_of(count)):
        assert docs.search(vector=vector, k=1)[0].document_id == f"d{number}"


@pytest.mark.parametrize(
    "vectors",
    [
        vectors_of(4),
        vectors_of(6),
        np.ones((5, 3), np.float32),
        np.zeros((5, 2), np.float32),
        np.full((5, 2), np.nan, np.float32),
        {"mine": vectors_of(5), "other": vectors_of(5)},
        {"other": vectors_of(5)},
    ],
)
def test_vectors_that_do_not_fit_are_refused_alike(vectors: Any) -> None:
    both(ROWS, vectors)


def test_more_fields_than_a_collection_can_have_are_refused_alike() -> None:
    with mock.patch("aidre.ingest.pipeline.record_builder.MAX_FIELDS", 1):
        both(ROWS, vectors_of(5))


def test_an_unchanged_text_keeps_its_date_and_an_unchanged_row_is_not_written(db: aidre.Database) -> None:
    docs = db.collection("docs", space=SPACE)
    with from_rows(ALWAYS):
        docs.add([{**row, "updated_at": "2020-01-01"} for row in ROWS], vectors=vectors_of(5))
        docs.add([{**ROWS[0], "price": 9}, *ROWS[1:]], vectors=vectors_of(5))
        generation = docs.generation
        docs.add([{**ROWS[0], "price": 9}, *ROWS[1:]], vectors=vectors_of(5))
    assert docs.generation == generation
    assert {one.updated_at for one in docs.scan()} == {"2020-01-01T00:00:00Z"}
    assert docs["d0"].metadata["price"] == 9


def test_a_null_of_a_table_is_a_missing_member_at_any_depth(db: aidre.Database) -> None:
    table = pa.table(
        {
            "id": ["a", "b"],
            "text": ["one", "two"],
            "price": [1, None],
            "size": [{"w": 1, "h": None}, None],
            "at": pa.array([datetime(2026, 4, 1, 10, tzinfo=UTC), None], pa.timestamp("ns", "UTC")),
            "day": [date(2026, 4, 1), None],
        }
    )
    docs = db.collection("docs", space=SPACE)
    for least in (ALWAYS, NEVER):
        with from_rows(least):
            docs.add(table, vectors=vectors_of(2))
        a = {"price": 1, "size": {"w": 1}, "at": "2026-04-01T10:00:00Z", "day": "2026-04-01"}
        assert (docs["a"].metadata, docs["b"].metadata) == (a, {})
    assert docs.generation == 1


class Frame:
    """All that pandas, polars and others have in common."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("strings", [pa.string(), pa.large_string(), pa.string_view(), "dictionary"])
def test_whatever_exports_a_stream_of_arrow_is_a_table(db: aidre.Database, strings: Any) -> None:
    table = pa.Table.from_pylist(ROWS)
    kind = pa.dictionary(pa.int32(), pa.string()) if strings == "dictionary" else strings
    cast = {name: table[name].cast(kind) if name != "price" else table[name] for name in table.column_names}
    docs = db.collection("docs", space=SPACE)
    with from_rows(ALWAYS) as counted:
        docs.add(Frame(pa.table(cast)), vectors=vectors_of(5))
    assert counted.call_count == 1
    assert docs["d3"].metadata == {"price": 3, "name": "é"}


@pytest.mark.parametrize("wrong", [{"metadata": "{}"}, {1: "x"}, {"text": 7}, {"id": ""}, {"title": True}])
def test_what_is_refused_row_by_row_is_refused_alike(wrong: dict[Any, Any]) -> None:
    both([{**row, **wrong} for row in ROWS], vectors_of(5))
    assert isinstance(outcome(ALWAYS, [{**row, **wrong} for row in ROWS], vectors_of(5))[0], str)
