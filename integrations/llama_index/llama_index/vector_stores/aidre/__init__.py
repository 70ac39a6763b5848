"""aidre in LlamaIndex: a vector store in a folder, and a retriever over stores and servers."""

from llama_index.vector_stores.aidre.base import AidreVectorStore
from llama_index.vector_stores.aidre.retriever import AidreRetriever

__all__ = ["AidreRetriever", "AidreVectorStore"]
