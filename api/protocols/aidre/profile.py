"""Which fields of a collection are worth a filter: they have a few values, and many documents have them.

Counting all fields takes time, so what was found is kept for the last generations that were asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Literal

from aidre.api.protocols.aidre.messages import OfferedFacet
from aidre.api.retrieval import VisibleCollection, tells_text
from aidre.engine.index.fields import field_name, parse_filter, unmistakable_name
from aidre.engine.ports import Reader
from aidre.engine.schema_text import is_body_field
from aidre.engine.types import Facet

ALWAYS = ("type", "site", "updated_at")
"""Names that every collection has."""
MAX_FIELDS = 100
"""Fields that are looked at, by name."""
MAX_OFFERED = 12
FEWEST_SHARE = 0.05
"""Of the documents, that have the field."""
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
        offered = [one for name in names if (one := _offered(name, snapshot.facet(field_name(name), limit=1)))]
        offered.sort(key=lambda one: (one.field != "type", -one.documents, one.distinct, one.field))
        known = offered[:MAX_OFFERED]
        _cache.put(key, known)
    return known


def _live_fields(snapshot: Reader) -> list[str]:
    """Names of fields that a live document has, without those of whole texts."""
    if not snapshot.can.vocabulary:
        return []
    names = sorted(name for name in snapshot.fields() if name and not name.startswith("@") and not is_body_field(name))
    names = names[:MAX_FIELDS]
    if not names:
        return []
    written = {name: unmistakable_name(name) for name in names}
    gone = snapshot.unknown_fields(parse_filter({"or": [{name: {"exists": True}} for name in written.values()]}))
    return [name for name in names if written[name] not in gone]


def _offered(name: str, facet: Facet) -> OfferedFacet | None:
    """None where the field is no choice: too rare, always the same, or different in almost every document."""
    having = facet.documents - facet.missing
    if facet.distinct < 2 or having < max(2, facet.documents * FEWEST_SHARE):
        return None
    value = facet.counts[0][0]
    kind: Literal["value", "number", "date"] = "value"
    if isinstance(facet.minimum, str):
        kind = "date"
    elif facet.minimum is not None and not isinstance(value, bool):
        kind = "number"
    elif facet.distinct > min(MAX_TEXTS, having * MOST_DISTINCT_SHARE):
        return None
    return OfferedFacet(field=name, kind=kind, documents=having, distinct=facet.distinct)
