"""schema.org objects as rows: which property is the text, the title, the date and the address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.schemaorg import list_types, read_main_type, to_row
from tests.support.rows import from_json, one


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


@pytest.mark.parametrize(
    ("kinds", "main", "every"),
    [
        ("schema:Recipe", "Recipe", ["Recipe"]),
        (["https://schema.org/Recipe", "NewsArticle"], "Recipe", ["Recipe", "NewsArticle"]),
        (["Recipe", 3, None], "Recipe", ["Recipe"]),
    ],
)
def test_types_come_without_the_prefix_of_the_vocabulary(kinds: Any, main: str, every: list[str]) -> None:
    assert read_main_type({"@type": kinds}) == main
    assert list_types({"@type": kinds}) == every


@pytest.mark.parametrize("kinds", [3, None, [], [3, "Recipe"], {}])
def test_an_object_without_a_type_is_refused(kinds: Any) -> None:
    with pytest.raises(InvalidDocument, match="@type must be a string or a list of strings"):
        read_main_type({"@type": kinds})


@pytest.mark.parametrize(
    ("members", "url"),
    [
        ({"url": "https://x.org/a", "mainEntityOfPage": "https://x.org/b"}, "https://x.org/a"),
        ({"mainEntityOfPage": {"@id": "https://x.org/b"}}, "https://x.org/b"),
        ({"url": [{"url": "https://x.org/c"}, "https://x.org/d"]}, "https://x.org/c"),
        ({"url": 3}, None),
        ({}, None),
    ],
)
def test_the_address_of_an_object(members: dict[str, Any], url: str | None) -> None:
    assert to_row({"@type": "Thing"} | members)["url"] == url


def test_the_date_of_an_object_is_the_first_that_is_one() -> None:
    thing = {"@type": "Thing", "dateModified": "last week", "datePublished": "2026-04-01", "dateCreated": "2025-01-01"}
    assert to_row(thing)["updated_at"] == "2026-04-01T00:00:00Z"
    assert to_row(thing | {"updated_at": "2026-05-01"})["updated_at"] == "2026-05-01"


def test_an_object_that_is_nested_too_deep_has_the_texts_to_a_depth() -> None:
    deep: Any = "words"
    for _ in range(7):
        deep = [deep]
    assert to_row({"@type": "Thing", "text": deep})["text"] == "words"
    assert to_row({"@type": "Thing", "text": [[deep]]})["text"] == ""
