"""A found document as an item of an answer: its schema.org object as it was ingested, and what NLWeb adds (4.1.1).

The stored JSON is spliced, not written anew, wherever nothing of it has to change; what of an item does not depend on
the query is kept. Where an object has members under names that NLWeb gives to its own (`score`, `site`, `grounding`),
NLWeb's stand there.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from aidre.api.bodies import without_bodies
from aidre.api.nlweb.actions import actions_of
from aidre.api.nlweb.documents import Found
from aidre.api.nlweb.settings import ActionSettings
from aidre.api.retrieve import Shown
from aidre.engine.filters import site_of
from aidre.engine.model import Json
from aidre.engine.segment import StoredChunk

ADDED = ("score", "site", "grounding")
NAMES = ("name", "headline", "title")
DESCRIPTIONS = ("description", "abstract")
EXCERPT_CHARS = 240
TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
INLINE_BYTES = 262_144
"""Items of more stored JSON than this are made in a thread."""
KEPT_BYTES = 8_000_000
LARGE = 8_192
ITEM_BYTES = 600
"""What is kept of items in all; how large one may be; what one takes beside its texts."""

Key: TypeAlias = tuple[str, str, int, bool]


@dataclass(frozen=True, slots=True)
class Item:
    """`json` is what is sent. `name` and `description` are for prose; `passage` is empty where no text is returned."""

    json: bytes
    name: str
    description: str
    url: str | None
    passage: str


@dataclass(frozen=True, slots=True)
class _Lasting:
    """What is the same for every query: `head` is the item up to its score, `source` begins its grounding."""

    head: bytes
    source: bytes
    name: str
    description: str
    url: str | None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.head) + len(self.source) + 2 * (len(self.name) + len(self.description)) + ITEM_BYTES


class Items:
    """Makes items. `actions` are those of the configuration."""

    def __init__(self, actions: Sequence[ActionSettings] = ()) -> None:
        self._actions = actions
        self._kept: OrderedDict[Key, _Lasting] = OrderedDict()
        self._held = 0

    async def of(self, found: Sequence[Found]) -> list[Item]:
        """The items of documents, in their order."""
        lasting = [self._kept.get(_key(one)) for one in found]
        missing = [one for one, known in zip(found, lasting, strict=True) if known is None]
        if missing:
            objects = [one.hits[0].chunk.schema_object for one in missing]
            if sum(len(stored or b"") for stored in objects) <= INLINE_BYTES:
                made = self._all_made(missing, objects)
            else:
                made = await asyncio.to_thread(self._all_made, missing, objects)
            for one, new in zip(missing, made, strict=True):
                self._keep(_key(one), new)
            following = iter(made)
            lasting = [known or next(following) for known in lasting]
        return [_item(one, known) for one, known in zip(found, lasting, strict=True) if known is not None]

    def _keep(self, key: Key, lasting: _Lasting) -> None:
        size = lasting.size
        if size > LARGE:
            return
        former = self._kept.get(key)
        self._kept[key] = lasting
        self._held += size - (0 if former is None else former.size)
        while self._held > KEPT_BYTES:
            self._held -= self._kept.popitem(last=False)[1].size

    def _all_made(self, found: Iterable[Found], objects: Iterable[bytes | None]) -> list[_Lasting]:
        return [self._made(one.shown, one.hits[0].chunk, stored) for one, stored in zip(found, objects, strict=True)]

    def _made(self, shown: Shown, chunk: StoredChunk, stored: bytes | None) -> _Lasting:
        texts, url = shown.settings.return_text, chunk.url
        if stored is None:  # of its beginning, whichever of its chunks this query has found
            chunk = next(iter(shown.snapshot.document(chunk.document_id)), chunk)
        whole: dict[str, Json] = _page(chunk, texts) if stored is None else orjson.loads(stored)
        # A site finds the item again: the host of its url, the collection where it has none.
        added: dict[str, Json] = {"site": (site_of(url) if url else None) or shown.name}
        if "@id" not in whole:
            added["@id"] = chunk.document_id
        if "url" not in whole and url is not None:
            added["url"] = url
        known = {**whole, **added}
        doable = actions_of(known, self._actions) if self._actions or "potentialAction" in whole else []
        own = whole.get("actions", [])
        if doable or type(own) is not list:
            added["actions"] = [*own, *doable] if type(own) is list else doable
        if stored is None or not texts or not {*ADDED, *added}.isdisjoint(whole):
            kept = {name: value for name, value in whole.items() if name not in ADDED}
            head = orjson.dumps({**(kept if texts else without_bodies(kept)), **added})
        else:
            head = stored[:-1] + b"," + orjson.dumps(added)[1:]
        source = b"" if url is None else b'"source_url":%b,' % orjson.dumps(url)
        name = _first(whole, NAMES) or chunk.title or chunk.document_id
        return _Lasting(head[:-1], source, name, _first(whole, DESCRIPTIONS), url)


def _key(found: Found) -> Key:
    shown = found.shown
    return (shown.snapshot.lineage, *found.hits[0].chunk.document_place, shown.settings.return_text)


def _item(found: Found, lasting: _Lasting) -> Item:
    """The item with what the query has to do with it: its score, and by which chunks it was found."""
    chunks = [hit.chunk for hit in found.hits]
    ids = b",".join([chunk.json_id for chunk in chunks])
    hashes = b",".join([b'"%b"' % chunk.content_hash.encode() for chunk in chunks])
    passage = chunks[0].text if found.shown.settings.return_text else ""
    quoted = b',"passage":' + orjson.dumps(passage) if found.shown.settings.return_text else b""
    grounding = b'{%b"chunk_ids":[%b],"content_hashes":[%b]%b}' % (lasting.source, ids, hashes, quoted)
    json = b'%b,"score":%b,"grounding":%b}' % (lasting.head, repr(found.score).encode(), grounding)
    return Item(json, lasting.name, lasting.description, lasting.url, passage)


def _page(chunk: StoredChunk, texts: bool) -> dict[str, Json]:
    """An object for a document that has none: a page where it has an address, else an article (see filters.py)."""
    known = chunk.type if chunk.type is not None and TYPE_NAME.fullmatch(chunk.type) else None
    page: dict[str, Json] = {
        "@context": "https://schema.org",
        "@type": known or ("Article" if chunk.url is None else "WebPage"),
        "name": chunk.title or chunk.document_id,
        "dateModified": chunk.updated_at,
    }
    if texts:
        page["description"] = excerpt(chunk.text)
    return page


def excerpt(text: str) -> str:
    """The beginning of a text in one line, cut between words."""
    words = " ".join(text[: 4 * EXCERPT_CHARS].split())
    if len(words) <= EXCERPT_CHARS:
        return words
    cut = words[:EXCERPT_CHARS].rsplit(" ", 1)[0]
    return cut.rstrip(" ,;:-") + "…"


def _first(whole: Mapping[str, Json], names: Sequence[str]) -> str:
    """The first of some members that is a string with words in it."""
    return next((value for value in map(whole.get, names) if type(value) is str and value.strip()), "")
