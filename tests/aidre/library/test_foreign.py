"""Words of other libraries are answered by an error that names ours, and other mistakes by Python's own errors."""

from __future__ import annotations

from typing import Any

import pytest

import aidre


@pytest.mark.parametrize(
    ("verb", "named", "ours"),
    [
        ("search", {"n_results": 3}, "k="),
        ("search", {"query_texts": ["x"]}, "search_many"),
        ("search", {"query_embeddings": [[1.0]]}, "vector="),
        ("search", {"where": {"price": 1}}, "filter="),
        ("search", {"limit": 3}, "k="),
        ("search", {"score_threshold": 0.5}, "min_score="),
        ("get", {"where": {"price": 1}}, "filter="),
        ("add", {"ids": ["a"], "documents": ["x"]}, '"text"'),
        ("upsert", {"embeddings": [[1.0]]}, "vectors="),
        ("delete", {"where": {"price": 1}}, "filter="),
        ("scan", {"sort": "price"}, "order_by="),
    ],
)
def test_an_argument_of_another_library_is_answered_by_ours(
    docs: aidre.Collection, verb: str, named: dict[str, Any], ours: str
) -> None:
    with pytest.raises(aidre.InvalidInput, match=f"{verb} has no argument") as caught:
        getattr(docs, verb)(**named)
    assert ours in caught.value.message


@pytest.mark.parametrize(("name", "ours"), [("query", "search"), ("scroll", "get"), ("merge_insert", "upsert")])
def test_a_verb_of_another_library_is_answered_by_ours(docs: aidre.Collection, name: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=ours):
        getattr(docs, name)
    assert not hasattr(docs, name)


def test_a_database_knows_the_verbs_of_other_databases(db: aidre.Database) -> None:
    for name in ("get_or_create_collection", "create_table", "list_collections", "delete_collection"):
        with pytest.raises(AttributeError, match=r"here it is (collection|drop)"):
            getattr(db, name)


def test_a_word_that_nobody_has_is_left_to_python(docs: aidre.Collection) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        getattr(docs, "search")("x", colour=1)  # noqa: B009
    with pytest.raises(AttributeError, match=r"has no colour$"):
        getattr(docs, "colour")  # noqa: B009


@pytest.mark.parametrize(
    ("theirs", "ours"), [("l2", "euclidean"), ("Euclid", "euclidean"), ("ip", "dot"), ("angular", "cosine")]
)
def test_a_distance_of_another_library_is_answered_by_ours(db: aidre.Database, theirs: Any, ours: str) -> None:
    with pytest.raises(aidre.InvalidInput, match=f"here it is '{ours}'"):
        db.collection("x", space=aidre.EmbeddingSpace("s", 2, theirs))


@pytest.mark.parametrize(
    ("filter", "ours"),
    [
        ({"$and": [{"price": 1}]}, "here it is and"),
        ({"$or": [{"price": 1}]}, "here it is or"),
        ({"price": {"$in": [1]}}, "here it is in"),
        ({"price": {"$gte": 1}}, "here it is gte"),
        ({"price": {"==": 1}}, "here it is eq"),
        ({"price": {">": 1}}, "here it is gt"),
        ({"price": {"$not_contains": 1}}, "here it is not"),
        ({"must": [{"key": "price"}]}, "here it is and"),
        ({"name": {"like": "a%"}}, "here it is contains"),
        ("price > 3", '{"field": value}'),
    ],
)
def test_a_filter_of_another_library_is_answered_by_ours(docs: aidre.Collection, filter: Any, ours: str) -> None:
    with pytest.raises(aidre.InvalidFilter) as caught:
        docs.count(filter)
    docs.add("a text")
    with pytest.raises(aidre.InvalidFilter) as caught:
        docs.count(filter)
    assert ours in caught.value.message


def test_a_field_that_is_called_like_a_connective_can_be_filtered(docs: aidre.Collection) -> None:
    docs.add([{"id": "a", "text": "x", "must": "yes", "$ref": "r"}])
    assert (docs.count({"must": "yes"}), docs.count({"$ref": "r"})) == (1, 1)
