"""LangChain's own suites over the adapter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_aidre import AidreRetriever, AidreVectorStore
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

import aidre


class TestAidreVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:  # type: ignore[override]
        yield AidreVectorStore(self.get_embeddings(), tmp_path / "store")


class TestAidreRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def filled(self, tmp_path: Path) -> None:
        collection = aidre.open(tmp_path / "store").collection("docs")
        collection.add([f"Document number {number} about soup." for number in range(10)])
        type(self).collection = collection

    @property
    def retriever_constructor(self) -> type[AidreRetriever]:
        return AidreRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"collection": self.collection}

    @property
    def retriever_query_example(self) -> str:
        return "soup"


def test_filters_scores_and_diversity(tmp_path: Path) -> None:
    embedding = VectorStoreIntegrationTests.get_embeddings()
    texts = [f"text {number}" for number in range(20)]
    metadatas = [{"number": number, "tags": ["even" if number % 2 == 0 else "odd"]} for number in range(20)]
    store = AidreVectorStore.from_texts(texts, embedding, metadatas, path=tmp_path / "store")
    found = store.similarity_search("text 3", k=5, filter={"tags": "even"})
    assert len(found) == 5
    assert all(one.metadata["number"] % 2 == 0 for one in found)
    scores = [score for _, score in store.similarity_search_with_relevance_scores("text 3", k=5)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(store.max_marginal_relevance_search("text 3", k=3)) == 3
    assert store.delete() is True
    assert store.similarity_search("text 3") == []


def test_another_process_finds_what_was_added(tmp_path: Path) -> None:
    embedding = VectorStoreIntegrationTests.get_embeddings()
    AidreVectorStore(embedding, tmp_path / "store").add_documents([Document("a note", id="n")])
    assert AidreVectorStore(embedding, tmp_path / "store").get_by_ids(["n"])[0].page_content == "a note"
