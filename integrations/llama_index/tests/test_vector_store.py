"""LlamaIndex over aidre; LlamaIndex has no suite of its own for vector stores."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import ImageNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.vector_stores.aidre import AidreRetriever, AidreVectorStore

import aidre


def nodes() -> list[TextNode]:
    made = []
    for number in range(20):
        parent = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc-{number % 4}")}
        node = TextNode(
            id_=f"n{number}",
            text=f"Soup number {number} with {'lentils' if number % 2 else 'beans'}.",
            metadata={
                "number": number,
                "tags": ["odd" if number % 2 else "even", f"t{number}"],
                "name": f"Soup {number}",
            },
            relationships=parent,
            embedding=[1.0, number / 10, 0.0],
        )
        made.append(node)
    return made


@pytest.fixture
def store(tmp_path: Path) -> AidreVectorStore:
    made = AidreVectorStore(str(tmp_path / "store"))
    assert made.add(nodes()) == [f"n{number}" for number in range(20)]
    return made


def asked(store: AidreVectorStore, *filters: MetadataFilter, condition: str = "and", **query: Any) -> list[str]:
    chosen = MetadataFilters(filters=list(filters), condition=FilterCondition(condition)) if filters else None
    request: dict[str, Any] = {"query_embedding": [1.0, 0.0, 0.0], "similarity_top_k": 3, "filters": chosen, **query}
    return list(store.query(VectorStoreQuery(**request)).ids or ())


def test_nodes_come_back_as_they_were(store: AidreVectorStore) -> None:
    for found, node in zip(store.get_nodes(), nodes(), strict=True):
        assert found.embedding == pytest.approx(node.embedding, rel=1e-6)
        found.embedding = node.embedding
        assert found.model_dump() == node.model_dump()
    assert [node.node_id for node in store.get_nodes(["n3", "n4", "nothing"])] == ["n3", "n4"]


def test_another_process_opens_what_was_added(store: AidreVectorStore) -> None:
    again = AidreVectorStore(store.path)
    assert len(again.get_nodes()) == 20
    assert again.query(VectorStoreQuery(query_embedding=[1.0, 0.0, 0.0])).ids == ["n0"]


@pytest.mark.parametrize(
    ("operator", "key", "value", "expected"),
    [
        ("==", "number", 7, {"n7"}),
        ("!=", "number", 0, {f"n{number}" for number in range(1, 20)}),
        (">", "number", 17, {"n18", "n19"}),
        (">=", "number", 18, {"n18", "n19"}),
        ("<", "number", 2, {"n0", "n1"}),
        ("<=", "number", 1, {"n0", "n1"}),
        ("in", "number", [3, 5, 99], {"n3", "n5"}),
        ("nin", "number", list(range(18)), {"n18", "n19"}),
        ("contains", "tags", "t4", {"n4"}),
        ("any", "tags", ["t4", "t5"], {"n4", "n5"}),
        ("all", "tags", ["t4", "even"], {"n4"}),
        ("all", "tags", ["t4", "odd"], set()),
        ("text_match", "name", "Soup 1", {f"n{number}" for number in (1, *range(10, 20))}),
        ("is_empty", "number", None, set()),
        ("is_empty", "nothing", None, {f"n{number}" for number in range(20)}),
    ],
)
def test_filters(store: AidreVectorStore, operator: str, key: str, value: Any, expected: set[str]) -> None:
    one = MetadataFilter(key=key, value=value, operator=FilterOperator(operator))
    assert set(asked(store, one, similarity_top_k=20)) == expected
    assert {node.node_id for node in store.get_nodes(filters=MetadataFilters(filters=[one]))} == expected


def test_filters_are_combined(store: AidreVectorStore) -> None:
    low, odd = (
        MetadataFilter(key="number", value=3, operator=FilterOperator.LT),
        MetadataFilter(key="tags", value="odd"),
    )
    assert set(asked(store, low, odd, similarity_top_k=20)) == {"n1"}
    assert len(asked(store, low, odd, condition="or", similarity_top_k=20)) == 12
    assert len(asked(store, low, odd, condition="not", similarity_top_k=20)) == 19
    nested = MetadataFilters(filters=[MetadataFilters(filters=[low]), odd])
    assert store.query(VectorStoreQuery([1.0, 0.0, 0.0], 20, filters=nested)).ids == ["n1"]
    assert asked(store, doc_ids=["doc-3"], similarity_top_k=20) == ["n3", "n7", "n11", "n15", "n19"]
    assert asked(store, node_ids=["n5", "n2"]) == ["n2", "n5"]
    with pytest.raises(ValueError, match="text_match_insensitive"):
        asked(store, MetadataFilter(key="name", value="x", operator=FilterOperator.TEXT_MATCH_INSENSITIVE))


def test_modes(store: AidreVectorStore) -> None:
    assert asked(store) == ["n0", "n1", "n2"]
    words = asked(store, mode=VectorStoreQueryMode.TEXT_SEARCH, query_str="lentils", similarity_top_k=20)
    assert len(words) == 10
    assert asked(store, mode=VectorStoreQueryMode.HYBRID, query_str="lentils")[0] == "n1"
    assert len(asked(store, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.1)) == 3
    with pytest.raises(ValueError, match="needs query_str"):
        asked(store, mode=VectorStoreQueryMode.HYBRID)
    with pytest.raises(ValueError, match="no query mode"):
        asked(store, mode=VectorStoreQueryMode.SVM)


def test_nodes_are_replaced_and_deleted(store: AidreVectorStore) -> None:
    store.add([TextNode(id_="n0", text="Another text.", embedding=[0.0, 0.0, 1.0])])
    assert store.get_nodes(["n0"])[0].get_content() == "Another text."
    store.delete("doc-3")
    assert len(store.get_nodes()) == 15
    store.delete_nodes(["n1"])
    store.delete_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="number", value=2)]))
    assert len(store.get_nodes()) == 13
    store.clear()
    assert store.get_nodes() == []
    assert asked(store) == []


def test_a_node_without_words_and_reserved_names_are_kept(store: AidreVectorStore) -> None:
    node = ImageNode(
        id_="picture",
        image_url="https://x.example/a.png",
        embedding=[0.0, 0.0, 2.0],
        metadata={"etag": "x", "document_id": "y"},
    )
    store.add([node])
    [found] = store.get_nodes(["picture"])
    assert isinstance(found, ImageNode)
    assert (found.image_url, found.metadata) == (node.image_url, node.metadata)


def test_an_index_is_built_over_the_store(tmp_path: Path) -> None:
    storage = StorageContext.from_defaults(vector_store=AidreVectorStore(str(tmp_path / "store")))
    index = VectorStoreIndex(nodes(), storage_context=storage, embed_model=MockEmbedding(embed_dim=3))
    assert len(index.as_retriever(similarity_top_k=4).retrieve("soup")) == 4
    again = VectorStoreIndex.from_vector_store(AidreVectorStore(str(tmp_path / "store")), embed_model=MockEmbedding(3))
    assert len(again.as_retriever(similarity_top_k=5).retrieve("soup")) == 5


def test_a_retriever_over_a_store_and_over_a_server(tmp_path: Path) -> None:
    docs = aidre.open(tmp_path / "store").collection("docs")
    docs.add([{"id": str(number), "text": f"Soup number {number}.", "number": number} for number in range(10)])
    over = MetadataFilters(filters=[MetadataFilter(key="number", value=4, operator=FilterOperator.GT)])
    local = AidreRetriever(docs, k=3, filters=over).retrieve("soup")
    command = [sys.executable, "-m", "aidre", "serve", "--store", str(tmp_path / "store"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", server.stderr.readline())
            assert found is not None
            with aidre.connect(found[0]) as client:
                remote = AidreRetriever(client.collection("docs"), k=3, filters=over).retrieve("soup")
        finally:
            server.terminate()
    assert [one.node_id for one in local] == [one.node_id for one in remote]
    assert [one.text for one in local] == [one.text for one in remote]
    assert len(local) == 3
