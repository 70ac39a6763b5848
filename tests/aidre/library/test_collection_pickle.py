"""Handles and results are sent to other processes: a handle opens the same store there, a hit is its values."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import aidre


@pytest.fixture
def rows(docs: aidre.Collection) -> aidre.Collection:
    docs.add([{"id": name, "text": f"a banana {name}", "title": name, "n": 1} for name in "abc"])
    return docs


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def test_a_view_is_the_same_state_elsewhere(rows: aidre.Collection) -> None:
    view = rows.at(1)
    rows.delete(["a"])
    assert (len(sent(view)), sent(view).generation, len(sent(rows))) == (3, 1, 2)
    assert [hit.id for hit in sent(view).search("banana")] == [hit.id for hit in view.search("banana")]


def test_hits_are_their_values_elsewhere(rows: aidre.Collection) -> None:
    hits = rows.search("banana", k=2, facets="n", highlight=True)
    there = sent(hits)
    assert isinstance(there, aidre.Hits)
    assert [(one.id, one.score, one.text, one.title, one.metadata) for one in there] == [
        (one.id, one.score, one.text, one.title, one.metadata) for one in hits
    ]
    first, same = hits[0].chunk, there[0].chunk
    for name in ("span", "section", "content_hash", "document_id", "url", "type", "updated_at", "schema_object"):
        assert getattr(same, name) == getattr(first, name)
    assert same.vectors()["small"].tolist() == first.vectors()["small"].tolist()
    assert (there.relevance, there.facets, there.highlights) == (hits.relevance, hits.facets, hits.highlights)
    assert there.to_arrow().equals(hits.to_arrow())
    many = rows.search_many(["banana", "text"], k=2)
    assert sent(many).to_arrow().equals(many.to_arrow())


def test_documents_are_sent_whole(rows: aidre.Collection) -> None:
    [document] = rows.get(["a"])
    assert sent(document) == document
