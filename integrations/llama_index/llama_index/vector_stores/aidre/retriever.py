"""A retriever for which aidre embeds and searches: over a store in a folder, or over a server."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index.vector_stores.aidre.filters import to_filter


class AidreRetriever(BaseRetriever):
    """The best `k` passages of a collection for a text, hybrid by default.

    `collection` is one of `aidre.open(...)` or of `aidre.connect(...)`.
    """

    def __init__(
        self,
        collection: Any,
        k: int = 10,
        filters: MetadataFilters | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.collection, self.k, self.filters, self.mode = collection, k, filters, mode

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        text = query_bundle.query_str
        hits = self.collection.search(text, k=self.k, filter=to_filter(self.filters), mode=self.mode)
        return [NodeWithScore(node=_to_node(hit), score=hit.score) for hit in hits]


def _to_node(hit: Any) -> TextNode:
    """A passage, with its id, and title and address of its document in the metadata."""
    more = {name: value for name in ("title", "url") if (value := getattr(hit, name, None))}
    return TextNode(id_=hit.id, text=hit.text, metadata={**hit.metadata, **more})
