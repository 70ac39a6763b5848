"""Every engine keeps what its writer commits, and nothing else: the members of `Sink`, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.errors import (
    CollectionMissing,
    DimensionMismatch,
    InvalidDocument,
    InvalidInput,
    InvalidVector,
    Missing,
    SpaceConflict,
    SpaceMissing,
    StoreLocked,
)
from aidre.engine.model import EmbeddingSpace, EncodedVectors, Query, Record
from aidre.engine.ports import Reader, Sink, Source
from aidre.engine.types import CommitResult, RetrievedChunk
from tests.support.stores import DISTANCES, NAME, record, space_of

SPACE = EmbeddingSpace("with a model", 4, "cosine", model="hashing", revision="1")
KEYS = [bytes([number]) * 16 for number in range(1, 9)]


def rows_of(*numbers: int) -> NDArray[np.float32]:
    return np.array([[number, 1, 0, 0] for number in numbers], np.float32).reshape(-1, 4)


def put(sink: Sink, records: Sequence[Record], vectors: NDArray[np.float32], keys: Sequence[bytes] = ()) -> None:
    for space in sink.spaces:
        sink.upsert(records, {space: sink.encode(space, vectors, for_upsert=True)}, {space: keys} if keys else {})


def ids_of(reader: Reader) -> list[str]:
    return [chunk.id for chunk in reader.scan()]


def test_a_commit_makes_a_generation(store: Source) -> None:
    assert store.mark(NAME) is None
    with store.writer(NAME, spaces=[SPACE], description="Two", visibility="private", dates=["day"]) as sink:
        assert sink.snapshot is None
        assert sink.commit() is None
        put(sink, [record("a"), record("b", ["one", "two"], url="https://example.com/")], rows_of(1, 2, 3))
        assert sink.pending_bytes > 0
        assert sink.commit() == CommitResult(1, 2, 3)
        assert sink.pending_bytes == 0
        assert (sink.commit(), sink.is_commit_done, sink.wait_for_commit()) == (None, True, None)
        assert sink.snapshot is not None and ids_of(sink.snapshot) == ["a#chunk_1", "b#chunk_1", "b#chunk_2"]
    reader = store.open(NAME)
    assert (reader.documents, reader.chunks, reader.dates) == (2, 3, ("day",))
    assert (reader.collection.description, reader.collection.visibility) == ("Two", "private")
    assert reader.status()["documents_without_url"] == 1


def test_a_mark_differs_after_each_commit(store: Source) -> None:
    marks = set()
    for number in range(3):
        with store.writer(NAME, spaces=[SPACE]) as sink:
            put(sink, [record(f"d{number}")], rows_of(number))
            sink.commit()
        marks.add(store.mark(NAME))
    store.drop(NAME)
    assert store.collections() == []
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("d0")], rows_of(0))
        sink.commit()
    assert len(marks | {store.mark(NAME)}) == 4


def test_a_document_replaces_that_with_its_id(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("a", ["old", "older"]), record("b")], rows_of(1, 2, 3))
        sink.commit()
        put(sink, [record("a", ["first"])], rows_of(4))
        put(sink, [record("a", ["new"]), record("c")], rows_of(5, 6))
        assert sink.commit() == CommitResult(2, 3, 3)
    reader = store.open(NAME)
    assert [chunk.text for chunk in reader.document("a")] == ["new"]
    assert reader.get("a#chunk_2") is None
    assert reader.chunk_counts() == {1: 3}
    [hit] = reader.search(Query([5, 1, 0, 0], SPACE.id, 1))
    assert hit.document_id == "a"


def test_a_deleted_document_is_gone_when_that_is_committed(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record(name) for name in "abc"], rows_of(1, 2, 3))
        sink.commit()
        put(sink, [record("d"), record("a", ["again"])], rows_of(4, 5))
        assert sink.delete(["a", "b", "d", "absent"]) == 3
        assert sink.delete(["a", "b", "d", "absent"]) == 0
        assert store.open(NAME).documents == 3
        assert sink.fingerprints(["a", "c", "d"]) == [None, record("c").fingerprint, None]
        assert sink.commit() == CommitResult(2, 1, 1)
        assert sink.delete(["c"]) == 1
        put(sink, [record("c", ["back"])], rows_of(7))
        sink.commit()
    reader = store.open(NAME)
    assert [chunk.text for chunk in reader.scan()] == ["back"]
    assert [hit.document_id for hit in reader.search(Query([1, 1, 0, 0], SPACE.id, 5))] == ["c"]


def test_what_is_withdrawn_before_a_commit_needs_none(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("a")], rows_of(1))
        sink.commit()
        put(sink, [record("b")], rows_of(2))
        assert sink.delete(["b", "b"]) == 1
        assert sink.commit() is None
        put(sink, [record("a", ["again"])], rows_of(3))
        assert sink.delete(["a"]) == 1
        assert sink.commit() == CommitResult(2, 0, 0)


def test_what_is_stored_or_pending_is_told(store: Source) -> None:
    given: dict[str, Any] = {"source": "wiki", "origin": "a.md", "state": {"etag": "x"}}
    with store.writer(NAME, spaces=[SPACE]) as sink:
        first, second = record("a", **given), record("b", updated_at="2020-01-01T00:00:00Z")
        put(sink, [first, second], rows_of(1, 2))
        assert sink.fingerprints(["b", "x", "a"]) == [second.fingerprint, None, first.fingerprint]
        sink.commit()
        assert sink.updated_at(["b", "x"]) == ["2020-01-01T00:00:00Z", None]
        assert list(sink.documents_of("wiki")) == [("a", "a.md")]
        assert list(sink.states_of("wiki")) == [("a.md", b'{"etag":"x"}')]
        assert list(sink.documents_of("absent")) == []
        changed = record("b", ["changed"])
        put(sink, [changed], rows_of(3))
        assert sink.fingerprints(["b"]) == [changed.fingerprint]


def test_vectors_are_found_again_by_their_keys(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("a"), record("b")], rows_of(1, 2), KEYS[:2])
        found, vectors = sink.reuse(SPACE.id, [KEYS[1], KEYS[5], bytes(16)])
        assert found.tolist() == [True, False, False]
        sink.commit()
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("c")], rows_of(3), KEYS[2:3])
        found, vectors = sink.reuse(SPACE.id, [KEYS[2], bytes(16), KEYS[0], KEYS[5]])
        assert found.tolist() == [True, False, True, False]
        assert vectors.codes[[0, 2]].tolist() == sink.encode(SPACE.id, rows_of(3, 1)).codes.tolist()
        assert not vectors.codes[1].any() and vectors.norms[0] == pytest.approx(10**0.5)


def test_stored_records_are_as_an_upsert_took_them(store: Source) -> None:
    given = record(
        "a",
        ["one", "two"],
        title="T",
        url="https://e.org/",
        type="Article",
        canonical=False,
        metadata={"z": 1, "a": [1.5, "x"]},
        semantic_payload={"p": None},
        schema_object={"@type": "Thing"},
        source="s",
        origin="o",
        state={"etag": "1"},
    )
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("b"), given], rows_of(1, 2, 3), KEYS[:3])
        sink.commit()
        [found], vectors, keys = sink.stored_records(["a"])
        with pytest.raises(Missing, match="'x'"):
            sink.stored_records(["a", "x"])
        assert found == replace_text(given)
        assert (vectors[SPACE.id].codes == sink.encode(SPACE.id, rows_of(2, 3)).codes).all()
        assert keys[SPACE.id] == KEYS[1:3]
        sink.upsert([found], vectors, keys)
        sink.commit()
        assert sink.stored_records(["a"])[0] == [found]


def replace_text(given: Record) -> Record:
    """Stored documents have no text beside that of their chunks."""
    return given._replace(document=replace(given.document, text=""))


def test_sources_are_remembered(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        sink.set_source_root("wiki", "/wiki")
        sink.set_source_state("https://e.org/feed", {"etag": "1"})
        sink.commit()
    with store.writer(NAME, spaces=None) as sink:
        assert sink.source_roots() == {"wiki": "/wiki"}
        assert sink.source_states() == {"https://e.org/feed": {"etag": "1"}}
        sink.set_source_root("wiki", "/wiki")
        assert sink.commit() is None
        sink.forget_source("e.org/feed")
        sink.forget_source("wiki")
        assert sink.commit() is not None
        assert (sink.source_roots(), sink.source_states()) == ({}, {})


def test_what_cannot_be_stored_is_refused(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        with pytest.raises(DimensionMismatch):
            sink.encode(SPACE.id, np.ones((1, 3), np.float32))
        with pytest.raises(InvalidVector) as refused:
            sink.encode(SPACE.id, np.zeros((2, 4), np.float32))
        assert refused.value.details["row"] == 0
        with pytest.raises(InvalidDocument, match="'a' has no chunks"):
            put(sink, [record("a")._replace(chunks=())], rows_of())
        with pytest.raises(InvalidInput, match="got 0 vectors"):
            sink.upsert([record("a")], {}, {})
        assert sink.commit() is None


@pytest.mark.parametrize("distance", DISTANCES)
def test_hits_are_ordered_by_score_and_id(store: Source, distance: Any) -> None:
    space = space_of(distance, 3)
    vectors = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [2, 1, 0], [-1, 0, 0]], np.float32)
    with store.writer(NAME, spaces=[space]) as sink:
        put(sink, [record(name) for name in "cadbe"], vectors)
        sink.commit()
    reader = store.open(NAME)
    hits = reader.search(Query([1, 0, 0], space.id, 10))
    expected = scores_of(distance, vectors)
    assert [hit.document_id for hit in hits] == sorted("cadbe", key=lambda name: (-expected["cadbe".index(name)], name))
    assert [hit.score for hit in hits] == pytest.approx(sorted(expected, reverse=True), abs=1e-6)
    for hit in hits:
        assert hit.chunk.vectors()[space.id] == pytest.approx(vectors["cadbe".index(hit.document_id)])
    with pytest.raises(SpaceMissing):
        reader.search(Query([1, 0, 0], "absent", 1))
    with pytest.raises(DimensionMismatch):
        reader.search(Query([1, 0], space.id, 1))
    with pytest.raises(InvalidInput):
        reader.search(Query([1, 0, 0], space.id, 0))


def scores_of(distance: str, vectors: NDArray[np.float32]) -> list[float]:
    """Of the query (1, 0, 0)."""
    if distance == "euclidean":
        return [-float(np.linalg.norm(vector - np.array([1, 0, 0]))) for vector in vectors]
    return [float(vector[0] / (np.linalg.norm(vector) if distance == "cosine" else 1)) for vector in vectors]


def test_a_query_beyond_the_stored_precision_is_answered(store: Source) -> None:
    space = EmbeddingSpace("half", 2, "dot", precision="float16")
    with store.writer(NAME, spaces=[space]) as sink:
        put(sink, [record("a"), record("b")], np.array([[1, 0], [0, 1]], np.float32))
        sink.commit()
    hits = store.open(NAME).search(Query([1e9, 2e9], space.id, 2))
    assert [(hit.document_id, hit.score) for hit in hits] == [("b", 2e9), ("a", 1e9)]


def test_several_spaces_are_searched_apart(store: Source) -> None:
    spaces = [space_of("cosine", 2), space_of("euclidean", 3)]
    with store.writer(NAME, spaces=spaces) as sink:
        given = np.array([[1, 0], [0, 1]], np.float32), np.array([[0, 0, 9], [0, 0, 1]], np.float32)
        vectors = {space.id: sink.encode(space.id, rows) for space, rows in zip(spaces, given, strict=True)}
        sink.upsert([record("a"), record("b")], vectors, {})
        sink.commit()
    reader = store.open(NAME)
    assert reader.search(Query([1, 0], spaces[0].id, 1))[0].document_id == "a"
    assert reader.search(Query([0, 0, 0], spaces[1].id, 1))[0].document_id == "b"
    assert set(reader.document("a")[0].vectors()) == {space.id for space in spaces}


def test_one_writer_writes_at_a_time(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("a")], rows_of(1))
        sink.commit()
        with pytest.raises(StoreLocked, match="is being written by process") as refused:
            store.writer(NAME, spaces=[SPACE]).__enter__()
        assert isinstance(refused.value.details["pid"], int)
        with pytest.raises(StoreLocked):
            store.drop(NAME)
        with store.writer("another", spaces=[SPACE]):
            pass
    with store.writer(NAME, spaces=[SPACE]):
        pass


def test_a_writer_that_fails_leaves_nothing(store: Source) -> None:
    def write_and_fail() -> None:
        with store.writer(NAME, spaces=[SPACE]) as sink:
            put(sink, [record("a")], rows_of(1))
            raise KeyError

    with pytest.raises(KeyError):
        write_and_fail()
    assert store.mark(NAME) is None
    with pytest.raises(CollectionMissing):
        store.open(NAME)
    with pytest.raises(CollectionMissing):
        store.writer(NAME, spaces=None)
    with pytest.raises(CollectionMissing):
        store.drop(NAME)


def test_other_spaces_than_the_stored_ones_are_refused(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("a")], rows_of(1))
        sink.commit()
    for spaces in ([replace(SPACE, dimensions=5)], [SPACE, space_of("dot")], []):
        with pytest.raises(SpaceConflict):
            store.writer(NAME, spaces=spaces)
    with store.writer(NAME, spaces=None) as sink:
        assert list(sink.spaces) == [SPACE.id]


def test_a_space_of_another_revision_is_embedded_again(store: Source) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record("a", ["one", "two"]), record("b")], rows_of(1, 2, 3), KEYS[:3])
        sink.commit()
    revised = replace(SPACE, revision="2", precision="float16")
    with store.writer(NAME, spaces=[revised], runtimes={SPACE.id: "another"}) as sink:
        assert list(sink.stale_spaces) == [SPACE.id]
        with pytest.raises(SpaceConflict, match="another revision"):
            put(sink, [record("c")], rows_of(9))

        def recompute(chunks: Sequence[RetrievedChunk]) -> tuple[EncodedVectors, Sequence[bytes]]:
            sink.reuse(SPACE.id, KEYS[7:])
            numbers = {"a#chunk_1": 5, "a#chunk_2": 6, "b#chunk_1": 7}
            encoded = sink.encode(SPACE.id, rows_of(*(numbers[chunk.id] for chunk in chunks)))
            return encoded, [KEYS[numbers[chunk.id]] for chunk in chunks]

        sink.reembed({SPACE.id: recompute})
        assert not sink.stale_spaces
        assert sink.reuse(SPACE.id, [KEYS[6], KEYS[0]])[0].tolist() == [True, False]
        put(sink, [record("c")], rows_of(9))
        sink.commit()
    reader = store.open(NAME)
    assert reader.collection.spaces[0].revision == "2"
    assert [hit.chunk.id for hit in reader.search(Query([6, 1, 0, 0], SPACE.id, 1))] == ["a#chunk_2"]
    assert reader.status()["spaces"][0]["runtime"] == "another"


@pytest.mark.parametrize("work", ["compact", "purge", "finish"])
def test_upkeep_changes_no_answer(store: Source, work: str) -> None:
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record(name) for name in "abcd"], rows_of(1, 2, 3, 4))
        sink.commit()
        put(sink, [record("a", ["replaced"])], rows_of(9))
        sink.delete(["b"])
        getattr(sink, work)()
        assert sink.commit() is None
    reader = store.open(NAME)
    assert sorted(chunk.document_id for chunk in reader.scan()) == ["a", "c", "d"]
    assert [[chunk.id for chunk in reader.scan(start=start)] for start in range(5)] == [
        ids_of(reader)[start:] for start in range(5)
    ]
    assert reader.search(Query([9, 1, 0, 0], SPACE.id, 1))[0].text == "replaced"


def test_strings_are_kept_whatever_they_hold(store: Source) -> None:
    odd = "nul \0 quote ' \\ percent %s \x7f \u2028 \U0001f600"
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record(odd, [odd], title=odd, metadata={odd: odd}, source=odd)], rows_of(1))
        sink.commit()
        assert list(sink.documents_of(odd)) == [(odd, "")]
    [chunk] = store.open(NAME).document(odd)
    assert (chunk.text, chunk.title, chunk.metadata, chunk.document_id) == (odd, odd, {odd: odd}, odd)


def test_long_names_are_kept_apart(store: Source) -> None:
    long = "x" * 8_000
    with store.writer(NAME, spaces=[SPACE]) as sink:
        put(sink, [record(long + "a", metadata={long + "1": long}), record(long + "b")], rows_of(1, 2))
        sink.commit()
        assert sink.fingerprints([long]) == [None]
    reader = store.open(NAME)
    assert [chunk.document_id for chunk in reader.document(long + "b")] == [long + "b"]


def test_collections_are_dropped_one_by_one(store: Source) -> None:
    for name in ("one", "two"):
        with store.writer(name, spaces=[SPACE]) as sink:
            put(sink, [record("a")], rows_of(1))
            sink.commit()
    lineage = store.open("one").lineage
    store.drop("one")
    assert store.collections() == ["two"]
    with store.writer("one", spaces=[SPACE]) as sink:
        put(sink, [record("b")], rows_of(2))
        sink.commit()
    assert store.open("one").lineage != lineage
    assert ids_of(store.open("two")) == ["a#chunk_1"]
