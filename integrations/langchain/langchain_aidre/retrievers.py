"""A retriever over a collection that aidre embeds and searches itself: of a store, or of a server."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict


class AidreRetriever(BaseRetriever):
    """`collection` is what `aidre.open(path).collection(name)` or `aidre.connect(url).collection(name)` returns.

    Documents are chunks; their metadata are those of their document, with `source` (the URL), `title` and `score`.
    `mode` is hybrid, dense or lexical; None leaves it to the collection.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    collection: Any
    k: int = 4
    mode: str | None = None
    filter: dict[str, Any] | None = None
    min_score: float | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        hits = self.collection.search(
            query, k=k or self.k, mode=self.mode, filter=self.filter, min_score=self.min_score
        )
        return [
            Document(
                id=hit.id,
                page_content=hit.text,
                metadata={**hit.metadata, "source": hit.url, "title": hit.title, "score": hit.score},
            )
            for hit in hits
        ]
