"""The program with qdrant-client, in process."""

from qdrant_client import QdrantClient, models

BATCH = 5_000


def add(folder, ids, texts, prices, vectors):
    client = QdrantClient(path=str(folder))
    client.create_collection("docs", models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE))
    for first in range(0, len(ids), BATCH):
        rows = range(first, min(first + BATCH, len(ids)))
        payloads = [{"id": ids[row], "text": texts[row], "price": prices[row]} for row in rows]
        client.upsert("docs", models.Batch(ids=list(rows), vectors=vectors[rows.start : rows.stop], payloads=payloads))
    client.close()


def opened(folder):
    client = QdrantClient(path=str(folder))

    def search(vector, k, below):
        condition = None
        if below is not None:
            condition = models.Filter(must=[models.FieldCondition(key="price", range=models.Range(lt=below))])
        return [
            hit.payload["id"] for hit in client.query_points("docs", vector, limit=k, query_filter=condition).points
        ]

    return search
