"""aidre in LangChain: a vector store, and a retriever over a collection of a store or of a server."""

from langchain_aidre.retrievers import AidreRetriever
from langchain_aidre.vectorstores import AidreVectorStore

__all__ = ["AidreRetriever", "AidreVectorStore"]
