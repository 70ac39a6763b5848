"""`api/protocols/aidre/reading.py`: which address is the image of a document."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from aidre.api.protocols.aidre.reading import image_of
from aidre.engine.types import RetrievedChunk

PAGE = "https://example.com/blog/post"
A, B = "https://example.com/a.png", "https://example.com/b.png"


def image(metadata: dict[str, Any], schema_object: Any = None, url: str | None = PAGE) -> str | None:
    stored = None if schema_object is None else orjson.dumps(schema_object)
    return image_of(cast("RetrievedChunk", SimpleNamespace(metadata=metadata, schema_object=stored)), url)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"image": A}, A),
        ({"image": "/a.png"}, A),
        ({"image": "a.png"}, "https://example.com/blog/a.png"),
        ({"image": "//cdn.example.net/a.png"}, "https://cdn.example.net/a.png"),
        ({"image": [A, B]}, A),
        ({"image": {"url": A}}, A),
        ({"image": {"src": "/a.png"}}, A),
        ({"image": [{"contentUrl": A}]}, A),
        ({"image": A, "thumbnail": B}, B),
        ({"cover_image": A}, A),
        ({"image": "data:image/png;base64,AAAA", "cover": A}, A),
    ],
)
def test_metadata_name_it_in_several_forms(metadata: dict[str, Any], expected: str) -> None:
    assert image(metadata) == expected


@pytest.mark.parametrize(
    "value",
    [
        "javascript:alert(1)", "data:image/svg+xml,<svg onload=alert(1)>", "file:///etc/passwd", "ftp://example.com/a.png",
        "https://user:secret@example.com/a.png", "http://[", "", "  ", "https://example.com/a b.png",
        "https://example.com/a\n.png", "https://example.com/" + "a" * 2_000, 7, True, None, [], {}, [[[[[[A]]]]]],
    ],
)  # fmt: skip
def test_what_is_no_address_of_the_web_is_none(value: Any) -> None:
    assert image({"image": value}) is None


def test_a_relative_address_needs_that_of_the_document() -> None:
    assert image({"image": "/a.png"}, url=None) is None
    assert image({"image": "/a.png"}, url="notes/a.md") is None
    assert image({"image": A}, url=None) == A


@pytest.mark.parametrize(
    "item",
    [
        {"@type": "Product", "image": A},
        {"@type": "Product", "schema:image": A},
        {"@type": "Recipe", "image": [{"@type": "ImageObject", "url": A}]},
        {"@type": "VideoObject", "thumbnailUrl": [A, B]},
        {"@type": "WebPage", "primaryImageOfPage": {"@type": "ImageObject", "contentUrl": A}},
    ],
)
def test_an_object_of_schema_org_names_it_where_metadata_do_not(item: dict[str, Any]) -> None:
    assert image({}, item) == A
    assert image({"image": B}, item) == B
