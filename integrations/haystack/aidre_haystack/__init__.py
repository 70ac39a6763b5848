"""aidre in Haystack: a document store in a folder, and retrievers by vector and by words."""

from aidre_haystack.document_store import AidreDocumentStore
from aidre_haystack.retrievers import AidreEmbeddingRetriever, AidreKeywordRetriever, AidreServerRetriever

__all__ = ["AidreDocumentStore", "AidreEmbeddingRetriever", "AidreKeywordRetriever", "AidreServerRetriever"]
