"""Every engine behind the seam answers alike, apart from the capabilities that it says it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.embedding import load_embedder
from aidre.engine.errors import CollectionMissing, Unsupported
from aidre.engine.index.fields import parse_filter
from aidre.engine.maintenance import list_generations, verify
from aidre.engine.model import Query
from aidre.engine.ports import Capabilities, Reader, Source
from aidre.engine.retrieve import Question, State, answer, run
from aidre.ingest.pipeline import drop_space
from tests.support.clients import TEXT
from tests.support.dict_engine import DictReader, DictSource, plain_chunk
from tests.support.engines import WRITABLE, store_of
from tests.support.stores import NAME, record

RECORDS = [
    record("a", ["green tea from Assam. ", "black tea from Ceylon"], title="Tea", url="https://example.com/a"),
    record("b", ["coffee from Ethiopia"], metadata={"kind": "coffee", "größe": 3}, section="Drinks", type="Article"),
    record("c", ["water 水"], canonical=False, semantic_payload={"litres": [1, 2]}, schema_object={"@type": "Thing"}),
    record("d", ["juice", "\n", "of apples"], schema_object={"@type": "Recipe", "name": "Juice"}),
]
ENGINES = (*WRITABLE, "dict")


def vectors_of(texts: list[str]) -> NDArray[np.float32]:
    return load_embedder(TEXT).embed_documents(texts)


@pytest.fixture(scope="module", params=ENGINES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """A store of the engine with all records, which no test changes."""
    folder = tmp_path_factory.mktemp("store")
    if request.param == "dict":
        yield DictSource(folder, [DictReader(NAME, RECORDS, TEXT)])
        return
    with store_of(request.param, folder) as filled:
        with filled.writer(NAME, spaces=[TEXT]) as writer:
            vectors = vectors_of([chunk.text for one in RECORDS for chunk in one.chunks])
            writer.upsert(RECORDS, {TEXT.id: writer.encode(TEXT.id, vectors)}, {})
            writer.commit()
        yield filled


@pytest.fixture
def reader(source: Source) -> Reader:
    return source.open(NAME)


def query_of(text: str, **members: object) -> Query:
    [vector] = load_embedder(TEXT).embed_queries([text])
    return Query(vector, TEXT.id, **members)  # type: ignore[arg-type]


def test_collections_are_named_marked_and_opened(source: Source) -> None:
    assert source.collections() == [NAME]
    assert source.mark(NAME) == source.mark(NAME) is not None
    assert source.open(NAME, previous=source.open(NAME)).lineage == source.open(NAME).lineage
    with pytest.raises(CollectionMissing):
        source.open("absent")


def test_the_nearest_chunks_come_first(reader: Reader) -> None:
    first, second = reader.search_all([query_of("tea from Assam", top_k=2), query_of("coffee", top_k=2)])
    assert [hit.chunk.id for hit in first] == ["a#chunk_1", "a#chunk_2"]
    assert second[0].chunk.document_id == "b"
    assert [hit.chunk.id for hit in reader.search(query_of("tea from Assam", top_k=1, offset=1))] == ["a#chunk_2"]


def test_hits_by_document_are_the_best_chunks_with_the_others_beside_them(reader: Reader) -> None:
    [vector] = load_embedder(TEXT).embed_queries(["tea from Assam"])
    question = Question(2, vector=vector, space=TEXT.id, group="document")
    found = run(answer(question, State(reader)), lambda space, text: vector)
    first, second = found.hits
    assert (first.chunk.id, second.chunk.document_id != "a") == ("a#chunk_1", True)
    assert found.passages is not None
    assert [one.chunk.id for one in found.passages[0]] == ["a#chunk_2"]
    everything = run(answer(question._replace(top_k=9), State(reader)), lambda space, text: vector)
    assert sorted(hit.chunk.document_id for hit in everything.hits) == ["a", "b", "c", "d"]
    assert sum(map(len, everything.passages or ())) == 3
    coffee = question._replace(top_k=9, filter=parse_filter({"kind": "coffee"}))
    [hit] = run(answer(coffee, State(reader)), lambda space, text: vector).hits
    assert hit.chunk.document_id == "b"


def test_a_filter_selects_chunks(reader: Reader) -> None:
    coffee = parse_filter({"kind": "coffee"})
    assert (reader.count(), reader.count(coffee)) == (7, 1)
    hits = reader.search(query_of("tea", filter=coffee))
    if reader.can.complete_filters:
        assert [hit.chunk.document_id for hit in hits] == ["b"]
    assert reader.unknown_fields(parse_filter({"or": [{"absent": 1}, {"kind": "tea"}]})) == ("absent",)


def test_scores_are_those_of_the_whole_vectors(reader: Reader) -> None:
    if not reader.can.exact_scores:
        pytest.skip("the engine declares that its scores are not exact")
    [hit] = reader.search(query_of("juice", top_k=1))
    [query], [vector] = load_embedder(TEXT).embed_queries(["juice"]), vectors_of([hit.chunk.text])
    assert hit.score == pytest.approx(float(query @ vector), abs=1e-3)


def test_chunks_are_those_that_were_written(reader: Reader) -> None:
    for one in RECORDS:
        chunks = reader.document(one.document.id)
        assert [chunk.id for chunk in chunks] == [chunk.id for chunk in one.chunks]
        for position, chunk in enumerate(chunks):
            written = plain_chunk(one, position, {})
            assert chunk.fragments == written.fragments
            assert chunk.passage[1:] == written.passage[1:]
            for name in PLAIN:
                assert getattr(chunk, name) == getattr(written, name), name
            assert chunk.vectors()[TEXT.id] == pytest.approx(vectors_of([chunk.text])[0], abs=1e-3)
            again = reader.get(chunk.id)
            assert again is not None and again.document_key == chunks[0].document_key == chunk.passage[0]
    assert reader.document("absent") == []
    assert reader.get("absent#chunk_1") is None


PLAIN = (
    "id", "text", "span", "section", "content_hash", "document_chunk_count", "document_digests", "document_id", "url",
    "title", "type", "updated_at", "metadata", "json_payload", "schema_object",
)  # fmt: skip


def test_counts_agree(reader: Reader) -> None:
    status = reader.status()
    assert (reader.documents, reader.chunks) == (status["documents"], status["chunks"]) == (4, 7)
    assert reader.chunk_counts() == {1: 2, 2: 1, 3: 1}
    assert status["documents_without_url"] == 3
    assert status["spaces"][0]["id"] == TEXT.id
    assert reader.collection.spaces == (status_space(reader),)


def status_space(reader: Reader) -> object:
    return next(space for space in reader.collection.spaces if space.id == reader.status()["spaces"][0]["id"])


def test_what_an_engine_lacks_it_refuses_by_name(reader: Reader) -> None:
    if reader.can == Capabilities(*[True] * len(fields(Capabilities))):
        assert reader.changes(None, 10).changes
        assert "kind" in reader.fields()
        return
    calls: list[Callable[[], object]] = [lambda: reader.changes(None, 10), reader.fields]
    if not reader.can.lexical:
        calls.append(lambda: reader.search(Query(None, None, text="tea", mode="lexical")))
    for call in calls:
        with pytest.raises(Unsupported) as refused:
            call()
        assert not getattr(reader.can, refused.value.details["capability"])


def test_work_on_files_needs_local_segments(tmp_path: Path) -> None:
    source = DictSource(tmp_path, [DictReader(NAME, RECORDS, TEXT)])
    with pytest.raises(Unsupported, match="no local segments"):
        verify.verify(source)
    with pytest.raises(Unsupported, match="no local segments"):
        list_generations(source, NAME)
    with pytest.raises(Unsupported, match="no local segments"):
        drop_space(source, NAME, TEXT.id)


def test_a_reader_that_knows_its_words_repairs_and_completes_texts(reader: Reader) -> None:
    if reader.can.words:
        assert (reader.corrected("coffeee from Asam"), reader.corrected("coffee")) == ("coffee from Assam", None)
        assert reader.completions("green cof", 3) == ["green coffee"]
        return
    for ask in (lambda: reader.corrected("coffeee"), lambda: reader.completions("cof", 3)):
        with pytest.raises(Unsupported) as refused:
            ask()
        assert refused.value.details["capability"] == "words"
