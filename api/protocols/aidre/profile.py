"""Which fields of a collection are worth a filter: they have a few values, and many documents have them.

Counting all fields takes time, so what was found is kept for the last generations that were asked for.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import Literal

from aidre.api.protocols.aidre.search_messages import OfferedFacet
from aidre.api.retrieval import VisibleCollection, tells_text
from aidre.engine.index.fields import field_name, parse_filter, unmistakable_name
from aidre.engine.ports import Reader
from aidre.engine.schema_text import is_body_field
from aidre.engine.types import Facet

ALWAYS = ("type", "site", "updated_at")
"""Names that every collection has."""
UNASKED = frozenset(
    {
        # how a page is built: Jekyll, Hugo, Docusaurus, MkDocs, VitePress, Sphinx, Astro, Obsidian
        "layout", "template", "permalink", "slug", "aliases", "alias", "redirectfrom", "redirectto", "navorder",
        "navtitle", "haschildren", "hastoc", "toc", "tableofcontents", "hidetableofcontents", "tocdepth",
        "tocminheadinglevel", "tocmaxheadinglevel", "hide", "hidetitle", "sidebar", "sidebarlabel",
        "sidebarposition", "sidebarclassname", "displayedsidebar", "pagination", "paginationlabel",
        "paginationnext", "paginationprev", "prev", "next", "customediturl", "editlink", "editurl", "outline",
        "aside", "footer", "navbar", "head", "pageclass", "bodyclass", "cssclass", "cssclasses", "linktitle",
        "menu", "menus", "markup", "outputs", "cascade", "excerptseparator", "orphan", "nosearch", "nocomments",
        "searchexclude", "mathjax", "katex", "publish", "unlisted", "icon", "math", "mermaid", "sitemap",
        "render", "headless", "weight", "navweight", "sidebarweight", "bookflatsection", "bookcollapsesection",
        "bookhidden", "booktoc", "stylesheet", "stylesheets", "scripts", "codefold", "tocexpand", "numbersections",
        "pagelayout",
        # what names one thing, or leads to it
        "id", "uuid", "guid", "hash", "checksum", "etag", "url", "uri", "href", "link", "canonicalurl", "path",
        "filename", "filepath", "image", "images", "imageurl", "thumbnail", "thumbnailurl", "cover",
        "coverimage", "featuredimage", "heroimage", "banner", "logo", "photo", "avatar", "ogimage", "alt",
        "context",
    }
)  # fmt: skip
"""Last parts of names of fields that nobody filters by, without case and signs."""
MAX_FIELDS = 100
"""Fields that are looked at, by name."""
MAX_OFFERED = 12
FEWEST_SHARE = 0.05
"""Share of the documents that must have a field for it to be offered."""
FEWEST_SAYING = 0.5
"""Share of the documents that must have a boolean field: flags that few pages set are for site generators."""
MAX_TEXTS = 200
MOST_DISTINCT_SHARE = 0.6
"""Different texts for each document that has the field: where almost every document has its own there is no choice."""
MAX_CACHED = 64


class _Cache:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, bool], list[OfferedFacet]] = OrderedDict()

    def get(self, key: tuple[str, int, bool]) -> list[OfferedFacet] | None:
        with self._lock:
            return self._kept.get(key)

    def put(self, key: tuple[str, int, bool], found: list[OfferedFacet]) -> None:
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > MAX_CACHED:
                self._kept.popitem(last=False)


_cache = _Cache()


def offered_facets(collection: VisibleCollection, *, counts_texts: bool) -> list[OfferedFacet]:
    """The fields that are worth a filter, those of most documents first; with `counts_texts` also descriptions and
    parts of objects, such as ingredients."""
    snapshot = collection.snapshot
    key = snapshot.lineage, snapshot.generation, counts_texts
    known = _cache.get(key)
    if known is None:
        fields = _live_fields(snapshot)
        if not counts_texts:
            fields = [name for name in fields if not tells_text(name, snapshot, collection.settings)]
        names = dict.fromkeys((*ALWAYS, *fields))
        offered = [facet for name in names if (facet := _offered(name, snapshot.facet(field_name(name), limit=1)))]
        offered.sort(key=lambda facet: (facet.field != "type", -facet.documents, facet.distinct, facet.field))
        known = offered[:MAX_OFFERED]
        _cache.put(key, known)
    return known


def _live_fields(snapshot: Reader) -> list[str]:
    """Names of fields that a live document has, without those of whole texts."""
    if not snapshot.can.vocabulary:
        return []
    names = sorted(name for name in snapshot.fields() if name and not name.startswith("@") and not is_body_field(name))
    names = [name for name in names if _plain_name(name) not in UNASKED][:MAX_FIELDS]
    if not names:
        return []
    written = {name: unmistakable_name(name) for name in names}
    gone = snapshot.unknown_fields(parse_filter({"or": [{name: {"exists": True}} for name in written.values()]}))
    return [name for name in names if written[name] not in gone]


def _plain_name(name: str) -> str:
    """The last part of a name, without case and signs."""
    return re.sub(r"[\W_]", "", name.rpartition(".")[2]).lower()


def _offered(name: str, facet: Facet) -> OfferedFacet | None:
    """None where the field is no choice: too rare, always the same, or different in almost every document."""
    having = facet.documents - facet.missing
    if facet.distinct < 2 or having < max(2, facet.documents * FEWEST_SHARE):
        return None
    value = facet.counts[0][0]
    kind: Literal["value", "number", "date"] = "value"
    if isinstance(facet.minimum, str):
        kind = "date"
    elif isinstance(value, bool) and having < facet.documents * FEWEST_SAYING:
        return None
    elif facet.minimum is not None and not isinstance(value, bool):
        kind = "number"
    elif facet.distinct > min(MAX_TEXTS, having * MOST_DISTINCT_SHARE):
        return None
    return OfferedFacet(field=name, kind=kind, documents=having, distinct=facet.distinct)
