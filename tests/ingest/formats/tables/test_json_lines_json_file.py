"""A file that is one JSON text: JSON-LD in its forms, lists of rows, and what is neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Item, Rejected
from aidre.ingest.sources.locate import locate_sources
from aidre.ingest.sources.readers import read_file
from aidre.ingest.sources.table_columns import supplied_spaces
from tests.support.ingests import Bench
from tests.support.rows import RULES, documents, one, reason, where

RECIPE = {
    "@context": "https://schema.org",
    "@type": "Recipe",
    "@id": "https://x.org/soup",
    "name": "Soup",
    "recipeIngredient": ["water", "salt"],
    "author": {"@id": "#jane"},
}
JANE = {"@type": "Person", "@id": "#jane", "name": "Jane", "url": "https://x.org/jane"}


def read(tmp_path: Path, value: Any, name: str = "r.jsonld") -> list[Item]:
    path = tmp_path / name
    path.write_bytes(value if isinstance(value, bytes) else orjson.dumps(value))
    return list(read_file(File(path, "src", name), RULES))


@pytest.mark.parametrize("name", ["r.json", "r.jsonld"])
@pytest.mark.parametrize("form", ["list", "graph", "list of graphs", "graph of lists"])
def test_every_form_of_a_graph_gives_its_documents_with_what_they_link_to(tmp_path: Path, name: str, form: str) -> None:
    forms: dict[str, Any] = {
        "list": [RECIPE, JANE],
        "graph": {"@context": "https://schema.org", "@graph": [JANE, RECIPE]},
        "list of graphs": [{"@graph": [RECIPE]}, {"@graph": [JANE]}],
        "graph of lists": {"@graph": [[RECIPE], JANE]},
    }
    document = one(read(tmp_path, forms[form], name))
    author = {each: value for each, value in JANE.items() if each != "@context"}
    assert document.schema_object == document.semantic_payload == RECIPE | {"author": author}
    assert (document.id, document.title, document.text) == ("https://x.org/soup", "Soup", "water\n\nsalt")


def test_one_object_is_one_document(tmp_path: Path) -> None:
    found = read(tmp_path, b"\xef\xbb\xbf" + orjson.dumps(RECIPE))
    assert where(found[0]) == "r.jsonld"
    assert one(found).schema_object == RECIPE


def test_a_list_of_rows_is_read_as_rows(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "a", "n": 2, "vectors": {"d": [1, 2]}}, {"id": 2, "text": 3}, {"id": 3, "text": "c"}]
    found = read(tmp_path, rows, "r.json")
    assert [where(each) for each in found] == [
        "r.json[0]",
        "r.json[1]",
        "r.json[2]",
    ]
    first = documents(found[:1])[0]
    assert (first.id, first.metadata) == ("1", {"n": 2}) and first.vectors is not None
    assert isinstance(found[1], Rejected) and "text" in found[1].reason
    assert supplied_spaces(locate_sources([tmp_path])) == {"d"}


def test_a_bad_node_is_named_by_its_place_and_the_others_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, {"@graph": [RECIPE, {"name": "no type"}, {"@type": 3, "name": "x"}, "text"]})
    assert [each.where for each in found if isinstance(each, Rejected)] == ["r.jsonld[1]", "r.jsonld[2]", "r.jsonld[3]"]
    assert len(found) == 4


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"3", b'"x"', b"[1,2]", b'[{"id":1},2]', b"\xff\xfe{\x00", b"[" * 5000],
)
def test_what_is_neither_fails_by_name(tmp_path: Path, content: bytes) -> None:
    assert len(reason(read(tmp_path, content, "r.json")).split()) > 3


def test_a_file_that_would_fill_the_memory_fails_by_name(tmp_path: Path) -> None:
    assert "4,000,000" in reason(read(tmp_path, b"[" + b"{}," * 2_000_001 + b"{}]", "r.json"))


@pytest.mark.parametrize("content", [b"[]", b'{"@graph":[]}'])
def test_nothing_is_no_failure(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content) == []


def test_objects_are_ingested_once_and_anew_when_what_they_link_to_changes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("a.jsonld", orjson.dumps([RECIPE, JANE]))
    assert (bench.run().updated, bench.problems) == (1, [])
    again = bench.run()
    assert (again.updated, again.unchanged, again.embedded) == (0, 1, 0)
    bench.write("a.jsonld", orjson.dumps([RECIPE, JANE | {"name": "Joan"}]))
    again = bench.run()
    assert (again.updated, again.embedded) == (1, 0)
