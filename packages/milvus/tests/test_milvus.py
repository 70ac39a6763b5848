"""Milvus that goes away, refuses or was written by another release, `aidre_milvus`: one clear error, nothing half
visible, no text of a filter in an expression, no password in any message."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine import Address, open_source
from aidre.engine.errors import BackendUnavailable, ConfigurationError, FormatTooNew, StoreLocked
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Query
from aidre.engine.ports import Sink, Source
from tests import ROOT
from tests.support.clients import AGENTS, a_document, fill_source, serving
from tests.support.engines import MILVUS, MILVUS_VARIABLE, milvus_uri
from tests.support.forwarders import Forwarder
from tests.support.publishers import platform_of
from tests.support.stores import NAME, record, space_of

pytest.importorskip("pymilvus")
from aidre_milvus import catalog, server as server_module, writer as writer_module
from aidre_milvus.expressions import Expressions, literal
from aidre_milvus.stored import MilvusRows
from aidre_milvus.tables import FORMAT

pytestmark = pytest.mark.skipif(MILVUS is None, reason=f"no Milvus is named by {MILVUS_VARIABLE}: see `make scale`")

SPACE = space_of("cosine", 4)


@pytest.fixture
def uri() -> Iterator[str]:
    with milvus_uri() as made:
        yield made


@pytest.fixture
def store(uri: str, tmp_path: Path) -> Source:
    return open_source(tmp_path, Address("milvus", uri))


@pytest.fixture
def forwarder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forwarder]:
    """Between the tests and the server; calls to a server that is gone end soon."""
    for name in ("_SECONDS", "_WRITE_SECONDS", "_WORK_SECONDS"):
        monkeypatch.setattr(server_module, name, 4.0 if name != "_WORK_SECONDS" else 30.0)
    made = Forwarder(int(str(MILVUS).rpartition(":")[2]))
    yield made
    made.stop()


def through(forwarder: Forwarder, uri: str) -> str:
    return f"milvus://127.0.0.1:{forwarder.port}?{uri.partition('?')[2]}"


def put(sink: Sink, *names: str, **members: Any) -> None:
    vectors = np.array([[len(name), 1, 0, 0] for name in names], np.float32)
    sink.upsert([record(name, **members) for name in names], {SPACE.id: sink.encode(SPACE.id, vectors)}, {})


def filled(store: Source, *names: str) -> Source:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, *names)
        sink.commit()
    return store


def stored(store: Source) -> list[str]:
    return [chunk.document_id for chunk in store.open(NAME).scan()]


def rows_in(sink: Any) -> list[int]:
    """The rows of documents and chunks and those of spaces, visible or not; words have as many as a space."""
    found = [sink._server.count(name, "row >= 0", strong=True) for name in sink._numbered]
    spaces = len(sink._spaces)
    assert not sink._has_words or found[-1] == found[1]
    return found[: 1 + spaces]


# -- commits that fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["rows", "space", "count", "record"])
def test_a_server_that_goes_away_in_a_commit_leaves_nothing_half_visible(
    store: Source, uri: str, forwarder: Forwarder, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    filled(store, "a", "b")
    reader, mark = store.open(NAME), store.mark(NAME)
    call, publish = server_module.MilvusDatabase.call, catalog.MilvusCatalog.publish
    began: list[str] = []

    def cutting_call(self: Any, method: str, *arguments: Any, **options: Any) -> Any:
        name = str(arguments[0]) if arguments else ""
        told = f"{method} {name} {options.get('filter', '')}"
        if began and {"rows": "insert" in told and "_rows" in told, "space": "insert" in told and "_space" in told,
                      "count": "query" in told and "born ==" in told}.get(step):  # fmt: skip
            began.clear()
            if step != "count":
                call(self, method, *arguments, **options)  # the rows arrive, the answer does not
            forwarder.stop()
        return call(self, method, *arguments, **options)

    def cutting_publish(self: Any, *arguments: Any) -> None:
        if began and step == "record":
            began.clear()
            forwarder.stop()
        publish(self, *arguments)

    monkeypatch.setattr(server_module.MilvusDatabase, "call", cutting_call)
    monkeypatch.setattr(catalog.MilvusCatalog, "publish", cutting_publish)
    away = open_source(store.path, Address("milvus", through(forwarder, uri)))
    with away.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "b", "c", "d")
        sink.delete(["a"])
        began.append(step)
        with pytest.raises(BackendUnavailable):
            sink.commit()
        assert not began
        assert (stored(store), store.mark(NAME)) == (["a", "b"], mark)
        assert len(reader.search(Query([1, 1, 0, 0], SPACE.id, 9))) == 2
        forwarder.start()
        result = sink.commit()
        assert result is not None and (result.generation, result.documents) == (2, 3)
        assert stored(store) == ["b", "c", "d"]
        sink.compact()
        assert rows_in(sink) == [6, 3]
    assert stored(store) == ["b", "c", "d"]


KILLED = """
import os, signal, sys
from pathlib import Path
from aidre.engine import Address, open_source
from aidre_milvus.catalog import Catalog
sys.path.append(sys.argv[3])
from test_milvus import NAME, SPACE, put

