"""Retrievers over the document store, as components of a pipeline."""

from __future__ import annotations

import asyncio
from typing import Any

from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import Document
from haystack.document_stores.types import FilterPolicy
from haystack.document_stores.types.filter_policy import apply_filter_policy
from haystack.errors import FilterError
from haystack.utils import Secret, deserialize_secrets_inplace

import aidre
from aidre_haystack.document_store import AidreDocumentStore
from aidre_haystack.filters import check, translate


class _Settings:
    """What both retrievers are told."""

    def __init__(
        self,
        document_store: AidreDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        if not isinstance(document_store, AidreDocumentStore):
            raise ValueError("document_store must be an AidreDocumentStore")
        self.document_store, self.filters, self.top_k = document_store, filters, top_k
        self.filter_policy = filter_policy if isinstance(filter_policy, FilterPolicy) else FilterPolicy(filter_policy)

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            filters=self.filters,
            top_k=self.top_k,
            filter_policy=self.filter_policy.value,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        parameters = data["init_parameters"]
        parameters["document_store"] = AidreDocumentStore.from_dict(parameters["document_store"])
        return default_from_dict(cls, data)

    def _chosen(self, filters: dict[str, Any] | None, top_k: int | None) -> tuple[dict[str, Any] | None, int]:
        return apply_filter_policy(self.filter_policy, self.filters, filters), top_k or self.top_k


@component
class AidreEmbeddingRetriever(_Settings):
    """The documents whose embeddings are nearest to that of the query, best first."""

    @component.output_types(documents=list[Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return {"documents": self.document_store._embedding_retrieval(query_embedding, *self._chosen(filters, top_k))}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return await asyncio.to_thread(self.run, query_embedding, filters, top_k)


@component
class AidreKeywordRetriever(_Settings):
    """The documents that have the words of the query, best first by BM25."""

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return {"documents": self.document_store._keyword_retrieval(query, *self._chosen(filters, top_k))}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return await asyncio.to_thread(self.run, query, filters, top_k)


@component
class AidreServerRetriever:
    """The passages that a server of AIDRE finds for a text: `aidre serve`, or any other.

    The server embeds the query. `filters` are those of Haystack, over the metadata; a server that takes no filters
    refuses them. `collection` may be left out where the server has a default.
    """

    def __init__(
        self,
        url: str,
        collection: str | None = None,
        key: Secret | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
    ) -> None:
        self.url, self.collection, self.key, self.filters, self.top_k = url, collection, key, filters, top_k
        self._remote: Any = None

    def to_dict(self) -> dict[str, Any]:
        key = None if self.key is None else self.key.to_dict()
        return default_to_dict(
            self, url=self.url, collection=self.collection, key=key, filters=self.filters, top_k=self.top_k
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AidreServerRetriever:
        if data["init_parameters"].get("key"):
            deserialize_secrets_inplace(data["init_parameters"], keys=["key"])
        return default_from_dict(cls, data)

    def warm_up(self) -> None:
        """Connect, where that was not done."""
        if self._remote is None:
            key = None if self.key is None else self.key.resolve_value()
            self._remote = aidre.connect(self.url, key=key).collection(self.collection)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        self.warm_up()
        chosen, known = filters or self.filters, None
        if chosen:
            check(chosen)
            known = translate(chosen)
            if known is None:
                raise FilterError(f"the server has no filter for {chosen}")
        hits = self._remote.search(query, k=top_k or self.top_k, filter=known)
        return {"documents": [_passage(hit) for hit in hits]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return await asyncio.to_thread(self.run, query, filters, top_k)


def _passage(hit: aidre.Hit) -> Document:
    """A hit of a server; the id is that of the passage."""
    return Document(id=hit.id, content=hit.text, meta=dict(hit.metadata), score=hit.score)
