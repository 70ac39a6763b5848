"""JSON Lines: lines as rows, lines of an address and JSON-LD, and lines that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Rejected
from aidre.ingest.sources.readers import read_file
from tests.support.rows import RULES, documents, from_json, lines, one, where

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
     b"https://x.org/b\t{}", b"https://x.org/b\t[]", b'https://x.org/b\t["x"]'],
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


def test_a_row_in_another_encoding_is_read(tmp_path: Path) -> None:
    found = lines(tmp_path, '{"id":"a","text":"Brücke"}\n{"id":"b","text":"x"}'.encode("cp1252"))
    assert [each.text for each in documents(found)] == ["Brücke", "x"]


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
