"""What columns mean that no mapping describes, the same in every format of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from aidre.engine.model import Document
from aidre.ingest.records.mapping import Mappings, parse_mappings
from aidre.ingest.sources.folder import FileSource, read_source
from tests.support.ingests import Bench
from tests.support.rows import RULES, Format, Row, as_csv, as_json, as_lines, as_parquet, documents

flat = pytest.mark.parametrize("write", [as_csv, as_lines, as_json, as_parquet])

KETTLE = {
    "SKU": "K-1",
    "Product Name": "Kettle",
    "Unit Price": "39.00 EUR",
    "Product URL": "https://shop.example/k",
    "Image URL": "https://shop.example/k.jpg",
    "Last Modified": "2026-04-01",
    "Brand": "Ada",
    "description": "Steel, 1.7 litres.",
}


def read(folder: Path, write: Format, rows: list[Row], mappings: Mappings | None = None) -> list[Document]:
    folder.mkdir(exist_ok=True)
    write(folder / "r", rows)
    return documents(list(read_source(FileSource("d", folder), RULES, lambda _: None, mappings)))


@flat
def test_columns_of_usual_names_are_members_and_properties(tmp_path: Path, write: Format) -> None:
    (kettle,) = read(tmp_path / "d", write, [KETTLE])
    assert (kettle.id, kettle.title, kettle.url) == ("K-1", "Kettle", "https://shop.example/k")
    assert (kettle.updated_at, kettle.type) == ("2026-04-01T00:00:00Z", "Product")
    assert {name: kettle.metadata[name] for name in ("price", "priceCurrency", "brand", "image", "sku")} == {
        "price": 39, "priceCurrency": "EUR", "brand": "Ada", "image": "https://shop.example/k.jpg", "sku": "K-1",
    }  # fmt: skip
    assert "description" not in kettle.metadata and "https" not in kettle.text
    assert (
        "Product Name: Kettle\nUnit Price: 39.00 EUR" in kettle.text
        and "description: Steel, 1.7 litres." in kettle.text
    )


@flat
def test_an_id_that_is_only_guessed_costs_no_row(tmp_path: Path, write: Format) -> None:
    """Reviews of one product are as many documents."""
    rows: list[Row] = [{"product_id": "p", "review": "Good."}, {"product_id": "p", "review": "Bad."}]
    found = read(tmp_path / "d", write, rows)
    assert [each.text for each in found] == ["product_id: p\nreview: Good.", "product_id: p\nreview: Bad."]
    assert len({each.id for each in found}) == 2
    assert [each.id for each in read(tmp_path / "d", write, rows)] == [each.id for each in found]


@flat
def test_rows_with_a_text_keep_it_and_their_ids_and_gain_a_title_and_a_type(tmp_path: Path, write: Format) -> None:
    row = {"sku": "K-1", "text": "A kettle.", "name": "Kettle", "start_date": "05.06.2026"}
    (found,) = read(tmp_path / "d", write, [{name: value for name, value in row.items() if name != "sku"}])
    assert (found.text, found.title, found.type) == ("A kettle.", "Kettle", "Event")
    assert found.metadata["startDate"] == "2026-06-05T00:00:00Z"
    (found,) = read(tmp_path / "d", write, [row])
    assert found.id.startswith("d/r.") and found.type == "Product"


@flat
def test_a_row_that_names_its_type_keeps_it(tmp_path: Path, write: Format) -> None:
    (found,) = read(tmp_path / "d", write, [{"name": "Soup", "price": 3, "type": "https://schema.org/Recipe"}])
    assert found.type == "Recipe"


@flat
def test_a_mapping_without_a_text_leaves_the_text_to_the_columns(tmp_path: Path, write: Format) -> None:
    mappings = parse_mappings({"id": "no", "metadata": ["price"]}, "m")
    (found,) = read(tmp_path / "d", write, [{"no": "7", "name": "Kettle", "price": 39}], mappings)
    assert (found.id, found.text, found.metadata) == ("7", "no: 7\nname: Kettle\nprice: 39", {"price": 39})


@flat
def test_a_mapping_may_be_for_the_files_of_a_pattern(tmp_path: Path, write: Format) -> None:
    table = {"text": "body", "reviews*": {"text": "review", "title": "by"}, "old/*": {"text": "words"}}
    folder = tmp_path / "d"
    (folder / "old").mkdir(parents=True)
    write(folder / "reviews-1", [{"id": "a", "review": "Good.", "by": "Ada", "body": "x"}])
    write(folder / "others", [{"id": "b", "review": "x", "body": "A body."}])
    write(folder / "old" / "others", [{"id": "c", "words": "Old.", "body": "x"}])
    found = documents(list(read_source(FileSource("d", folder), RULES, lambda _: None, parse_mappings(table, "m"))))
    assert {each.id: (each.text, each.title) for each in found} == {
        "a": ("Good.", "Ada"), "b": ("A body.", None), "c": ("Old.", None),
    }  # fmt: skip


def test_objects_and_lists_are_text_by_the_names_of_their_members(tmp_path: Path) -> None:
    row: Row = {"name": "A", "maker": {"city": "Rome", "year": 1900}, "tags": ["x", "y"], "parts": [{"n": 1}, {"n": 2}]}
    (found,) = read(tmp_path / "d", as_lines, [row])
    assert found.text.splitlines() == [
        "name: A", "maker.city: Rome", "maker.year: 1900", "tags: x, y", "parts.n: 1", "parts.n: 2",
    ]  # fmt: skip
    assert found.metadata["maker"] == {"city": "Rome", "year": 1900}


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b'{"name": "A", "n": NaN}\n{"name": "B"}\n', ["name: A", "name: B"]),
        (b'{"name": "A", "id": 1.5}\n', ["name: A"]),
    ],
)
def test_what_json_has_no_word_for_costs_no_row(tmp_path: Path, content: bytes, texts: list[str]) -> None:
    (tmp_path / "r.jsonl").write_bytes(content)
    found = documents(list(read_source(FileSource("d", tmp_path), RULES, lambda _: None)))
    assert [each.text for each in found] == texts


@pytest.mark.parametrize(
    "value", [{"name": "A"}, [{"name": "A"}], {"total": 1, "items": [{"name": "A"}]}, {"items": [{"name": "A"}]}]
)
def test_a_file_of_json_that_is_named_is_rows_or_a_row(tmp_path: Path, value: Any) -> None:
    (tmp_path / "r.json").write_bytes(orjson.dumps(value))
    found = documents(list(read_source(FileSource("d", tmp_path, "r.json"), RULES, lambda _: None)))
    assert [each.text for each in found] == ["name: A"]


def test_a_payload_that_is_a_schema_object_is_the_object_of_the_document(tmp_path: Path) -> None:
    product = {"@type": "Product", "name": "Kettle", "offers": {"price": 39}}
    (found,) = read(tmp_path / "d", as_lines, [{"id": "a", "text": "A kettle.", "n": 1, "semantic_payload": product}])
    assert found.schema_object == found.semantic_payload == product
    assert (found.type, found.metadata) == ("Product", {"n": 1})
    (found,) = read(tmp_path / "d", as_lines, [{"id": "a", "semantic_payload": product}])
    assert (found.title, found.text) == ("Kettle", "Kettle")
    (found,) = read(tmp_path / "d", as_lines, [{"id": "a", "text": "x", "semantic_payload": {"a": 1}}])
    assert (found.schema_object, found.semantic_payload) == (None, {"a": 1})


def test_columns_of_vectors_are_documents_as_before(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.rows("r.jsonl", {"id": "a", "name": "Kettle", "vectors": {"words": [1.0] * 32}})
    bench.run()
    assert bench.text("a#chunk_1") == ""


@flat
def test_a_row_with_a_blank_text_among_others_has_the_text_of_its_columns(tmp_path: Path, write: Format) -> None:
    rows: list[Row] = [{"id": "a", "name": "A", "text": "Words."}, {"id": "b", "name": "B", "text": " "}]
    assert [each.text for each in read(tmp_path / "d", write, rows)] == ["Words.", "name: B"]
