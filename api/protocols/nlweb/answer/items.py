"""Renders a document hit as an item of an answer: its stored schema.org object with the members of NLWeb (4.1.1).

The stored JSON is spliced rather than parsed and serialized wherever none of it has to change. The part of an item that
does not depend on the query is cached. If an object has members with the names of NLWeb's own (`score`, `site`,
`grounding`), NLWeb's replace them.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from aidre.api.config import ActionSettings
from aidre.api.protocols.nlweb.answer.actions import build_actions
from aidre.api.protocols.nlweb.answer.document_search import AskHit
from aidre.api.retrieval import VisibleCollection, visible_object
from aidre.engine.index.fields import is_schema_date, site_of
from aidre.engine.index.text import without_headings
from aidre.engine.model import Json
from aidre.engine.retrieve import told_copies
from aidre.engine.schema_text import LABELS, TITLES
from aidre.engine.types import RetrievedChunk

ADDED_MEMBERS = ("score", "site", "grounding")
NAME_MEMBERS = ("name", "headline", "title")
DESCRIPTION_MEMBERS = ("description", "abstract")
EXCERPT_CHARS = 240
_OWN_MEMBERS = frozenset({*TITLES, "@context", "@id", "@type", "@language", "id", "type", "url", "dateModified"})
"""Labels that an item has from its document."""
_PROPERTIES = (LABELS | {"offers", "aggregateRating"}) - _OWN_MEMBERS
SHOWN_TYPES = frozenset({"Recipe", "Movie", "Article", "NewsArticle", "BlogPosting"})
"""The types that NLWeb's React component shows."""
TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
INLINE_BYTES = 262_144
"""Bytes of stored JSON; the items of one answer with more are made in a thread."""
CACHE_BYTES = 8_000_000
"""Bytes of all cached items."""
MAX_CACHED_BYTES = 8_192
"""Bytes of one cached item; larger ones are not cached."""
ITEM_OVERHEAD_BYTES = 600
"""Bytes of a cache entry in addition to its texts."""

CacheKey: TypeAlias = tuple[str, Hashable, bool, bool]


@dataclass(frozen=True, slots=True)
class AnswerItem:
    """`json` is the item as it is sent; `name` and `description` are for prose; `passage` is the text of the best
    chunk, empty if the collection does not return texts."""

    json: bytes
    name: str
    description: str
    url: str | None
    passage: str


@dataclass(frozen=True, slots=True)
class _CachedItem:
    """The part of an item that is the same for every query: `head` is its JSON up to the score, `source` the beginning
    of its grounding."""

    head: bytes
    source: bytes
    name: str
    description: str
    url: str | None

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""
        return len(self.head) + len(self.source) + 2 * (len(self.name) + len(self.description)) + ITEM_OVERHEAD_BYTES


class Items:
    """Renders items and caches them, first in first out. `actions` are those of the configuration."""

    def __init__(self, actions: Sequence[ActionSettings] = ()) -> None:
        self._actions = actions
        self._cache: OrderedDict[CacheKey, _CachedItem] = OrderedDict()
        self._cached_bytes = 0

    async def build(self, documents: Sequence[AskHit], *, as_articles: bool = False) -> list[AnswerItem]:
        """The items of the documents, in their order.

        With `as_articles` an item whose types NLWeb's React component does not know is an Article, too: the component
        shows no others.
        """
        cached = [self._cache.get(_cache_key(document, as_articles)) for document in documents]
        missing = [document for document, entry in zip(documents, cached, strict=True) if entry is None]
        if missing:
            objects = [document.hits[0].chunk.schema_object for document in missing]
            waits = any(document.collection.snapshot.waits for document in missing)
            if not waits and sum(len(stored or b"") for stored in objects) <= INLINE_BYTES:
                created = self._create_all(missing, objects, as_articles)
            else:
                created = await asyncio.to_thread(self._create_all, missing, objects, as_articles)
            for document, entry in zip(missing, created, strict=True):
                self._store(_cache_key(document, as_articles), entry)
            rest = iter(created)
            cached = [entry or next(rest) for entry in cached]
        return [
            _render(document, entry) for document, entry in zip(documents, cached, strict=True) if entry is not None
        ]

    def _store(self, key: CacheKey, entry: _CachedItem) -> None:
        size = entry.size
        if size > MAX_CACHED_BYTES:
            return
        former = self._cache.get(key)
        self._cache[key] = entry
        self._cached_bytes += size - (0 if former is None else former.size)
        while self._cached_bytes > CACHE_BYTES:
            self._cached_bytes -= self._cache.popitem(last=False)[1].size

    def _create_all(
        self, documents: Iterable[AskHit], objects: Iterable[bytes | None], as_articles: bool
    ) -> list[_CachedItem]:
        pairs = zip(documents, objects, strict=True)
        return [
            self._create(document.collection, document.hits[0].chunk, stored, as_articles) for document, stored in pairs
        ]

    def _create(
        self, collection: VisibleCollection, chunk: RetrievedChunk, stored: bytes | None, as_articles: bool
    ) -> _CachedItem:
        returns_text, url = collection.settings.return_text, chunk.url
        schema_object: dict[str, Json]
        if stored is None:  # describe the document by its first chunk, whichever chunk this query matched
            chunk = next(iter(collection.snapshot.document(chunk.document_id)), chunk)
            schema_object = _default_object(chunk, returns_text, as_articles)
        else:
            schema_object = visible_object(orjson.loads(stored), chunk, collection.settings) or {}
        is_hidden = stored is not None and as_articles and SHOWN_TYPES.isdisjoint(types := _types(schema_object))
        if is_hidden:
            schema_object["@type"] = [*types, "Article"]
        added = self._added_members(schema_object, chunk.document_id, url, collection.name)
        if stored is None or is_hidden or not returns_text or not {*ADDED_MEMBERS, *added}.isdisjoint(schema_object):
            own = {name: value for name, value in schema_object.items() if name not in ADDED_MEMBERS}
            head = orjson.dumps({**own, **added})
        else:
            head = stored[:-1] + b"," + orjson.dumps(added)[1:]
        source = b"" if url is None else b'"source_url":%b,' % orjson.dumps(url)
        name = _first_text(schema_object, NAME_MEMBERS) or chunk.title or chunk.document_id
        return _CachedItem(head[:-1], source, name, _first_text(schema_object, DESCRIPTION_MEMBERS), url)

    def _added_members(
        self, schema_object: Mapping[str, Json], document_id: str, url: str | None, collection: str
    ) -> dict[str, Json]:
        """The members that NLWeb adds to an object for every query."""
        # A request with this site finds the item: the host of its URL, or the collection.
        added: dict[str, Json] = {"site": (site_of(url) if url else None) or collection}
        if "@id" not in schema_object:
            added["@id"] = document_id
        if "url" not in schema_object and url is not None:
            added["url"] = url
        has_actions = bool(self._actions) or "potentialAction" in schema_object
        actions = build_actions({**schema_object, **added}, self._actions) if has_actions else []
        own = schema_object.get("actions", [])
        if actions or type(own) is not list:
            added["actions"] = [*own, *actions] if type(own) is list else actions
        return added


