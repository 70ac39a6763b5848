"""Rows of JSON Lines and Parquet: what their members mean, and how each bad row is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.ingest.records.file import File
from aidre.ingest.records.items import Item, Rejected
from aidre.ingest.sources.readers import read_file
from tests.support.ingests import RULES, documents, from_json, from_parquet, lines, one, reason, where

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


def test_a_vector_whose_square_is_out_of_range_is_read(tmp_path: Path) -> None:
    document = one(from_json(tmp_path, [{"id": "a", "vectors": {"d": [1e30, -2.5]}}]))
    assert document.vectors is not None
    assert document.vectors["d"].tolist() == np.array([1e30, -2.5], np.float32).tolist()


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


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"text": "a", "articleBody": "b", "description": "c"}, "a"),
        ({"articleBody": "b", "description": "c"}, "b"),
        ({"reviewBody": "r", "name": "n"}, "r"),
        ({"mainEntity": [{"name": "Why?", "acceptedAnswer": {"text": "So."}}]}, "Why?\n\nSo."),
        ({"name": "only a name"}, "only a name"),
        ({"description": {"@language": "en", "@value": "tagged"}}, "tagged"),
        ({"description": 3}, ""),
    ],
)
def test_the_text_of_a_schema_object_is_what_it_says_in_words(
    tmp_path: Path, members: dict[str, Any], text: str
) -> None:
    assert one(from_json(tmp_path, [{"@type": "Thing", "id": "a"} | members])).text == text


def test_a_schema_object_with_odd_dates_and_addresses_is_no_failure(tmp_path: Path) -> None:
    row = {"@type": "Article", "id": "a", "text": "x", "datePublished": "last week", "url": ["https://x.org"]}
    document = one(from_json(tmp_path, [row]))
    assert (document.updated_at, document.url) == (None, "https://x.org")


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


ARTICLE = b'{"@type":"Article","name":"A","articleBody":"words"}'


@pytest.mark.parametrize("start", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["r.jsonl", "r.tsv", "r.txt"])
def test_lines_of_an_address_and_json_are_documents_of_that_address(tmp_path: Path, name: str, start: bytes) -> None:
    path = tmp_path / name
    second = b'[{"@type":"Product","@id":"urn:p","name":"P","url":"https://x.org/other"},{"@type":"Recipe","name":"R"},'
    path.write_bytes(
        start
        + b"https://x.org/a\t" + ARTICLE + b"\r\n\n"
        + b"https://x.org/b\t" + second + b'{"@type":"Organization","url":"https://x.org"},{"@type":"Recipe"}]\n'
        + b'https://x.org/c\t{"@graph":[{"@type":"Organization","name":"O"}]}'
    )  # fmt: skip
    found = documents(list(read_file(File(path, "src", name), RULES)))
    assert [(each.id, each.url) for each in found] == [
        ("https://x.org/a", "https://x.org/a"),
        ("urn:p", "https://x.org/b"),
        ("https://x.org/b", "https://x.org/b"),
        ("https://x.org/b#2", "https://x.org/b"),
        ("https://x.org/c", "https://x.org/c"),
    ]
    assert (found[0].text, found[0].schema_object) == (
        "words",
        {"@type": "Article", "name": "A", "articleBody": "words"},
    )


@pytest.mark.parametrize(
    "line",
    [b"words", b"https://x.org/b", b"https://x.org/b\t{", b"https://x.org/b\t3", b"ftp://x.org/b\t" + ARTICLE,
     b"https://x.org/b\t{}", b"https://x.org/b\t[]", b'https://x.org/b\t["x"]', b"https://x.org/\xff\t" + ARTICLE],
)  # fmt: skip
def test_a_line_that_is_no_address_with_json_fails_and_the_next_is_read(tmp_path: Path, line: bytes) -> None:
    found = lines(tmp_path, b"https://x.org/a\t" + ARTICLE + b"\n" + line + b"\nhttps://x.org/c\t" + ARTICLE)
    assert [where(each) for each in found] == [f"r.jsonl:{number}" for number in (1, 2, 3)]
    assert isinstance(found[1], Rejected) and "\n" not in found[1].reason


def test_a_text_that_begins_with_an_address_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    path.write_text("https://x.org/a\tis a page\n")
    assert one(list(read_file(File(path, "src", "r.txt"), RULES))).text == "https://x.org/a\tis a page\n"


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"3",
        b"null",
        b'{"id":"a","vectors":{"s":[NaN,1,2]}}',
        b'{"id":"a","text":"\\ud800"}',
        b'{"id":"a","text":"\xff"}',
        b'{"id":"a","vectors":[1,2]}',
        b'{"id":"a","vectors":{"s":"abc"}}',
        b'{"id":"a","vectors":{"s":["1","2","3"]}}',
        b'{"id":"a","vectors":{"s":[true,false,true]}}',
        b'{"id":"a","vectors":{"s":[true,0,2.5]}}',
        b'{"id":"a","vectors":{"s":[[1],[2],[3]]}}',
        b'{"id":"a","vectors":{"s":[1,[2],3]}}',
        b'{"id":"a","vectors":{"s":[1e300,1,2]}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_a_line_that_is_no_row_fails_and_the_next_is_read(tmp_path: Path, line: bytes) -> None:
    found = lines(tmp_path, line + b'\n\n \r\n{"id":"b","text":"x"}')
    assert [where(each) for each in found] == ["r.jsonl:1", "r.jsonl:4"]
    assert isinstance(found[0], Rejected) and "\n" not in found[0].reason


def test_numbers_beyond_64_bits_do_no_harm(tmp_path: Path) -> None:
    found = lines(tmp_path, b'{"id":"a","text":"x","metadata":{"n":123456789012345678901234567890}}')
    assert one(found).metadata["n"] == pytest.approx(1.2345678901234568e29)


def test_a_line_beyond_the_limit_fails_and_the_next_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.ingest.formats.tables.json_lines.MAX_DOCUMENT_BYTES", 40)
    found = lines(
        tmp_path, b'\xef\xbb\xbf{"id":"a","text":"x"}\n' + b"x" * 500 + b'\n{"id":"b","text":"x"}\n' + b"y" * 41
    )
    assert [where(each) for each in found] == [f"r.jsonl:{number}" for number in (1, 2, 3, 4)]
    assert [isinstance(each, Rejected) for each in found] == [False, True, False, True]


@pytest.mark.parametrize("start", [b"", b"https://example.org/a\t"])
@pytest.mark.parametrize("part", [b"[]", b"{}", b'"ab"', b"1"])
def test_a_line_of_more_values_than_memory_should_have_is_refused_unread(
    tmp_path: Path, start: bytes, part: bytes
) -> None:
    line = start + b'{"id":"a","@type":"Article","text":"x","tags":[' + (part + b",") * 1_000_001 + b"1]}\n"
    found = lines(tmp_path, line + start + b'{"id":"b","@type":"Article","text":"x"}\n')
    assert isinstance(found[0], Rejected)
    assert found[0].reason == "has more than 1,000,000 values (commas and brackets): split it"
    assert documents(found[1:])[0].id == "b"


def test_a_long_text_has_as_many_commas_as_it_likes(tmp_path: Path) -> None:
    text = "one, two, three. " * 200_000
    assert one(from_json(tmp_path, [{"id": "a", "text": text}])).text == text


def test_json_in_a_column_of_parquet_has_the_bounds_of_a_row(tmp_path: Path) -> None:
    many = '{"a": [' + "[]," * 600_000 + "[]]}"
    rows = [{"id": "a", "text": "x", "metadata": many}, {"id": "b", "text": "x", "metadata": "{}"}]
    found = from_parquet(tmp_path, rows)
    assert reason(found[:1]) == "metadata has more than 1,000,000 values (commas and brackets): split it"
    payload = from_parquet(tmp_path, [{"id": "a", "text": "x", "semantic_payload": many}])
    assert reason(payload) == "semantic_payload has more than 1,000,000 values (commas and brackets): split it"
