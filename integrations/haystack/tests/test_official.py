"""Haystack's own suites over the document store, and its retrievers in a pipeline."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from aidre_haystack import AidreDocumentStore, AidreEmbeddingRetriever, AidreKeywordRetriever, AidreServerRetriever
from haystack import Pipeline
from haystack.dataclasses import ByteStream, Document, SparseEmbedding
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing.document_store import (
    CountDocumentsByFilterTest,
    CountUniqueMetadataByFilterTest,
    DocumentStoreBaseExtendedTests,
    GetMetadataFieldMinMaxTest,
    GetMetadataFieldsInfoTest,
    GetMetadataFieldUniqueValuesTest,
)
from haystack.testing.document_store_async import (
    CountDocumentsAsyncTest,
    CountDocumentsByFilterAsyncTest,
    CountUniqueMetadataByFilterAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    GetMetadataFieldMinMaxAsyncTest,
    GetMetadataFieldsInfoAsyncTest,
    GetMetadataFieldUniqueValuesAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
)

import aidre


@pytest.fixture
def document_store(tmp_path: Path) -> AidreDocumentStore:
    return AidreDocumentStore(tmp_path / "store")


class EqualToFloat32:
    """Vectors are kept as float32; all else is compared as it is."""

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert [one.id for one in received] == [one.id for one in expected]
        for one, other in zip(received, expected, strict=True):
            assert (one.embedding is None) == (other.embedding is None)
            if one.embedding is not None:
                assert one.embedding == pytest.approx(other.embedding, rel=1e-6)
            left, right = one.to_dict(flatten=False), other.to_dict(flatten=False)
            assert {**left, "embedding": None, "score": None} == {**right, "embedding": None, "score": None}


class TestAidreDocumentStore(
    EqualToFloat32,
    DocumentStoreBaseExtendedTests,
    CountDocumentsByFilterTest,
    CountUniqueMetadataByFilterTest,
    GetMetadataFieldsInfoTest,
    GetMetadataFieldMinMaxTest,
    GetMetadataFieldUniqueValuesTest,
):
    @pytest.fixture
    def document_store(self, tmp_path: Path) -> AidreDocumentStore:
        return AidreDocumentStore(tmp_path / "store")

    def test_write_documents(self, document_store: AidreDocumentStore) -> None:
        """The default policy is FAIL."""
        assert document_store.write_documents([Document(id="1")]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([Document(id="1")])


class TestAidreDocumentStoreAsync(
    EqualToFloat32,
    CountDocumentsAsyncTest,
    CountDocumentsByFilterAsyncTest,
    CountUniqueMetadataByFilterAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    GetMetadataFieldMinMaxAsyncTest,
    GetMetadataFieldsInfoAsyncTest,
    GetMetadataFieldUniqueValuesAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
):
    @pytest.fixture
    def document_store(self, tmp_path: Path) -> AidreDocumentStore:
        return AidreDocumentStore(tmp_path / "store")

    async def test_write_documents_async(self, document_store: AidreDocumentStore) -> None:
        """The default policy is FAIL."""
        assert await document_store.write_documents_async([Document(id="1")]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([Document(id="1")])


def test_everything_that_a_document_has_comes_back(document_store: AidreDocumentStore) -> None:
    documents = [
        Document(
            content=None, meta={"a": None, "n": {"x": [1, 1.0, True]}}, blob=ByteStream(b"\x00\xff", mime_type="x/y")
        ),
        Document(content="  padded \n", meta={"updated_at": "whenever", "visibility": 7, "haystack": "mine"}),
        Document(content="", sparse_embedding=SparseEmbedding([1, 5], [0.5, 0.25])),
        Document(content="zeros", embedding=[0.0] * 768),
        Document(content="ones", embedding=[1.0] * 768, meta={"haystack_without": "?"}),
    ]
    document_store.write_documents(documents)
    EqualToFloat32.assert_documents_are_equal(document_store.filter_documents(), documents)
    nearest = AidreEmbeddingRetriever(document_store).run([1.0] * 768)["documents"]
    assert [one.content for one in nearest] == ["ones"]  # the others have no direction
    reserved = {"field": "meta.updated_at", "operator": "==", "value": "whenever"}
    assert [one.content for one in document_store.filter_documents(reserved)] == ["  padded \n"]


def test_retrievers_rank_filter_and_are_made_again_from_their_description(document_store: AidreDocumentStore) -> None:
    documents = [
        Document(
            content=f"soup number {number}",
            embedding=[1.0, number] + [0.0] * 766,
            meta={"number": number, "day": f"2026-01-{number + 1:02}"},
        )
        for number in range(20)
    ]
    document_store.write_documents(documents)
    over = {"field": "meta.number", "operator": ">", "value": 4}
    pipeline = Pipeline()
    pipeline.add_component("near", AidreEmbeddingRetriever(document_store, filters=over, top_k=3))
    pipeline.add_component("words", AidreKeywordRetriever(document_store, top_k=4))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["aidre_haystack.*"])
    for one in (pipeline, again):
        found = one.run({"near": {"query_embedding": [1.0] + [0.0] * 767}, "words": {"query": "soup"}})
        assert [document.meta["number"] for document in found["near"]["documents"]] == [5, 6, 7]
        scores = [document.score for document in found["near"]["documents"]]
        assert scores == sorted(scores, reverse=True)
        assert len(found["words"]["documents"]) == 4
    late = {"field": "meta.day", "operator": ">=", "value": "2026-01-19"}  # a date: Haystack judges, aidre ranks
    near = AidreEmbeddingRetriever(document_store, filters=late).run([1.0] + [0.0] * 767)["documents"]
    assert [document.meta["number"] for document in near] == [18, 19]


def test_misuse_is_named(document_store: AidreDocumentStore) -> None:
    with pytest.raises(DocumentStoreError, match="set embedding_dim"):
        document_store.write_documents([Document(content="x", embedding=[1.0])])
    with pytest.raises(FilterError):
        document_store.filter_documents({"field": "meta.a", "operator": "~", "value": 1})
    with pytest.raises(ValueError, match="AidreDocumentStore"):
        AidreEmbeddingRetriever("store")  # type: ignore[arg-type]


def test_nothing_of_a_refused_batch_is_stored(document_store: AidreDocumentStore) -> None:
    document_store.write_documents([Document(id="a", content="first")])
    with pytest.raises(DuplicateDocumentError):
        document_store.write_documents([Document(id="b", content="x"), Document(id="a", content="y")])
    assert document_store.count_documents() == 1
    assert document_store.write_documents([Document(id="a", content="y")], DuplicatePolicy.OVERWRITE) == 1
    assert document_store.filter_documents()[0].content == "y"


def test_the_collection_is_one_of_aidre(document_store: AidreDocumentStore) -> None:
    document_store.write_documents([Document(id="a", content="soup", meta={"year": 2026})])
    docs = aidre.open(document_store.path).collection("haystack")
    assert docs.search("soup", filter={"year": {"gte": 2020}})[0].document_id == "a"


def test_a_server_is_asked_through_the_client(tmp_path: Path) -> None:
    docs = aidre.open(tmp_path / "store").collection("docs")
    docs.add([{"id": str(number), "text": f"Soup number {number}.", "number": number} for number in range(10)])
    command = [sys.executable, "-m", "aidre", "serve", "--store", str(tmp_path / "store"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", server.stderr.readline())
            assert found is not None
            retriever = AidreServerRetriever(found[0], "docs", top_k=3)
            again = AidreServerRetriever.from_dict(retriever.to_dict())
            over = {"field": "meta.number", "operator": ">", "value": 4}
            documents = again.run("soup", over)["documents"]
            assert len(documents) == 3
            assert all(document.meta["number"] > 4 for document in documents)
            assert all("Soup" in str(document.content) for document in documents)
            with pytest.raises(FilterError, match="no filter"):
                again.run("soup", {"field": "meta.day", "operator": ">", "value": "2026-01-01"})
        finally:
            server.terminate()