def _types(schema_object: Mapping[str, Json]) -> list[str]:
    types = schema_object.get("@type", [])
    return [type_name for type_name in (types if type(types) is list else [types]) if type(type_name) is str]


def _cache_key(document: AskHit, as_article: bool) -> CacheKey:
    collection, chunk = document.collection, document.hits[0].chunk
    return (collection.snapshot.lineage, chunk.document_key, collection.settings.return_text, as_article)


def _render(document: AskHit, entry: _CachedItem) -> AnswerItem:
    """Adds the score and the grounding of this query."""
    passages = [hit.chunk.passage for hit in document.hits]
    ids = b",".join([orjson.dumps(id) for _, id, *_ in passages])
    hashes = b",".join([b'"sha256:%b"' % digest.hex().encode() for *_, digest in passages])
    returns_text = document.collection.settings.return_text
    passage = passages[0][2] if returns_text else ""
    quoted = b',"passage":' + orjson.dumps(passage) if returns_text else b""
    copies = b',"copies":' + orjson.dumps(told_copies(document.copies)) if document.copies else b""
    grounding = b'{%b"chunk_ids":[%b],"content_hashes":[%b]%b%b}' % (entry.source, ids, hashes, quoted, copies)
    json = b'%b,"score":%b,"grounding":%b}' % (entry.head, repr(document.score).encode(), grounding)
    description = entry.description if passages[0][2].strip() else ""  # of a row of vectors alone no prose is made
    return AnswerItem(json, entry.name, description, entry.url, passage)


def _default_object(chunk: RetrievedChunk, returns_text: bool, as_article: bool) -> dict[str, Json]:
    """An object for a document that has none: a WebPage if it has a URL, else an Article (see `attribute_filters.py`).

    Metadata that are properties of schema.org (price, brand, image, author) are those of the object.
    """
    own_type = chunk.type if chunk.type is not None and TYPE_NAME.fullmatch(chunk.type) else None
    schema_type: Json = own_type or ("Article" if chunk.url is None else "WebPage")
    if as_article:
        schema_type = ["WebPage" if schema_type == "Article" else schema_type, "Article"]
    schema_object: dict[str, Json] = {
        **_properties(chunk.metadata),
        "@context": "https://schema.org",
        "@type": schema_type,
        "name": chunk.title or chunk.document_id,
        "dateModified": chunk.updated_at,
    }
    if returns_text:
        schema_object["description"] = excerpt(chunk.text, {*(chunk.section or "").split(" > "), chunk.title or ""})
    return schema_object


def _properties(metadata: Mapping[str, Json]) -> dict[str, Json]:
    """The metadata with names of schema.org that are not text; a price is that of an offer, too."""
    shown = {name: value for name, value in metadata.items() if name in _PROPERTIES or is_schema_date(name)}
    if "price" in shown and "offers" not in shown:
        terms = {name: shown[name] for name in ("price", "priceCurrency", "availability") if name in shown}
        shown["offers"] = {"@type": "Offer", **terms}
    return shown


def excerpt(text: str, titles: Collection[str] = ()) -> str:
    """The beginning of a text in one line, without headings, cut between words."""
    words = " ".join(without_headings(text[: 4 * EXCERPT_CHARS], titles).split())
    if len(words) <= EXCERPT_CHARS:
        return words
    cut = words[:EXCERPT_CHARS].rsplit(" ", 1)[0]
    return cut.rstrip(" ,;:-") + "…"


def _first_text(members: Mapping[str, Json], names: Sequence[str]) -> str:
    """The first of the named members that is a string and not blank; empty if there is none."""
    return next((value for value in map(members.get, names) if type(value) is str and value.strip()), "")
