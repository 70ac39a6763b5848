"""`order=` of a search: the relevant hits by a field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aidre
from tests.support.kitchen import kitchen


def ids(hits: Any) -> list[str]:
    return [hit.document_id for hit in hits]


def test_relevant_hits_come_by_the_field_and_others_behind_them(tmp_path: Path) -> None:
    with kitchen(tmp_path) as names:
        docs = names["docs"]
        docs.add({"id": "treaty", "text": "The treaty of Westphalia ended a war.", "minutes": 90})
        assert ids(docs.search("a hot dish to eat", order="-minutes"))[:2] == ["soup", "toast"]
        assert ids(docs.search("a hot dish to eat", order={"field": "minutes", "direction": "ascending"}))[:2] == [
            "toast",
            "soup",
        ]
        assert ids(docs.search("a hot dish to eat", order="metadata.minutes", k=1, offset=1)) == ["soup"]


def test_a_field_that_no_document_has_is_named_by_the_hits(tmp_path: Path) -> None:
    with kitchen(tmp_path) as names:
        assert names["docs"].search("a hot dish to eat", order="-seconds").unknown_fields == ("seconds",)
        assert names["docs"].search("a hot dish to eat", order="-minutes").unknown_fields == ()


def test_a_vector_orders_all_hits(tmp_path: Path) -> None:
    with aidre.open(tmp_path / "store") as db:
        docs = db.collection("docs", space=aidre.EmbeddingSpace("mine", 2, "cosine"))
        docs.add([{"id": str(n), "n": n} for n in range(4)], vectors=[[1, n] for n in range(4)])
        assert ids(docs.search(vector=[1, 0], order="-n")) == ["3", "2", "1", "0"]


@pytest.mark.parametrize("order", ["", "-", 3, ["n"], {"field": "n"}, {"field": "n", "direction": "up"}, {}])
def test_others_are_refused(tmp_path: Path, order: Any) -> None:
    with aidre.open(tmp_path / "store") as db, pytest.raises(aidre.InvalidInput, match="order= is the name of a field"):
        db.collection("docs").search("soup", order=order)


def test_it_is_not_told_together_with_a_reranker(tmp_path: Path) -> None:
    with aidre.open(tmp_path / "store") as db, pytest.raises(aidre.InvalidInput, match="pass one of them"):
        db.collection("docs").search("soup", order="n", rerank=lambda text, texts: [1.0] * len(texts))


def test_the_word_of_a_listing_is_answered(tmp_path: Path) -> None:
    docs: Any = aidre.open(tmp_path / "store").collection("docs")
    with pytest.raises(aidre.InvalidInput, match="here it is order="):
        docs.search("soup", order_by="n")
