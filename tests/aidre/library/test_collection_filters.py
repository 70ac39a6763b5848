"""Filters of members and of fields that no document has, in searches and deletions, `aidre/library/collection.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

import aidre
from tests.aidre.library.conftest import SMALL, letters


def test_a_negative_filter_spares_the_members_that_it_names(docs: aidre.Collection) -> None:
    docs.add([{"id": f"i{n}", "title": f"T{n}", "text": f"word {n}"} for n in range(4)])
    assert [docs.count(one) for one in ({"id": "i1"}, {"title": "T1"}, {"title": {"contains": "T"}})] == [1, 1, 4]
    assert [hit.document_id for hit in docs.search(vector=[1, 1, 1], filter={"id": {"nin": ["i0", "i1", "i3"]}})] == [
        "i2"
    ]
    for name in ("text", "section"):
        for ask in (docs.count, docs.scan, lambda one: docs.delete(filter=one, allow_unknown=True)):
            with pytest.raises(aidre.InvalidFilter, match="mode lexical"):
                ask({name: {"ne": "a"}})
    assert docs.delete(filter={"id": {"ne": "i1"}, "title": {"ne": "T2"}}) == 2
    assert [document.id for document in docs.scan()] == ["i1", "i2"]
    assert dict(docs.facets("title")["title"].counts) == {"T1": 1, "T2": 1}


def test_a_field_that_no_document_has_is_named_and_deletes_nothing(
    docs: aidre.Collection, caplog: pytest.LogCaptureFixture
) -> None:
    docs.add([{"id": "a", "text": "one", "kind": "old"}, {"id": "b", "text": "two", "gone": 1}])
    docs.delete(["b"])
    wrong = {"kin": {"ne": "old"}, "gone": {"exists": False}}
    assert docs.search(vector=[1, 1, 1], filter=wrong).unknown_fields == ("gone", "kin")
    many = docs.search_many([[1, 1, 1]], filter=wrong)
    assert (many.unknown_fields, many[:1].unknown_fields) == (("gone", "kin"), ("gone", "kin"))
    assert docs.search(vector=[1, 1, 1], filter={"kind": "old"}).unknown_fields == ()
    assert (docs.count(wrong), len(list(docs.scan(wrong))), docs.facets("kind", filter=wrong)["kind"].documents) == (
        (1, 1, 1)
    )
    said = [record.getMessage() for record in caplog.records if record.name == "aidre"]
    assert said == [f"no document of docs has the field {name} of a filter or an order" for name in ("gone", "kin")]
    with pytest.raises(aidre.InvalidFilter, match=r"filter\.gone, filter\.kin"):
        docs.delete(filter=wrong)
    with docs.writer() as writer, pytest.raises(aidre.InvalidFilter, match="allow_unknown"):
        writer.delete(filter={"kin": "old"})
    assert len(docs) == 1
    assert docs.delete(filter=wrong, allow_unknown=True) == 1


def test_a_deletion_looks_at_the_fields_of_the_newest_state(tmp_path: Path) -> None:
    """Of another process, too, which wrote after this one has read: under the lock the newest state is looked at."""
    ours, theirs = (aidre.open(tmp_path).collection("docs", space=SMALL, embed=letters) for _ in range(2))
    ours.add([{"id": "a", "text": "one"}, {"id": "b", "text": "two"}])
    assert ours.count({"id": {"ne": "a"}}) == 1
    with ours.writer() as writer:
        writer.add({"id": "c", "text": "three", "metadata": {"id": "sku"}})
        writer.commit()
        with pytest.raises(aidre.InvalidFilter, match="document_id"):
            writer.delete(filter={"id": {"ne": "a"}})
    with pytest.raises(aidre.InvalidFilter, match="document_id"):
        theirs.delete(filter={"id": {"ne": "a"}})
    assert theirs.delete(filter={"metadata.id": "sku"}) == 1
    assert theirs.delete(filter={"id": {"ne": "a"}}) == 1


@pytest.mark.needs("facets")
def test_a_facet_leaves_its_own_condition_out_however_that_is_written(docs: aidre.Collection) -> None:
    docs.add([{"id": name, "text": "one", "title": name, "metadata": {"title": name.upper()}} for name in "abc"])
    for written in ("title", "metadata.title"):
        facet = aidre.FacetRequest(written, exclude_own=True)
        found = docs.search(vector=[1, 1, 1], facets=facet, filter={"metadata.title": "A"})
        assert [hit.document_id for hit in found] == ["a"]
        assert dict(found.facets[written].counts) == {"A": 1, "B": 1, "C": 1}
    assert dict(docs.facets("document_id", filter={"title": {"ne": "A"}})["document_id"].counts) == {"b": 1, "c": 1}
