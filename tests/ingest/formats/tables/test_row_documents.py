"""Rows of JSON Lines and Parquet as documents: what their members mean, and how each bad row is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.ingest.records.source_items import Item, Rejected
from tests.support.rows import documents, from_json, from_parquet, one, reason, where

either = pytest.mark.parametrize("rows", [from_json, from_parquet])


Rows = Callable[[Path, Sequence[dict[str, Any]]], list[Item]]


@either
def test_the_members_of_a_row_become_the_document(tmp_path: Path, rows: Rows) -> None:
    row = {
        "id": "a",
        "title": "T",
        "text": "words",
        "url": "https://x.org/a",
        "updated_at": "2026-04-01T12:00:00+02:00",
        "section": "S",
        "type": "Article",
        "metadata": {"lang": "en", "n": 3},
        "semantic_payload": {"k": [1, 2]},
        "vectors": {"s": [1.0, 2.0, 3.0], "d": [0.0, 1.0]},
    }
    document = one(rows(tmp_path, [row]))
    assert (document.id, document.title, document.text, document.url) == ("a", "T", "words", "https://x.org/a")
    assert (document.updated_at, document.section, document.type) == ("2026-04-01T10:00:00Z", "S", "Article")
    assert (document.metadata, document.semantic_payload) == ({"lang": "en", "n": 3}, {"k": [1, 2]})
    assert (document.canonical, document.schema_object, document.source) == (True, None, "src")
    assert document.vectors is not None
    assert {name: vector.tolist() for name, vector in document.vectors.items()} == row["vectors"]
    assert {vector.dtype for vector in document.vectors.values()} == {np.dtype(np.float32)}


@either
def test_unknown_members_go_into_the_metadata_unless_it_has_the_name(tmp_path: Path, rows: Rows) -> None:
    document = one(rows(tmp_path, [{"id": "a", "text": "x", "lang": "en", "n": 1, "metadata": {"n": 2}}]))
    assert document.metadata == {"lang": "en", "n": 2}


@either
def test_the_place_of_a_row_is_its_line(tmp_path: Path, rows: Rows) -> None:
    found = rows(tmp_path, [{"id": "a", "text": "x"}, {"id": "", "text": "x"}, {"id": "c", "text": "x"}])
    wheres = [where(each) for each in found]
    assert [where.split(":")[1] for where in wheres] == ["1", "2", "3"]
    assert [isinstance(each, Rejected) for each in found] == [False, True, False]


@either
def test_the_id_is_id_or_url_and_numbers_become_digits(tmp_path: Path, rows: Rows) -> None:
    assert one(rows(tmp_path, [{"id": 7, "text": "x"}])).id == "7"
    assert one(rows(tmp_path, [{"url": "https://x.org", "text": "x"}])).id == "https://x.org"
    assert one(rows(tmp_path, [{"@type": "Thing", "@id": "urn:1", "url": "https://x.org", "text": "x"}])).id == "urn:1"


@either
def test_a_row_without_an_id_is_known_by_what_it_says(tmp_path: Path, rows: Rows) -> None:
    first, second = documents(rows(tmp_path, [{"text": "one"}, {"text": "two"}]))
    assert first.id != second.id
    assert first.id.startswith("src/r.")
    assert [each.id for each in documents(rows(tmp_path, [{"text": "zero"}, {"text": "one"}]))][1] == first.id


def test_rows_of_vectors_alone_have_ids_of_their_own(tmp_path: Path) -> None:
    found = documents(from_json(tmp_path, [{"vectors": {"d": [1, n]}} for n in (1, 2)]))
    assert found[0].id != found[1].id


@either
@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2026-04-01", "2026-04-01T00:00:00Z"),
        ("2026-04-01T10:00:00", "2026-04-01T10:00:00Z"),
        ("2026-04-01t10:00:00.25z", "2026-04-01T10:00:00.250000Z"),
        ("2026-04-01 10:00:00-01:30", "2026-04-01T11:30:00Z"),
    ],
)
def test_dates_are_normalised_to_utc(tmp_path: Path, rows: Rows, given: str, stored: str) -> None:
    assert one(rows(tmp_path, [{"id": "a", "text": "x", "updated_at": given}])).updated_at == stored


@either
@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"id": ""}, "id"),
        ({"id": " "}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"id": "x" * 1025}, "id"),
        ({"id": 1.5}, "id"),
        ({"id": True}, "id"),
        ({"text": 3}, "text"),
        ({"url": 3}, "url"),
        ({"section": ["a"]}, "section"),
        ({"type": 3}, "type"),
        ({"updated_at": "soon"}, "updated_at"),
        ({"updated_at": "2026-02-30"}, "updated_at"),
        ({"updated_at": "0001-01-01T00:00:00+10:00"}, "updated_at"),
        ({"updated_at": 1700000000}, "updated_at"),
        ({"canonical": 1}, "canonical"),
        ({"metadata": [1]}, "metadata"),
        ({"metadata": {"etag": "x"}}, "etag"),
        ({"metadata": {"visibility": "private"}}, "visibility"),
        ({"visibility": "private"}, "visibility"),
        ({"metadata": {"updated_at": "soon"}}, "updated_at"),
        ({"metadata": {"canonical": 3}}, "canonical"),
        ({"provenance": "me"}, "provenance"),
        ({"vectors": {"s": [1.0, 2.0]}}, "vectors.s"),
        ({"vectors": {"s": [0.0, 0.0, 0.0]}}, "vectors.s"),
        ({"vectors": {"other": [1.0]}}, "vectors.other"),
        ({"vectors": {"s": [1.0, None, 2.0]}}, "vectors.s"),
    ],
)
def test_a_bad_member_fails_by_name(tmp_path: Path, rows: Rows, row: dict[str, Any], name: str) -> None:
    assert name in reason(rows(tmp_path, [{"id": "a", "text": "x"} | row]))


@either
def test_a_row_that_fails_keeps_its_id_for_the_mirror(tmp_path: Path, rows: Rows) -> None:
    (rejected,) = rows(tmp_path, [{"id": "a", "text": "x", "vectors": {"s": [1.0]}}])
    assert isinstance(rejected, Rejected) and rejected.document_id == "a"


@either
def test_reserved_names_in_their_own_sense_are_the_documents(tmp_path: Path, rows: Rows) -> None:
    metadata = {"updated_at": "2026-04-01", "canonical": False, "n": 1}
    document = one(rows(tmp_path, [{"id": "a", "text": "x", "metadata": metadata}]))
    assert (document.updated_at, document.canonical, document.metadata) == ("2026-04-01T00:00:00Z", False, {"n": 1})


@either
def test_a_schema_object_is_kept_whole_and_is_the_payload(tmp_path: Path, rows: Rows) -> None:
    row = {
        "@context": "https://schema.org",
        "@type": ["schema:Recipe", "NewsArticle"],
        "@id": "urn:r",
        "name": "Soup",
        "url": "https://x.org/soup",
        "description": "Warm.",
        "recipeIngredient": ["water", "salt"],
        "recipeInstructions": [{"@type": "HowToStep", "text": "Boil."}],
        "dateModified": "2026-04-01",
        "extra": {"deep": [1]},
    }
    document = one(rows(tmp_path, [row | {"vectors": {"d": [1.0, 2.0]}}]))
    assert document.schema_object == document.semantic_payload == row
    assert (document.id, document.title, document.type, document.url) == (
        "urn:r",
        "Soup",
        "Recipe",
        "https://x.org/soup",
    )
    assert document.text == "Warm.\n\nwater\n\nsalt\n\nBoil."
    assert (document.updated_at, document.metadata) == ("2026-04-01T00:00:00Z", {})
    assert document.vectors is not None


def test_a_payload_that_the_row_brings_wins_over_the_object(tmp_path: Path) -> None:
    row = {"@type": "Thing", "id": "a", "text": "x", "semantic_payload": {"own": 1}, "metadata": {"n": 1}}
    document = one(from_json(tmp_path, [row]))
    assert (document.semantic_payload, document.metadata) == ({"own": 1}, {"n": 1})


def test_a_graph_is_as_many_documents_as_it_has_objects(tmp_path: Path) -> None:
    graph = [{"@type": "Thing", "@id": f"urn:{n}", "name": f"n{n}"} for n in range(2)]
    found = documents(from_json(tmp_path, [{"@context": "c", "@graph": graph}]))
    assert [each.id for each in found] == ["urn:0", "urn:1"]
    assert found[0].schema_object == {"@context": "c", **graph[0]}
    assert "@graph" in reason(from_json(tmp_path, [{"@graph": [{"no": "type"}]}]))


@either
def test_a_name_inside_a_text_is_no_id(tmp_path: Path, rows: Rows) -> None:
    local = [{"@type": "Thing", "@id": name, "name": "n", "url": "https://x.org/a"} for name in ("#me", "_:b0")]
    assert [each.id for each in documents(rows(tmp_path, local))] == ["https://x.org/a"] * 2
    assert one(rows(tmp_path, [{"@type": "Thing", "@id": "#me", "name": "n"}])).id.startswith("src/r.")


@either
def test_links_inside_a_row_are_followed(tmp_path: Path, rows: Rows) -> None:
    jane = {"@id": "#jane", "@type": "Person", "name": "Jane"}
    row = {"@type": "Article", "@id": "urn:1", "text": "x", "author": jane, "review": {"author": {"@id": "#jane"}}}
    document = one(rows(tmp_path, [row | {"vectors": {"d": [1.0, 2.0]}}]))
    assert document.schema_object == row | {"review": {"author": jane}}
    assert document.vectors is not None


def test_a_graph_in_a_row_is_linked_and_its_parts_are_no_documents(tmp_path: Path) -> None:
    jane = {"@type": "Person", "@id": "#jane", "name": "Jane"}
    article = {"@type": "Article", "@id": "urn:1", "articleBody": "x", "author": {"@id": "#jane"}}
    document = one(from_json(tmp_path, [{"@graph": [jane, article]}]))
    assert (document.id, document.schema_object) == ("urn:1", article | {"author": jane})
