"""The program with usearch, which stores no documents."""

import json

import numpy as np
from usearch.index import Index

FILTERS = False


def add(folder, ids, texts, prices, vectors):
    index = Index(ndim=vectors.shape[1], metric="cos", dtype="f16")
    index.add(np.arange(len(ids)), vectors)
    index.save(str(folder / "vectors"))
    (folder / "documents.json").write_text(json.dumps([ids, texts, prices]))


def opened(folder):
    index = Index.restore(str(folder / "vectors"), view=True)
    ids, _, _ = json.loads((folder / "documents.json").read_text())

    def search(vector, k, below):
        return [ids[key] for key in index.search(vector, k).keys.tolist()]

    return search
