"""The program with chromadb."""

import chromadb

BATCH = 5_000


def add(folder, ids, texts, prices, vectors):
    client = chromadb.PersistentClient(str(folder))
    docs = client.create_collection("docs", configuration={"hnsw": {"space": "cosine"}})
    for first in range(0, len(ids), BATCH):
        rows = slice(first, first + BATCH)
        metadatas = [{"price": price} for price in prices[rows]]
        docs.add(ids=ids[rows], documents=texts[rows], metadatas=metadatas, embeddings=vectors[rows])


def opened(folder):
    docs = chromadb.PersistentClient(str(folder)).get_collection("docs")

    def search(vector, k, below):
        where = None if below is None else {"price": {"$lt": below}}
        return docs.query(query_embeddings=[vector], n_results=k, where=where, include=["documents"])["ids"][0]

    return search
