"""Finds documents: searches one or several collections and groups the chunk hits by document, best document first.

More chunks are fetched until there are enough distinct documents, or the hits end or fall below the relevance bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from urllib.parse import urlsplit

from aidre.api.access import Caller
from aidre.api.config import Settings
from aidre.api.protocols.nlweb.answer.rewriting import RewrittenQuery
from aidre.api.protocols.nlweb.query import Ask, AttributeFilter, build_filter, has_location
from aidre.api.retrieval import (
    RELEVANT,
    Finding,
    Question,
    Retrieval,
    VisibleCollection,
    finding,
    is_answered_instead,
    is_surely_error,
    relevance_scale,
    repaired_text,
    tells_text,
)
from aidre.engine.index.fields import site_of, unmistakable_name
from aidre.engine.model import Json
from aidre.engine.ports import Reader
from aidre.engine.types import Hit

MIN_RERANKED = 50
"""The least number of documents fetched from each collection if keywords of the user reorder them."""
ALL_SITES = frozenset({"all", "*"})
MAX_BOOST = 5.0
"""Percentage points that a document gains if its best chunk has all keywords of the user."""
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
CHUNKS_PER_DOCUMENT = 2
"""Chunks that the first search fetches for each requested document."""
DEPTH_FACTOR = 4
"""Growth of the number of chunks when a search gave too few distinct documents."""


@dataclass(frozen=True, slots=True)
class DocumentHit:
    """A document with its chunks that match, best first. `score` is a percentage."""

    collection: VisibleCollection
    hits: tuple[Hit, ...]
    score: float


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """The documents of one page, best first. `ignored` names filter attributes that were not applied; `irrelevant` is
    true if there were hits and all of them were below the relevance bound. `corrected` is the text that was answered in
    place of the query, `suggestion` one that finds something, too."""

    documents: tuple[DocumentHit, ...]
    ignored: tuple[str, ...] = ()
    irrelevant: bool = False
    corrected: str | None = None
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The documents of all scopes, best first; whether the bound, a percentage, cut hits off; how well the question
    does; and its text."""

    documents: tuple[DocumentHit, ...]
    cut: bool
    found: Finding
    text: str


@dataclass(frozen=True, slots=True)
class SearchScope:
    """A collection and the filter that restricts it to the hosts of a request; None selects all of its documents."""

    collection: VisibleCollection
    filter: Json | None = None


async def find_documents(retrieval: Retrieval, ask: Ask, query: RewrittenQuery, caller: Caller) -> DocumentPage:
    """One page of documents for the rewritten query of `ask`; raises the errors of Retrieval."""
    scopes = _searchable(_resolve_sites(retrieval, ask.sites, caller))
    filtered = AttributeFilter()
    if ask.attributes:
        # A location scans many stored texts, so it is resolved in a thread.
        in_thread = has_location(ask.attributes)
        filtered = await asyncio.to_thread(_build_filter, ask, scopes) if in_thread else _build_filter(ask, scopes)
    end = ask.start + ask.count
    k = max(end, MIN_RERANKED) if query.keywords else end
    question = Question(k, text=query.query, filter=filtered.filter)
    bound = _bound(retrieval.settings, ask)

    async def search(text: str) -> Ranking:
        asked = replace(question, text=text)
        return await _search_scopes(retrieval, scopes, asked, caller, bound=bound, keywords=query.keywords)

    ranking = await search(query.query)
    corrected, suggestion = None, _repaired(ranking, scopes) if ask.correct else None
    if suggestion is not None:
        repaired = await search(suggestion)
        is_sure = is_surely_error(ranking.text, suggestion)
        if is_answered_instead(repaired.found, ranking.found, is_sure=is_sure):
            ranking, corrected, suggestion = repaired, suggestion, None
        elif not repaired.documents:
            suggestion = None
    page = ranking.documents[ask.start : end]
    retrieval.check_budget(caller)  # a concurrent request may have used it up
    for document in page:
        retrieval.charge_budget(caller, document.collection, (hit.chunk.id for hit in document.hits))
    irrelevant = not ranking.documents and ranking.cut
    return DocumentPage(page, filtered.ignored, irrelevant, corrected, suggestion)


def _repaired(ranking: Ranking, scopes: Sequence[SearchScope]) -> str | None:
    """The query without typing errors: by the words of the collection of the best document, which may know a word that
    others lack; where nothing was found, of the first collection that can repair it."""
    best = [document.collection for document in ranking.documents[:1]] or [scope.collection for scope in scopes]
    return next(filter(None, (repaired_text(collection, ranking.text) for collection in best)), None)


def _boost(document: DocumentHit, keywords: Sequence[str]) -> DocumentHit:
    """Raises the score by the share of the user's keywords that the best chunk has; it only orders results."""
    lower = document.collection.searched_text(document.hits[0].chunk).lower()
    gain = MAX_BOOST * sum(word.lower() in lower for word in keywords) / len(keywords)
    return replace(document, score=round(min(document.score + gain, 100.0), 2))


