"""Finds documents: the collections that a request means, the filter of its attributes, and one page of documents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from urllib.parse import urlsplit

from aidre.api.access import Caller
from aidre.api.config import Settings
from aidre.api.protocols.nlweb.answer.rewriting import RewrittenQuery
from aidre.api.protocols.nlweb.query.ask import Ask
from aidre.api.protocols.nlweb.query.attribute_filters import AttributeFilter, build_filter, has_location
from aidre.api.retrieval import Retrieval, VisibleCollection, tells_text
from aidre.engine.index.fields import site_of, unmistakable_name
from aidre.engine.model import Json, Mode
from aidre.engine.ports import Reader
from aidre.engine.retrieve import RELEVANT, Question, QuestionReading
from aidre.engine.types import Hit

MIN_RERANKED = 50
"""The least number of documents fetched from each collection if keywords of the user reorder them."""
ALL_SITES = frozenset({"all", "*"})
MAX_SITE_CHARS = 2_048
"""Characters of a site that are parsed: its host comes first, and `urlsplit` caches its arguments."""
MAX_TEXTS_SCANNED = 2_000_000
"""Distinct texts of fields that are scanned for the places of one request."""
MIN_SCAN_COST = 1_000
"""The least number of texts that one field of one segment counts as, since each scan has a fixed cost."""
MAX_PLACE_TEXTS = 4_000
"""Distinct texts with names of places in the filter of one request."""
MAX_HOST_CHARS = 253
"""Characters of a name in DNS (RFC 1035)."""


@dataclass(frozen=True, slots=True)
class AskHit:
    """A document with its chunks that match, best first. `score` is a percentage, `copies` are the best chunks of its
    near-copies."""

    collection: VisibleCollection
    hits: tuple[Hit, ...]
    score: float
    copies: tuple[Hit, ...] = ()


@dataclass(frozen=True, slots=True)
class AskPage:
    """The documents of one page, best first. `ignored` names filter attributes that were not applied; `irrelevant` is
    true if there were hits and all of them were below the relevance bound. `corrected` is the text that was answered in
    place of the query, `suggestion` one that finds something, too. `reading` is what the query asks for beside words;
    `query` is the text that was asked, with words of earlier questions or without."""

    query: str

    documents: tuple[AskHit, ...]
    ignored: tuple[str, ...] = ()
    irrelevant: bool = False
    corrected: str | None = None
    suggestion: str | None = None
    reading: QuestionReading | None = None


@dataclass(frozen=True, slots=True)
class SearchScope:
    """A collection and the filter that restricts it to the hosts of a request; None selects all of its documents."""

    collection: VisibleCollection
    filter: Json | None = None


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a caller may ask for beside an Ask: the name of one collection, a filter of AIDRE, and the mode."""

    collection: str | None = None
    filter: Json | None = None
    mode: Mode | None = None


ANYWHERE = Narrowing()


async def find_documents(
    retrieval: Retrieval, ask: Ask, query: RewrittenQuery, caller: Caller, narrowing: Narrowing = ANYWHERE
) -> AskPage:
    """One page of documents for the rewritten query of `ask`; raises the errors of Retrieval."""
    scopes = _searchable(_resolve_sites(retrieval, ask.sites, caller), narrowing)
    if await retrieval.here([scope.collection.name for scope in scopes]):
        scopes = _searchable(_resolve_sites(retrieval, ask.sites, caller), narrowing)
    filtered = AttributeFilter()
    if ask.attributes:
        # A location scans many stored texts, so it is resolved in a thread.
        in_thread = has_location(ask.attributes)
        filtered = await asyncio.to_thread(_build_filter, ask, scopes) if in_thread else _build_filter(ask, scopes)
    end = ask.start + ask.count
    k = max(end, MIN_RERANKED) if query.keywords else end
    ranking, text = await retrieval.documents(
        [
            (scope.collection, _conjunction(_conjunction(scope.filter, filtered.filter), narrowing.filter))
            for scope in scopes
        ],
        Question(
            k,
            text=query.query if query.turn is None else ask.text,
            mode=narrowing.mode,
            correct=ask.correct,
            operators=ask.operators,
            collapse=ask.collapse,
        ),
        caller,
        "nlweb",
        bound=_bound(retrieval.settings, ask),
        keywords=query.keywords,
        turn=query.turn,
    )
    found = (
        AskHit(scopes[document.place].collection, document.hits, to_percent(document.score), document.copies)
        for document in ranking.documents
    )
    page = tuple(islice(found, ask.start, end))
    retrieval.check_budget(caller)  # a concurrent request may have used it up
    for document in page:
        retrieval.charge_budget(caller, document.collection, (hit.chunk.id for hit in document.hits))
    irrelevant = not ranking.documents and ranking.cut
    return AskPage(text, page, filtered.ignored, irrelevant, ranking.corrected, ranking.suggestion, ranking.reading)


def _conjunction(first: Json | None, second: Json | None) -> Json | None:
    return {"and": [first, second]} if first is not None and second is not None else first or second


# -- filters ---------------------------------------------------------------------------------------------------


