"""The program with lancedb."""

import lancedb
import pyarrow as pa


def add(folder, ids, texts, prices, vectors):
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    table = pa.table({"id": ids, "text": texts, "price": prices, "vector": column})
    docs = lancedb.connect(folder).create_table("docs", table)
    docs.create_index(metric="cosine", vector_column_name="vector")


def opened(folder):
    docs = lancedb.connect(folder).open_table("docs")

    def search(vector, k, below):
        query = docs.search(vector).distance_type("cosine").refine_factor(10).limit(k)
        if below is not None:
            query = query.where(f"price < {below}", prefilter=True)
        return query.select(["id", "text"]).to_arrow()["id"].to_pylist()

    return search
