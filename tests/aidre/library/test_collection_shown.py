"""How hits, documents and collections are shown, and hits as tables: with text and metadata, and of all types."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import aidre

LONG = "a banana and " * 30


@pytest.fixture
def rows(docs: aidre.Collection) -> aidre.Collection:
    docs.add(
        [
            {"id": "a", "text": LONG, "price": 3, "tags": ["x", 1], "size": {"cm": 1}, "mixed": "free"},
            {"id": "b", "text": "two <b>", "title": "Two", "price": 2.5, "big": 2**62, "mixed": 3},
            {"id": "c", "text": "three", "flag": True, "list": [1, 2]},
        ]
    )
    return docs


def test_hits_are_a_table_with_metadata(rows: aidre.Collection) -> None:
    hits = rows.search("banana", k=3)
    table = hits.to_arrow()
    assert table.column_names == ["rank", "score", "id", "document_id", "text", "title", "url", "metadata"]
    by_id = {row["document_id"]: row for row in table.to_pylist()}
    assert [row["rank"] for row in table.to_pylist()] == [0, 1, 2]
    assert by_id["a"]["text"] == LONG.strip()
    found = {name: {key: one for key, one in row["metadata"].items() if one is not None} for name, row in by_id.items()}
    assert found == {
        "a": {"price": 3.0, "tags": '["x", 1]', "size": {"cm": 1}, "mixed": '"free"'},
        "b": {"price": 2.5, "big": 2**62, "mixed": "3"},
        "c": {"flag": True, "list": [1, 2]},
    }
    assert "metadata.price" in table.flatten().column_names


def test_numbers_that_no_column_has_exactly_are_json(docs: aidre.Collection) -> None:
    docs.add([{"id": "a", "text": "x", "n": 2**60 + 1}, {"id": "b", "text": "y", "n": 0.5}])
    table = docs.search("x", k=2).to_arrow()
    assert {row["n"] for row in table["metadata"].to_pylist()} == {str(2**60 + 1), "0.5"}


def test_hits_without_metadata_are_a_table_that_a_file_can_hold(docs: aidre.Collection) -> None:
    docs.add(["a text"])
    for hits in (docs.search("text"), docs.search("text", filter={"none": 1})):
        assert pa.types.is_null(hits.to_arrow().schema.field("metadata").type)


def test_the_hits_of_many_queries_are_one_table(rows: aidre.Collection) -> None:
    many = rows.search_many(["banana", "three"], k=2)
    table = many.to_arrow()
    assert table["query"].to_pylist() == [0, 0, 1, 1]
    assert table["rank"].to_pylist() == [0, 1, 0, 1]
    assert table["id"].to_pylist() == [hit.id for hits in many for hit in hits]
    assert "price" in table["metadata"].type.names


def test_frames_are_made_by_their_libraries(rows: aidre.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(DataFrame=lambda columns: columns))
    hits = rows.search("banana", k=3)
    frame: Any = hits.to_pandas()
    assert list(frame) == hits.to_arrow().column_names
    assert frame["metadata"] == [dict(hit.metadata) for hit in hits]
    polars: Any = hits.to_polars()
    assert polars.equals(hits.to_arrow())
    many: Any = rows.search_many(["banana"]).to_pandas()
    assert next(iter(many)) == "query"


def test_a_library_that_is_missing_is_named(rows: aidre.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    hits = rows.search("banana")
    for verb, name in ((hits.to_pandas, "pandas"), (hits.to_polars, "polars"), (hits.to_arrow, "pyarrow")):
        with pytest.raises(aidre.ConfigurationError, match=f"pip install {name}"):
            verb()


def test_what_is_printed_shows_the_text_on_one_line(rows: aidre.Collection) -> None:
    hit = rows.search("banana", k=1)[0]
    for shown in (repr(hit), repr(hit.chunk), repr(rows["a"]), repr(rows), repr(rows.at(1))):
        assert "a banana and a banana" in shown
        assert "…" in shown
        assert len(shown) < 260
        assert "\n" not in shown
    assert "'price': 3" in repr(rows["a"])
    assert "verbatim" not in repr(rows["a"])
    assert "3 documents" in repr(rows)


def test_a_collection_is_printed_where_nothing_can_be_read(db: aidre.Database, docs: aidre.Collection) -> None:
    assert repr(docs) == f"<Collection 'docs' of {db.path}>"
    docs.add("a text")
    db.close()
    assert repr(docs) == f"<Collection 'docs' of {db.path}>"


def test_notebooks_show_tables_whose_texts_are_no_html(rows: aidre.Collection) -> None:
    hits = rows.search("banana", k=3)
    shown: list[Any] = [hits, rows, rows["b"], rows.search_many(["two"], k=3), next(one for one in hits if one.title)]
    for one in shown:
        html = one._repr_html_()
        assert "<table>" in html
        assert "two &lt;b&gt;" in html
        assert "<b>" not in html
    assert "3 documents" in rows._repr_html_()
    assert aidre.Hits()._repr_html_() == "<p>no rows</p>"