def _build_filter(ask: Ask, scopes: Sequence[SearchScope]) -> AttributeFilter:
    """The filter for the attributes, one for all collections, over the fields that any of them is known to have."""
    collections = [scope.collection for scope in scopes if scope.collection.snapshot.can.vocabulary]
    snapshots = [collection.snapshot for collection in collections]
    fields = frozenset[str]().union(*(snapshot.fields() for snapshot in snapshots))
    for collection in collections:
        if not collection.settings.return_text:  # its texts are not fields to ask for, as if no document had them
            fields -= {name for name in fields if tells_text(name, collection.snapshot, collection.settings)}
    fields = frozenset(map(unmistakable_name, fields))
    dates = frozenset[str]().union(*(snapshot.dates for snapshot in snapshots))
    return build_filter(ask.attributes, fields, dates, _TextScan(snapshots))


class _TextScan:
    """Finds the stored texts of a field that match a pattern, within a budget of texts for one request."""

    def __init__(self, snapshots: Sequence[Reader]) -> None:
        self._snapshots = snapshots
        self._scan_budget, self._match_budget = MAX_TEXTS_SCANNED, MAX_PLACE_TEXTS

    def __call__(self, field: str, pattern: str) -> list[str] | None:
        """The distinct texts, sorted; None if the budget is used up."""
        matches: set[str] = set()
        for texts in chain.from_iterable(snapshot.dictionaries(field) for snapshot in self._snapshots):
            self._scan_budget -= max(len(texts), MIN_SCAN_COST)
            if self._scan_budget < 0:
                return None
            matches.update(texts.matching(pattern, self._match_budget + 1))
        self._match_budget -= len(matches)
        return sorted(matches) if self._match_budget >= 0 else None


# -- sites -----------------------------------------------------------------------------------------------------


def _resolve_sites(retrieval: Retrieval, sites: Sequence[str], caller: Caller) -> list[SearchScope]:
    """The scopes of a request; a site is the name of a collection, or the host of documents in any collection."""
    collections = list(retrieval.collections.visible(caller, "nlweb"))
    own_hosts = server_hosts(retrieval.settings) if sites else frozenset[str]()
    hosts, names = [parse_host(site) for site in sites], frozenset(map(str.lower, sites))
    if not sites or not own_hosts.isdisjoint(hosts) or not ALL_SITES.isdisjoint(names):
        return [SearchScope(collection) for collection in collections]
    # The name of a collection without a dot is not a host: the other collections are not filtered by it.
    dotless = {collection.name for collection in collections if "." not in collection.name}
    spellings = chain.from_iterable(_spell_host(host) for host in hosts if host and host not in dotless)
    site_fields = list(dict.fromkeys(spellings))
    on_hosts = {"site": {"in": site_fields}}
    return [
        SearchScope(collection, on_hosts if site_fields and collection.name not in names else None)
        for collection in collections
        if collection.name in names or site_fields
    ]


def _searchable(scopes: list[SearchScope], narrowing: Narrowing) -> list[SearchScope]:
    """The collections that take text in the mode; if none does, all of them, which then say why."""
    named = [scope for scope in scopes if narrowing.collection in {None, scope.collection.name}]
    modes = [(scope, scope.collection.text_modes) for scope in named]
    return [scope for scope, has in modes if (narrowing.mode in has if narrowing.mode else has)] or named


def server_hosts(settings: Settings) -> frozenset[str]:
    """The hosts of this server, by which a client may select all collections."""
    urls = (settings.server.base_url, settings.server.origin)
    return frozenset(host for host in map(parse_host, filter(None, urls)) if host)


def parse_host(site: str) -> str:
    """The host of a site or URL, with the port if it is not the default; empty if there is none."""
    site = site[:MAX_SITE_CHARS]
    try:
        parts = urlsplit(site if "//" in site else f"//{site}")
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2].lower().removeprefix("www.")
    return host.removesuffix({"http": ":80", "https": ":443"}.get(parts.scheme, ""))


def _spell_host(host: str) -> list[str]:
    """The forms of a host that documents may have: in Unicode, and in the ASCII form of DNS (IDNA)."""
    site = site_of(f"//{host}") or host
    if len(site) > MAX_HOST_CHARS or (site.isascii() and "xn--" not in site):
        return [site]
    try:
        encoded = site.encode("idna")
        decoded = encoded.decode("idna")
        is_reversible = site in {encoded.decode(), decoded} and decoded.encode("idna") == encoded
    except UnicodeError:
        return [site]
    return [encoded.decode(), decoded] if is_reversible else [site]  # otherwise another host: IDNA maps ß to ss


# -- search ----------------------------------------------------------------------------------------------------


def _bound(settings: Settings, ask: Ask) -> float:
    """The relevance below which a hit is irrelevant. A client's bound, a percentage, holds in place of the calibrated
    one, and beside one of the configuration."""
    configured = settings.nlweb.min_score
    if ask.min_score is None:
        return RELEVANT if configured is None else configured
    return max(ask.min_score / 100, configured or 0.0)


def to_percent(relevance: float) -> float:
    return round(100 * relevance, 2)