with open_source(Path(sys.argv[1]), Address("milvus", sys.argv[2])).writer(NAME, spaces=[SPACE]) as sink:
    put(sink, "b", "c", "d")
    sink.delete(["a"])
    Catalog.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    sink.commit()
"""


def test_a_writer_that_is_killed_leaves_nothing_to_be_seen_and_the_next_one_sweeps(store: Source, uri: str) -> None:
    filled(store, "a", "b")
    command = [sys.executable, "-c", KILLED, str(store.path), uri, str(Path(__file__).parent)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    assert stored(store) == ["a", "b"]
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "e")
        result = sink.commit()
        assert result is not None and (result.generation, result.documents) == (2, 3)
        assert rows_in(sink) == [6, 3]
    assert stored(store) == ["a", "b", "e"]
    assert len(store.open(NAME).search(Query([1, 1, 0, 0], SPACE.id, 9))) == 3


def test_a_first_commit_that_fails_makes_no_collection(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "a")
        with monkeypatch.context() as patched:
            patched.setattr(catalog.MilvusCatalog, "publish", lost)
            with pytest.raises(BackendUnavailable):
                sink.commit()
        assert (store.collections(), sink.snapshot) == ([], None)
        sink.commit()
        assert rows_in(sink) == [2, 1]
    assert stored(store) == ["a"]


def lost(*_: Any, **__: Any) -> None:
    raise BackendUnavailable("the server does not answer", backend="milvus", address="", reason="lost")


def test_a_commit_whose_answer_is_lost_took_place_once(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store, "a")
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "b")
        with monkeypatch.context() as patched:
            patched.setattr(catalog.MilvusCatalog, "settle", lost)
            result = sink.commit()
        assert result is not None and result.generation == 2
        assert sink.commit() is None
        put(sink, "c")
        with monkeypatch.context() as patched:

            def lost_for_good(*_: Any) -> None:
                patched.setattr(catalog.MilvusCatalog, "newest", lost)
                lost()

            patched.setattr(catalog.MilvusCatalog, "settle", lost_for_good)
            with pytest.raises(BackendUnavailable, match="is not known: write again"):
                sink.commit()
        put(sink, "d")
        result = sink.commit()
        assert result is not None and (result.generation, result.documents) == (4, 4)
    assert stored(store) == ["a", "b", "c", "d"]


def test_rows_that_arrive_after_their_commit_failed_are_not_seen(
    store: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store, "a")
    with store.writer(NAME, spaces=[SPACE]) as sink:
        inner: Any = sink
        late: list[tuple[str, Any]] = []
        insert = server_module.MilvusDatabase.insert

        def delayed(self: Any, name: str, rows: Any) -> None:
            late.append((name, rows))
            lost()

        put(sink, "b")
        with monkeypatch.context() as patched:
            patched.setattr(server_module.MilvusDatabase, "insert", delayed)
            with pytest.raises(BackendUnavailable):
                sink.commit()
        sink.commit()
        for name, rows in late:
            insert(inner._server, name, rows)
            inner._server.count(name, "row >= 0", strong=True)
    reader = store.open(NAME)
    assert ([chunk.document_id for chunk in reader.scan()], reader.count_documents()) == (["a", "b"], 2)
    assert reader.count_documents(parse_filter({"document_id": "b"})) == 1


def test_a_writer_elsewhere_is_noticed(store: Source, uri: str, tmp_path: Path) -> None:
    filled(store, "a")
    elsewhere = open_source(tmp_path / "of another machine", Address("milvus", uri))
    with store.writer(NAME, spaces=[SPACE]) as sink, elsewhere.writer(NAME, spaces=[SPACE]) as other:
        put(sink, "b")
        put(other, "c")
        other.commit()
        with pytest.raises(StoreLocked, match="written by another process"):
            sink.commit()
    assert stored(store) == ["a", "c"]


def test_a_record_beside_another_one_is_withdrawn(
    store: Source, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store, "a")
    elsewhere = open_source(tmp_path / "of another machine", Address("milvus", uri))
    publish = catalog.MilvusCatalog.publish
    with store.writer(NAME, spaces=[SPACE]) as sink, elsewhere.writer(NAME, spaces=[SPACE]) as other:
        put(sink, "b")
        other.set_source_root("s", "/there")

        def after_the_other(self: Any, *arguments: Any) -> None:
            monkeypatch.setattr(catalog.MilvusCatalog, "publish", publish)
            other.commit()
            publish(self, *arguments)

        monkeypatch.setattr(catalog.MilvusCatalog, "publish", after_the_other)
        with pytest.raises(StoreLocked, match="written by another process"):
            sink.commit()
    with store.writer(NAME, spaces=None) as sink:
        assert sink.source_roots() == {"s": "/there"}


def test_graphs_are_waited_for_once_after_many_chunks(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    build = writer_module.MilvusWriter._build_graphs

    def noted(self: Any) -> None:
        waits.append(self._name)
        build(self)

    monkeypatch.setattr(writer_module.MilvusWriter, "_build_graphs", noted)
    names = [f"d{number}" for number in range(writer_module._MIN_GRAPH_ROWS)]
    filled(store, *names)
    assert len(waits) == 1
    generation = store.open(NAME).generation
    for name in ("e1", "e2"):
        filled(store, name)
    assert len(waits) == 1
    assert (store.open(NAME).generation, store.open(NAME).documents) == (generation + 2, len(names) + 2)
    monkeypatch.setattr(writer_module, "_MIN_GRAPH_ROWS", 3)
    filled(store, "e3")
    assert len(waits) == 2


def test_many_deleted_documents_are_removed_at_once(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "_MOST_LISTED", 2)
    filled(store, "a", "b", "c", "d")
    before, mark = store.open(NAME), store.mark(NAME)
    with store.writer(NAME, spaces=[SPACE]) as sink:
        sink.delete(["a"])
        sink.commit()
        assert [chunk.document_id for chunk in before.scan()] == ["a", "b", "c", "d"]
        assert rows_in(sink) == [8, 4]
        put(sink, "b")
        sink.delete(["c", "d"])
        sink.commit()
        assert rows_in(sink) == [2, 1]
    reader = store.open(NAME)
    assert ([chunk.document_id for chunk in reader.scan()], reader.generation) == (["b"], 3)
    assert store.mark(NAME) != mark


# -- values --------------------------------------------------------------------------------------------------------

HOSTILE = (
    *('" or 1 == 1 or "', "' or 1==1 --", "\\", '\\" or row >= 0', "%", "a%b_", "]) or (row in [1", "nul\0", "\u2028"),
    *("x" * 5_000, "ключ", "\U0001f600", "{}", "row", "tokens", "$meta"),
)


def test_no_text_of_a_filter_comes_into_an_expression(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "plain", metadata={"kind": "plain"})
        for number, text in enumerate(HOSTILE):
            put(sink, f"d{number}", metadata={"kind": text, text: number})
        sink.commit()
    reader = store.open(NAME)
    for number, text in enumerate(HOSTILE):
        for written, expected in (
            ({"kind": text}, {f"d{number}"}),
            ({"kind": {"in": [text, "plain"]}}, {f"d{number}", "plain"}),
            ({text: {"gte": number}}, {f"d{number}"}),
            ({"kind": {"contains": text}}, {f"d{n}" for n, other in enumerate(HOSTILE) if text in other}),
        ):
            filter_ = parse_filter(written)
            made = Expressions(has_wide=True).of(filter_)
            for expression in made:
                assert re.fullmatch(r'[A-Za-z0-9_\-\[\](),"<>=* ]*', expression), expression
            hits = reader.search(Query([1, 1, 0, 0], SPACE.id, 30, filter=filter_))
            assert {hit.document_id for hit in hits} == expected, written
            assert reader.count(filter_) == len(expected)


def test_a_literal_is_one_token_whatever_it_holds() -> None:
    assert literal('a" or "\\') == r'"a\" or \"\\"'
    assert literal([1, "x"]) == '[1,"x"]'


def test_documents_of_any_size_are_kept_and_found(store: Source) -> None:
    values = [f"v{number}" for number in range(6_000)]
    text = "".join(map(chr, np.random.default_rng(3).integers(0x4E00, 0x9FFF, 150_000)))
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "wide", metadata={"many": values, "n": 1})
        put(sink, "small", metadata={"many": ["v1"], "n": 2})
        sink.upsert(
            [record("long", [text, "short"], semantic_payload={"of": text}, metadata={"n": 3})],
            {SPACE.id: sink.encode(SPACE.id, np.array([[4, 1, 0, 0], [5, 1, 0, 0]], np.float32))},
            {},
        )
        sink.commit()
        [found], _, _ = sink.stored_records(["long"])
        assert [chunk.text for chunk in found.chunks] == [text, "short"]
    reader = store.open(NAME)
    for written, expected in (
        ({"many": "v5999"}, ["wide"]),
        ({"many": "v1"}, ["wide", "small"]),
        ({"many": {"ne": "v5999"}}, ["small", "long"]),
        ({"n": {"gt": 1}}, ["small", "long"]),
        ({"not": {"many": {"contains": "599"}}}, ["small", "long"]),
    ):
        chunks = [chunk for chunk in reader.scan(parse_filter(written)) if chunk.id.endswith("#chunk_1")]
        assert [chunk.document_id for chunk in chunks] == expected, written
    first, second = reader.document("long")
    assert (first.text, second.text, first.json_payload) == (text, "short", second.json_payload)
    assert reader.search(Query([4, 1, 0, 0], SPACE.id, 1))[0].text == text
    assert first.json_payload is not None and text in first.json_payload.decode()


# -- servers -------------------------------------------------------------------------------------------------------


def test_a_server_that_goes_away_is_one_error_over_http_until_it_is_back(
    uri: str, tmp_path: Path, forwarder: Forwarder, caplog: pytest.LogCaptureFixture
) -> None:
    source = open_source(tmp_path, Address("milvus", through(forwarder, uri)))
    fill_source(source, "docs", [a_document("tea", "green tea"), a_document("rye", "rye bread")])
    with serving(tmp_path, AGENTS, source=source) as client:
        assert client.search({"query": "tea", "top_k": 1}).json()["results"][0]["id"] == "tea#chunk_1"
        forwarder.stop()
        client.refresh()
        platform = platform_of(client)
        answers = [
            client.search({"query": "tea"}),
            client.get("/chunks/tea%23chunk_1"),
            client.request("POST", "/ask", json={"query": {"text": "tea"}}),
        ]
        for answer in answers:
            assert (answer.status_code, answer.headers.get("retry-after")) == (503, "5"), answer.text
            assert "milvus" not in answer.text.lower()
        assert platform.retrieve(platform.request("tea", domain="of.docs"))["status"] == "error"
        assert [client.get(path).status_code for path in ("/healthz", "/metrics")] == [200, 200]
        forwarder.start()
        client.refresh()
        assert client.search({"query": "tea", "top_k": 1}).json()["results"][0]["id"] == "tea#chunk_1"
    assert any("Milvus at" in one.message for one in caplog.records if one.levelno >= logging.ERROR)


def test_a_server_that_goes_away_in_a_search_is_an_error(
    store: Source, uri: str, forwarder: Forwarder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two requests of which a search consists where texts are too long to be beside their vectors."""
    with store.writer(NAME, spaces=[SPACE]) as sink:
        long = np.random.default_rng(1).bytes(9_000).hex()
        vectors = sink.encode(SPACE.id, np.array([[1, 1, 0, 0]], np.float32))
        sink.upsert([record("a", [long])], {SPACE.id: vectors}, {})
        sink.commit()
    reader: Any = open_source(store.path, Address("milvus", through(forwarder, uri))).open(NAME)
    whole = MilvusRows.whole

    def cut(self: Any, numbers: Any) -> Any:
        forwarder.stop()
        return whole(self, numbers)

    with monkeypatch.context() as patched:
        patched.setattr(MilvusRows, "whole", cut)
        with pytest.raises(BackendUnavailable, match="does not answer"):
            reader.search(Query([1, 1, 0, 0], SPACE.id, 1))
    forwarder.start()
    assert [hit.document_id for hit in reader.search(Query([1, 1, 0, 0], SPACE.id, 1))] == ["a"]