# -- filters ---------------------------------------------------------------------------------------------------


def _build_filter(ask: Ask, scopes: Sequence[SearchScope]) -> AttributeFilter:
    """The filter for the attributes, one for all collections, over the fields that any of them is known to have."""
    collections = [scope.collection for scope in scopes if scope.collection.snapshot.can.vocabulary]
    snapshots = [collection.snapshot for collection in collections]
    fields = frozenset[str]().union(*(snapshot.fields() for snapshot in snapshots))
    for collection in collections:
        if not collection.settings.return_text:  # its texts are no fields to ask for, as if no document had them
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
    # The name of a collection without a dot is no host: the other collections are not filtered by it.
    dotless = {collection.name for collection in collections if "." not in collection.name}
    spellings = chain.from_iterable(_spell_host(host) for host in hosts if host and host not in dotless)
    site_fields = list(dict.fromkeys(spellings))
    on_hosts = {"site": {"in": site_fields}}
    return [
        SearchScope(collection, on_hosts if site_fields and collection.name not in names else None)
        for collection in collections
        if collection.name in names or site_fields
    ]


def _searchable(scopes: list[SearchScope]) -> list[SearchScope]:
    """Without the collections that take no text; if none takes text, all, which then say why."""
    return [scope for scope in scopes if scope.collection.text_modes] or scopes


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


async def _search_scopes(
    retrieval: Retrieval,
    scopes: Sequence[SearchScope],
    question: Question,
    caller: Caller,
    *,
    bound: float,
    keywords: Sequence[str],
) -> Ranking:
    searches = [_search_scope(retrieval, scope, question, caller, bound) for scope in scopes]
    results = [await searches[0]] if len(searches) == 1 else await asyncio.gather(*searches)
    documents = list(chain.from_iterable(documents for documents, _, _ in results))
    if keywords:
        documents = [_boost(document, keywords) for document in documents]
    # sorted() is stable: ties keep the order of the collections, and inside a collection the order of the engine.
    ranked = tuple(sorted(documents, key=lambda document: -document.score))
    share = max((found.share for _, _, found in results), default=0.0)
    cut = any(cut for _, cut, _ in results)
    return Ranking(ranked, cut, Finding(bool(ranked), share), str(question.text))


async def _search_scope(
    retrieval: Retrieval, scope: SearchScope, question: Question, caller: Caller, bound: float
) -> tuple[list[DocumentHit], bool, Finding]:
    """The best documents of one scope, at most `question.top_k`; whether the bound, a percentage, cut hits off; and how
    well the question does."""
    snapshot, k = scope.collection.snapshot, question.top_k
    if scope.filter is not None:
        conjunction = scope.filter if question.filter is None else {"and": [scope.filter, question.filter]}
        question = replace(question, filter=conjunction)
    one_chunk_each = snapshot.chunks == snapshot.documents
    if not one_chunk_each:
        question = replace(question, top_k=k * CHUNKS_PER_DOCUMENT)
    while True:
        answer = await retrieval.search(scope.collection, question, caller, "nlweb", charge=False)
        scale = await relevance_scale(retrieval, question, answer)
        percentages = map(_to_percent, scale.relevances(hit.score for hit in answer.hits))
        scored = list(zip(percentages, answer.hits, strict=True))
        relevant = [pair for pair in scored if pair[0] >= bound]
        groups = [[pair] for pair in relevant] if one_chunk_each else _group_by_document(relevant)
        cut = len(relevant) < len(scored)
        # Nothing more can follow if the bound cut hits off or the hits have ended.
        if len(groups) >= k or len(answer.hits) < question.top_k or cut:
            documents = [
                DocumentHit(answer.collection, tuple(hit for _, hit in group), group[0][0]) for group in groups[:k]
            ]
            return documents, cut, finding(answer.hits, scale)
        question = replace(question, top_k=question.top_k * DEPTH_FACTOR)


def _bound(settings: Settings, ask: Ask) -> float:
    """The percentage below which a hit is irrelevant. A client's bound holds in place of the calibrated one, and beside
    one of the configuration."""
    configured = settings.nlweb.min_score
    if ask.min_score is None:
        return _to_percent(RELEVANT if configured is None else configured)
    return max(ask.min_score, _to_percent(configured or 0.0))


def _to_percent(relevance: float) -> float:
    return round(100 * relevance, 2)


def _group_by_document(scored: Iterable[tuple[float, Hit]]) -> list[list[tuple[float, Hit]]]:
    """Groups hits by document, in the order of each document's best hit."""
    groups: dict[Hashable, list[tuple[float, Hit]]] = {}
    for pair in scored:
        groups.setdefault(pair[1].chunk.document_key, []).append(pair)
    return list(groups.values())
