"""The program with txtai, with vectors that it did not make."""

import numpy as np
from txtai import Embeddings

VECTORS = {}
SETTINGS = {"method": "external", "transform": f"{__name__}.transform", "content": True}


def transform(texts):
    return np.array([VECTORS[text] for text in texts])


def add(folder, ids, texts, prices, vectors):
    VECTORS.update(zip(texts, vectors, strict=True))
    embeddings = Embeddings(SETTINGS)
    rows = zip(ids, texts, prices, strict=True)
    embeddings.index((one, {"text": text, "price": price}, None) for one, text, price in rows)
    embeddings.save(str(folder))


def opened(folder):
    embeddings = Embeddings(SETTINGS)
    embeddings.load(str(folder))

    def search(vector, k, below):
        VECTORS["query"] = vector
        condition = "" if below is None else f" and price < {below}"
        found = embeddings.search(f"select id, text, score from txtai where similar('query'){condition} limit {k}")
        return [hit["id"] for hit in found]

    return search
