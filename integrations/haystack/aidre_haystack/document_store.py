"""A document store in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from haystack import default_from_dict, default_to_dict
from haystack.dataclasses import Document
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils.filters import document_matches_filter

import aidre
from aidre_haystack.documents import SPACE, WITHOUT, to_document, to_row
from aidre_haystack.filters import ALL, check, translate

Filters = dict[str, Any] | None
WITH_EMBEDDING = {"not": {WITHOUT: "embedding"}}
BATCH = 1_000
"""Documents that are named in one filter."""


class AidreDocumentStore:
    """A collection of the store at `path`, which is made by the first document.

    `embedding_dim` is the length of the embeddings. Each document is one row with its vector, kept as float32. Every
    write is one commit, durable when it returns; several processes may read and write.
    """

    def __init__(
        self,
        path: str | Path = "aidre",
        collection: str = "haystack",
        embedding_dim: int = 768,
        similarity: Literal["cosine", "dot", "euclidean"] = "cosine",
    ) -> None:
        self.path, self.name = str(path), collection
        self.embedding_dim, self.similarity = embedding_dim, similarity
        space = aidre.EmbeddingSpace(SPACE, embedding_dim, similarity, precision="float32")
        self._database = aidre.open(path)
        self._collection = self._database.collection(collection, space=space)

    @property
    def collection(self) -> aidre.Collection:
        """The collection behind, for what Haystack has no verb for."""
        return self._collection

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(
            self,
            path=self.path,
            collection=self.name,
            embedding_dim=self.embedding_dim,
            similarity=self.similarity,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AidreDocumentStore:
        return default_from_dict(cls, data)

    # -- write -------------------------------------------------------------------------------------------------

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Store documents in one commit; returns how many were written. DuplicateDocumentError by the policy FAIL,
        which is the default."""
        if not isinstance(documents, list) or not all(isinstance(one, Document) for one in documents):
            raise ValueError("documents must be a list of Documents")
        if not documents:
            return 0
        with self._collection.writer() as writer:  # nobody else writes between the look and the write
            chosen: dict[str, Document] = {}
            for document in documents:
                exists = document.id in chosen or document.id in self._collection
                if exists and policy in {DuplicatePolicy.NONE, DuplicatePolicy.FAIL}:
                    raise DuplicateDocumentError(f"document {document.id!r} exists already")
                if not (exists and policy == DuplicatePolicy.SKIP):
                    chosen[document.id] = document
            if chosen:
                self._write(writer, list(chosen.values()))
        return len(chosen)

    def _write(self, writer: aidre.CollectionWriter, documents: Sequence[Document]) -> None:
        for document in documents:
            if document.embedding is not None and len(document.embedding) != self.embedding_dim:
                raise DocumentStoreError(
                    f"the embedding of {document.id!r} has {len(document.embedding)} numbers, and the store takes "
                    f"{self.embedding_dim}: set embedding_dim"
                )
        rows, vectors = zip(*(to_row(document, self.embedding_dim) for document in documents), strict=True)
        writer.add_all(list(rows), vectors=np.stack(vectors))

    def delete_documents(self, document_ids: list[str]) -> None:
        if document_ids and self._collection.generation:
            self._collection.delete(document_ids)

    def delete_all_documents(self, recreate_index: bool = False) -> None:
        """With `recreate_index` the collection goes with its earlier generations, and the next write makes it again."""
        if self._collection.generation and recreate_index:
            self._database.drop(self.name)
        elif self._collection.generation:
            self._collection.delete(filter=ALL)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Returns how many documents were deleted."""
        if not self._collection.generation:
            return 0
        with self._collection.writer() as writer:
            return writer.delete([document.id for document in self._matching(filters)])

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set members of the metadata; returns how many documents were updated."""
        if not self._collection.generation:
            return 0
        with self._collection.writer() as writer:
            documents = [replace(one, meta={**one.meta, **meta}) for one in self._matching(filters)]
            if documents:
                self._write(writer, documents)
        return len(documents)

    # -- read --------------------------------------------------------------------------------------------------

    def count_documents(self) -> int:
        return len(self._collection)

    def filter_documents(self, filters: Filters = None) -> list[Document]:
        """The documents that pass a filter, in the order of storage. FilterError."""
        return list(self._matching(filters))

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        if not filters:
            return self.count_documents()
        check(filters)
        known = translate(filters)
        return sum(1 for _ in self._matching(filters)) if known is None else self._collection.count(known)

    def _matching(self, filters: Filters) -> Iterator[Document]:
        """Haystack judges what aidre has no filter for."""
        if not filters:
            yield from self._documents(None)
            return
        check(filters)
        known = translate(filters)
        for document in self._documents(known):
            if known is not None or document_matches_filter(filters, document):
                yield document

    def _documents(self, filter: dict[str, Any] | None) -> Iterator[Document]:
        for row in self._collection.scan(filter, vectors=True):
            yield to_document(row.id, row.text, row.metadata, (row.vectors or {}).get(SPACE))

    # -- metadata ----------------------------------------------------------------------------------------------

    def count_unique_metadata_by_filter(self, filters: Filters, metadata_fields: list[str]) -> dict[str, int]:
        values: dict[str, set[Any]] = {name: set() for name in metadata_fields}
        for document in self._matching(filters):
            for name, found in values.items():
                value = document.meta.get(_name(name))
                if value is not None:
                    found.add(_key(value))
        return {name: len(found) for name, found in values.items()}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """By field, the name of the type of its values; `mixed` where they differ."""
        types: dict[str, set[str]] = {}
        for document in self._documents(None):
            for name, value in document.meta.items():
                types.setdefault(name, set()).add(type(value).__name__)
        return {name: {"type": found.pop() if len(found) == 1 else "mixed"} for name, found in types.items()}

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """The least and the greatest number of a field; the first and last string where it has no number."""
        values = [one.meta.get(_name(metadata_field)) for one in self._documents(None)]
        numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
        compared: list[Any] = numbers or [one for one in values if isinstance(one, str)]
        return {"min": min(compared, default=None), "max": max(compared, default=None)}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: Filters = None,
    ) -> tuple[list[Any], int]:
        """A page of the values of a field in their order, and how many there are. `search_term` is looked for in the
        values, whatever its case."""
        found: dict[tuple[str, str], Any] = {}
        for document in self._matching(filters):
            value = document.meta.get(_name(metadata_field))
            for one in value if isinstance(value, list) else [value]:
                if one is not None and (search_term is None or search_term.lower() in str(one).lower()):
                    found.setdefault(_key(one), one)
        ordered = [found[key] for key in sorted(found, key=lambda key: (_rank(found[key]), key))]
        return ordered[from_ : from_ + size], len(ordered)

    # -- retrieve ----------------------------------------------------------------------------------------------

    def _embedding_retrieval(
        self, query_embedding: list[float], filters: Filters = None, top_k: int = 10
    ) -> list[Document]:
        hits = self._search(filters, [WITH_EMBEDDING], vector=np.asarray(query_embedding, np.float32), k=top_k)
        return hits[:top_k]

    def _keyword_retrieval(self, query: str, filters: Filters = None, top_k: int = 10) -> list[Document]:
        return self._search(filters, [], text=query, mode="lexical", k=top_k)[:top_k] if query.strip() else []

    def _search(self, filters: Filters, conditions: list[dict[str, Any]], **query: Any) -> list[Document]:
        if filters:
            check(filters)
            known = translate(filters)
            if known is None:
                return self._search_among([one.id for one in self._matching(filters)], conditions, query)
            conditions = [*conditions, known]
        hits = self._collection.search(filter={"and": conditions} if conditions else None, **query)
        return [_of_hit(hit) for hit in hits]

    def _search_among(self, ids: list[str], conditions: list[dict[str, Any]], query: dict[str, Any]) -> list[Document]:
        """The best of these documents, searched some at a time."""
        found: list[aidre.Hit] = []
        for first in range(0, len(ids), BATCH):
            among = {"document_id": {"in": ids[first : first + BATCH]}}
            found += self._collection.search(filter={"and": [*conditions, among]}, **query)
        found.sort(key=lambda hit: -hit.score)
        return [_of_hit(hit) for hit in found]

    # -- the same, asynchronous: in a thread, since the store is a library of this process --------------------------

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        return await asyncio.to_thread(self.write_documents, documents, policy)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        await asyncio.to_thread(self.delete_documents, document_ids)

    async def delete_all_documents_async(self, recreate_index: bool = False) -> None:
        await asyncio.to_thread(self.delete_all_documents, recreate_index)

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        return await asyncio.to_thread(self.delete_by_filter, filters)

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        return await asyncio.to_thread(self.update_by_filter, filters, meta)

    async def count_documents_async(self) -> int:
        return await asyncio.to_thread(self.count_documents)

    async def filter_documents_async(self, filters: Filters = None) -> list[Document]:
        return await asyncio.to_thread(self.filter_documents, filters)

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        return await asyncio.to_thread(self.count_documents_by_filter, filters)

    async def count_unique_metadata_by_filter_async(
        self, filters: Filters, metadata_fields: list[str]
    ) -> dict[str, int]:
        return await asyncio.to_thread(self.count_unique_metadata_by_filter, filters, metadata_fields)

    async def get_metadata_fields_info_async(self) -> dict[str, dict[str, str]]:
        return await asyncio.to_thread(self.get_metadata_fields_info)

    async def get_metadata_field_min_max_async(self, metadata_field: str) -> dict[str, Any]:
        return await asyncio.to_thread(self.get_metadata_field_min_max, metadata_field)

    async def get_metadata_field_unique_values_async(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: Filters = None,
    ) -> tuple[list[Any], int]:
        return await asyncio.to_thread(
            self.get_metadata_field_unique_values, metadata_field, search_term, from_, size, filters
        )


def _of_hit(hit: aidre.Hit) -> Document:
    vector = hit.chunk.vectors().get(SPACE)
    return to_document(hit.document_id, hit.text, hit.metadata, vector, hit.score)


def _name(field: str) -> str:
    return field.removeprefix("meta.")


def _key(value: Any) -> tuple[str, str]:
    """Distinct for 1, 1.0, True and "1"."""
    return type(value).__name__, repr(value)


def _rank(value: Any) -> tuple[int, float, str]:
    """Numbers in their order, then all else in that of its text."""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value)