def test_wrong_addresses_are_errors_without_the_password(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for uri, error, word in (
        ("milvus://me:s3cret@127.0.0.1:1/there", BackendUnavailable, "127.0.0.1:1/there does not answer"),
        ("milvus://me:s3cret@nowhere.invalid", BackendUnavailable, "nowhere.invalid:19530 does not answer"),
        ("milvus://me:s3cret@host:port", ConfigurationError, "is not an address of Milvus"),
        ("http://me:s3cret@host", ConfigurationError, "is not an address of Milvus"),
        ("milvus://me:s3cret@host?unknown=1", ConfigurationError, "is not an address of Milvus"),
        ("milvus://me:s3cret@host?store=a-b", ConfigurationError, "store must be"),
    ):
        with pytest.raises(error, match=word) as refused:
            open_source(tmp_path, Address("milvus", uri)).collections()
        assert "s3cret" not in str(refused.value) + repr(refused.value.details)
        assert "s3cret" not in "".join(traceback.format_exception(refused.value))
    assert "s3cret" not in caplog.text


def test_a_collection_of_a_newer_release_is_refused(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, "a")
        sink.commit()
        inner: Any = sink
        commit = inner._stored_commit
        newer = replace(commit.state, format=FORMAT + 1, token="newer")
        inner._publish(replace(commit, serial=commit.serial + 1, state=newer))
    with pytest.raises(FormatTooNew, match=f"'docs' has format {FORMAT + 1}"):
        store.open(NAME)
    with pytest.raises(FormatTooNew):
        store.writer(NAME, spaces=[SPACE])


def test_a_reader_of_a_collection_that_was_dropped_fails_clearly(store: Source) -> None:
    reader = filled(store, "a").open(NAME)
    store.drop(NAME)
    with pytest.raises(BackendUnavailable, match=r"Milvus at .* failed") as refused:
        reader.search(Query([1, 1, 0, 0], SPACE.id, 1))
    assert refused.value.details["reason"] == "absent"


def test_two_stores_on_one_server_are_apart(store: Source, tmp_path: Path) -> None:
    filled(store, "a")
    with milvus_uri() as uri:
        other = open_source(tmp_path / "other", Address("milvus", uri))
        assert other.collections() == []
        filled(other, "b")
        assert (stored(store), stored(other)) == (["a"], ["b"])
        other.drop(NAME)
        assert stored(store) == ["a"]
