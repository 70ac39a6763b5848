"""The image of a document, which people know it by: named in its metadata, else in its schema.org object."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import orjson

from aidre.engine.schema_text import by_property
from aidre.engine.types import RetrievedChunk

_NAMES: Final = (
    "thumbnail", "thumbnailUrl", "thumbnail_url", "image", "imageUrl", "image_url", "images", "cover", "coverImage",
    "cover_image", "featuredImage", "featured_image", "heroImage", "hero_image", "og:image", "primaryImageOfPage",
)  # fmt: skip
"""Members that name an image, the smallest first: those of front matters, of tables and of schema.org."""

_ADDRESSES: Final = ("url", "contentUrl", "thumbnailUrl", "src", "@id")
"""Members of an image that is an object."""

_MAX_CHARS: Final = 2_000
"""An address is shorter; a longer one is mostly the image itself."""

_MAX_DEPTH: Final = 4
"""Lists in objects in lists."""


def image_of(chunk: RetrievedChunk, url: str | None) -> str | None:
    """The address of the image of the chunk's document, http or https; a relative one is relative to `url`."""
    found = _named_in(chunk.metadata, url)
    if found is None and chunk.schema_object is not None:
        item = orjson.loads(chunk.schema_object)
        found = _named_in(by_property(item), url) if isinstance(item, dict) else None
    return found


def _named_in(members: Any, url: str | None) -> str | None:
    for name in _NAMES:
        if name in members and (found := _address(members[name], url)) is not None:
            return found
    return None


def _address(value: Any, url: str | None, depth: int = 0) -> str | None:
    if isinstance(value, str):
        return _absolute(value.strip(), url)
    if depth == _MAX_DEPTH:
        return None
    parts: list[Any] = []
    if isinstance(value, list | tuple):
        parts = list(value[:_MAX_DEPTH])
    elif isinstance(value, dict):
        members = by_property(value)
        parts = [members[name] for name in _ADDRESSES if name in members]
    return next((found for one in parts if (found := _address(one, url, depth + 1)) is not None), None)


def _absolute(address: str, url: str | None) -> str | None:
    if not address or len(address) > _MAX_CHARS or not address.isprintable() or " " in address:
        return None
    try:
        whole = urljoin(url or "", address)
        parts = urlsplit(whole)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return None
    return whole if is_web else None
