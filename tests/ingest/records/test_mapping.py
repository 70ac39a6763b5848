"""What `[collections.NAME.mapping]` makes of columns of any name, the same in every format of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import ConfigurationError
from aidre.engine.model import Document
from aidre.ingest.records.mapping import parse_column_mapping
from aidre.ingest.records.source_items import Item, Rejected
from aidre.ingest.sources.folder import FileSource, read_source
from tests.support.ingests import BROUGHT, WORDS, Bench
from tests.support.rows import RULES, Format, Row, as_csv, as_json, as_lines, as_parquet, documents, mappings

flat = pytest.mark.parametrize("write", [as_csv, as_lines, as_json, as_parquet])
nested = pytest.mark.parametrize("write", [as_lines, as_json, as_parquet])

ROW = {
    "doc_no": "7",
    "headline": "A shoe",
    "body": "Light and dry.",
    "modified": "2026-04-01",
    "brand": "Alpina",
    "price": 129.5,
    "stock": 3,
}


def found(folder: Path, write: Format, rows: Sequence[Row], **table: Any) -> list[Item]:
    folder.mkdir(exist_ok=True)
    write(folder / "r", rows)
    return list(read_source(FileSource("d", folder), RULES, lambda _: None, mappings(**table)))


def one(folder: Path, write: Format, row: Row, **table: Any) -> Document:
    (document,) = documents(found(folder, write, [row], **table))
    return document


@flat
def test_columns_become_the_members_and_the_rest_is_metadata(tmp_path: Path, write: Format) -> None:
    document = one(tmp_path / "d", write, ROW, id="doc_no", title="headline", text="body", updated_at="modified")
    assert (document.id, document.title, document.text) == ("7", "A shoe", "Light and dry.")
    assert document.updated_at == "2026-04-01T00:00:00Z"
    assert document.metadata == {"brand": "Alpina", "price": 129.5, "stock": 3}


@flat
def test_columns_are_joined_and_may_be_used_twice(tmp_path: Path, write: Format) -> None:
    document = one(tmp_path / "d", write, ROW, text=["headline", "body", "missing"], title=["brand", "headline"])
    assert (document.text, document.title) == ("A shoe\n\nLight and dry.", "Alpina A shoe")
    assert document.metadata == {"doc_no": "7" if write is not as_csv else 7} | {
        name: ROW[name] for name in ("modified", "price", "stock")
    }


@flat
def test_one_column_may_be_two_members(tmp_path: Path, write: Format) -> None:
    document = one(tmp_path / "d", write, ROW, id="doc_no", title="headline", text="headline", metadata=["brand"])
    assert (document.title, document.text, document.metadata) == ("A shoe", "A shoe", {"brand": "Alpina"})


@flat
def test_a_template_is_filled_and_absent_where_all_its_columns_are(tmp_path: Path, write: Format) -> None:
    table = {"text": "{headline}: {body} {{{brand}}}{missing}", "title": "no {missing}", "section": "shop"}
    document = one(tmp_path / "d", write, ROW | {"shop": "Shoes"}, **table)
    assert (document.text, document.title, document.section) == ("A shoe: Light and dry. {Alpina}", None, "Shoes")


@flat
def test_only_the_metadata_that_is_named_is_kept(tmp_path: Path, write: Format) -> None:
    document = one(tmp_path / "d", write, ROW, id="doc_no", text="body", metadata=["brand", "price", "headline"])
    assert document.metadata == {"brand": "Alpina", "price": 129.5, "headline": "A shoe"}
    document = one(tmp_path / "d", write, {"id": "x", "text": "y", "n": 1, "o": 2}, metadata=["n"])
    assert (document.id, document.text, document.metadata) == ("x", "y", {"n": 1})


@nested
def test_dotted_names_reach_into_objects(tmp_path: Path, write: Format) -> None:
    row = {"meta": {"no": "7", "lang": "de", "size": {"eu": 42, "us": 9}}, "body": {"text": "words"}}
    document = one(tmp_path / "d", write, row, id="meta.no", text="body.text", title="{meta.lang} {meta.size.eu}")
    assert (document.id, document.text, document.title) == ("7", "words", "de 42")
    assert document.metadata == {"meta": {"size": {"us": 9}}, "body": {}}
    document = one(tmp_path / "d", write, row, id="meta.no", text="body.text", metadata=["meta.size.us", "meta.lang"])
    assert document.metadata == {"meta": {"size": {"us": 9}, "lang": "de"}}


@flat
def test_a_column_whose_name_has_a_dot_is_itself(tmp_path: Path, write: Format) -> None:
    document = one(tmp_path / "d", write, {"a.b": "words", "n": 1}, text="a.b")
    assert (document.text, document.metadata) == ("words", {"n": 1})


@flat
def test_a_column_may_hold_the_vectors_of_a_space(tmp_path: Path, write: Format) -> None:
    row = {"id": "a", "text": "x", "embedding": [1.0, 2.0, 3.0], "n": 1}
    document = one(tmp_path / "d", write, row, vectors={"s": "embedding"})
    assert document.vectors is not None and document.vectors["s"].tolist() == [1.0, 2.0, 3.0]
    assert document.metadata == {"n": 1}
    bad = found(tmp_path / "d", write, [row | {"embedding": [1.0]}], vectors={"s": "embedding"})
    assert [isinstance(each, Rejected) and "1 numbers" in each.reason for each in bad] == [True]


@nested
def test_vectors_may_be_nested_beside_others_and_only_named_metadata(tmp_path: Path, write: Format) -> None:
    row = {"id": "a", "text": "x", "model": {"v": [1.0, 2.0], "name": "m"}, "vectors": {"s": [1.0, 2.0, 3.0]}}
    for more in ({}, {"metadata": ["model.name"]}):
        document = one(tmp_path / "d", write, row, vectors={"d": "model.v"}, **more)
        assert {name: v.tolist() for name, v in (document.vectors or {}).items()} == {
            "d": [1.0, 2.0],
            "s": [1.0, 2.0, 3.0],
        }
        assert document.metadata == {"model": {"name": "m"}}


@nested
def test_a_schema_object_is_mapped_and_still_comes_back_whole(tmp_path: Path, write: Format) -> None:
    row = {"@type": "Product", "@id": "urn:1", "sku": "s-1", "name": "Shoe", "description": "Light."}
    document = one(tmp_path / "d", write, row, id="sku", text="{name}. {description}")
    assert (document.id, document.text, document.title) == ("s-1", "Shoe. Light.", "Shoe")
    assert document.schema_object == row


@flat
def test_a_row_that_lacks_a_mapped_column_lacks_the_member(tmp_path: Path, write: Format) -> None:
    rows = [{"no": "a", "body": "x"}, {"no": "b", "body": "y", "head": "T"}]
    documents_ = documents(found(tmp_path / "d", write, rows, id="no", title="head", text="body"))
    assert [each.title for each in documents_] == [None, "T"]


@flat
def test_a_column_that_no_row_has_is_refused_before_anything_is_stored(tmp_path: Path, write: Format) -> None:
    bench = Bench(tmp_path)
    bench.docs.mkdir()
    write(bench.docs / "r", [ROW])
    with pytest.raises(ConfigurationError) as error:
        bench.run(mappings=mappings(id="docno", text="body"))
    assert "collections.c.mapping" in error.value.message and "'docno'" in error.value.message
    assert "doc_no" in error.value.message and "\n" not in error.value.message
    assert not bench.store.path.exists()


@flat
def test_mapped_rows_are_ingested_once(tmp_path: Path, write: Format) -> None:
    bench = Bench(tmp_path, spaces=(WORDS, BROUGHT))
    bench.docs.mkdir()
    write(bench.docs / "r", [ROW | {"v": [1.0, 0.0, 0.0, 0.0]}])
    options = {"mappings": mappings(id="doc_no", text=["headline", "body"], vectors={"brought": "v"})}
    assert (bench.run(**options).updated, bench.problems) == (1, [])
    assert bench.text("7#chunk_1") == "A shoe\n\nLight and dry."
    again = bench.run(**options)
    assert (again.updated, again.unchanged, again.embedded) == (0, 1, 0)
    other = {"mappings": mappings(id="doc_no", text="body", vectors={"brought": "v"})}
    assert bench.run(**other).updated == 1


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ({"headline": "x"}, "m.headline"),
        ({"text": 3}, "m.text"),
        ({"text": ""}, "m.text"),
        ({"text": []}, "m.text"),
        ({"text": ["a", 1]}, "m.text"),
        ({"text": "{}"}, "m.text"),
        ({"text": "{a"}, "m.text"),
        ({"text": "a}"}, "m.text"),
        ({"metadata": "brand"}, "m.metadata"),
        ({"metadata": ["a", "a.b"]}, "m.metadata"),
        ({"vectors": "v"}, "m.vectors"),
        ({"vectors": {"s": 1}}, "m.vectors"),
    ],
)
def test_a_mapping_that_means_nothing_is_refused_by_name(table: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_column_mapping(table, "m")
    assert error.value.message.startswith(name)


def test_an_object_is_no_words(tmp_path: Path) -> None:
    (rejected,) = found(tmp_path / "d", as_lines, [{"id": "a", "body": {"x": 1}}], text="{body}")
    assert isinstance(rejected, Rejected) and "text" in rejected.reason and rejected.document_id == "a"
    assert one(tmp_path / "d", as_lines, {"id": "a", "tags": ["x", "y"]}, text="{tags}").text == "x, y"


def test_no_mapping_is_none() -> None:
    assert parse_column_mapping({}, "m") is None
