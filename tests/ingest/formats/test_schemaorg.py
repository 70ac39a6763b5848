"""schema.org objects as rows: which property is the text, the title, the date and the address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
