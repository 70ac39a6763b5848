"""From arrays to a plot: vectors of your own in a collection, neighbours of many queries, and a picture of them."""

# %% [markdown]
# Points of five kinds in 32 dimensions stand for embeddings of any model.

# %%
import matplotlib
import numpy as np

import aidre

matplotlib.use("Agg")  # leave this out in a notebook
from matplotlib import pyplot

rng = np.random.default_rng(7)
kinds = rng.integers(0, 5, 2_000)
vectors = (rng.normal(size=(5, 32))[kinds] * 2 + rng.normal(size=(2_000, 32))).astype(np.float32)

# %% [markdown]
# A space without a model takes vectors that come with their documents: here a table of columns, and a matrix.

# %%
database = aidre.open("store")
points = database.collection("points", space=aidre.EmbeddingSpace("mine", 32, "cosine"))
names = [f"point-{number:04d}" for number in range(len(vectors))]
rows = [
    {"id": name, "text": f"a point of kind {kind}", "kind": int(kind)} for name, kind in zip(names, kinds, strict=True)
]
points.add(rows, vectors=vectors)
print(f"{len(points)} points, of each kind {dict(points.facets('kind')['kind'].counts)}")

# %% [markdown]
# Fifty queries in one call. The answer is an Arrow table, which pandas and polars read as it is.

# %%
queries = vectors[:50] + rng.normal(size=(50, 32)).astype(np.float32) * 0.3
found = points.search_many(queries, k=10).to_arrow().to_pylist()
unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
best = np.argsort(-(queries @ unit.T), axis=1, kind="stable")[:, :10]
wanted = [{names[row] for row in rows_of_query} for rows_of_query in best]
hits = sum(row["document_id"] in wanted[row["query"]] for row in found)
print(f"{hits} of {10 * len(queries)} true neighbours were found")

# %% [markdown]
# Two directions show most of it: the first principal axes.

# %%
axes = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)[2][:2]
flat, query = vectors @ axes.T, queries[0] @ axes.T
near = [names.index(row["document_id"]) for row in found if row["query"] == 0]
pyplot.scatter(*flat.T, c=kinds, s=4, cmap="tab10", alpha=0.4)
pyplot.scatter(*flat[near].T, s=40, facecolors="none", edgecolors="black", label="its neighbours")
pyplot.scatter(*query, marker="*", s=120, color="red", label="a query")
pyplot.legend()
pyplot.savefig("neighbours.png", dpi=120)
print("neighbours.png")
