"""The program with aidre."""

import aidre


def add(folder, ids, texts, prices, vectors):
    docs = aidre.open(folder).collection("docs", space=aidre.EmbeddingSpace("mine", vectors.shape[1], "cosine"))
    rows = zip(ids, texts, prices, strict=True)
    docs.add([{"id": one, "text": text, "price": price} for one, text, price in rows], vectors=vectors)


def opened(folder):
    docs = aidre.open(folder).collection("docs")

    def search(vector, k, below):
        hits = docs.search(vector=vector, k=k, filter=None if below is None else {"price": {"lt": below}})
        return [hit.document_id for hit in hits]

    return search
