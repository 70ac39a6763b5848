"""Finds documents: chunks collapsed to one result a document, over one or several collections, by score.

More chunks are fetched until enough different documents are there or the matches end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from urllib.parse import urlsplit

from aidre.api.access import Caller
from aidre.api.nlweb.filters import Filtered, asks_place, attribute_filter
from aidre.api.nlweb.relevance import least, meets, percent, weighed
from aidre.api.nlweb.request import Ask
from aidre.api.nlweb.rewriting import Rewritten
from aidre.api.retrieve import Answer, Question, Retrieval, Shown
from aidre.api.settings import Settings
from aidre.engine.filters import site_of
from aidre.engine.model import EmbeddingSpace
from aidre.engine.snapshot import Hit, Snapshot

WEIGHED = 50
"""So many documents at least are weighed by what is known of the user, whatever the page."""
EVERYWHERE = frozenset({"all", "*"})
BEST = 3
"""Hits that are looked through for the words of the query."""
SITE_CHARS = 2_048
"""Of a site that are looked at: its host is at its begin, and Python remembers addresses that it has split."""
MOST_LOOKS = 2_000_000
LOOKS_AT_LEAST = 1_000
"""Texts of fields that are looked at for the places of one request; what a look into a field counts at least."""
MOST_TEXTS = 4_000
"""Texts that may name the places of one request."""
HOST_CHARS = 253
"""Of a name that DNS knows."""
FIRST_CHUNKS = 2
DEEPER = 4
"""How many chunks are fetched for each document at first, and how many times more each time that was too few."""


@dataclass(frozen=True, slots=True)
class Found:
    """A document, with those of its chunks that were found, best first. `score` is from 0 to 100."""

    shown: Shown
    hits: tuple[Hit, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of one page, best first. `irrelevant` tells that some were found, but all below the least score."""

    found: tuple[Found, ...]
    ignored: tuple[str, ...] = ()
    irrelevant: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: a collection, whole or (with `hosts`) only what lies on those."""

    shown: Shown
    hosts: tuple[str, ...] = ()


async def find_documents(retrieval: Retrieval, ask: Ask, query: Rewritten, caller: Caller) -> Documents:
    """The documents that answer the query of `ask` as it was rewritten; raises what Retrieval raises."""
    places = _places(retrieval, ask.sites, caller)
    filtered = Filtered()
    if ask.attributes:  # texts are many: they are looked through in a thread
        looks = asks_place(ask.attributes)
        filtered = await asyncio.to_thread(_filtered, ask, places) if looks else _filtered(ask, places)
    wanted, text = ask.start + ask.count, query.query
    question = Question(max(wanted, WEIGHED) if query.keywords else wanted, text=text, filter=filtered.filter)
    searches = [_in_place(retrieval, place, question, caller) for place in places]
    results = [await searches[0]] if len(searches) == 1 else await asyncio.gather(*searches)
    found = list(chain.from_iterable(found for found, _ in results))
    if query.keywords:
        found = [_weighed(one, query.keywords) for one in found]
    # sorted() is stable: equal scores keep the order of the collections, and inside one that of the engine.
    ranked = sorted(found, key=lambda one: -one.score)
    irrelevant = not ranked and any(cut for _, cut in results)
    given = tuple(ranked[ask.start : wanted])
    retrieval.check_budget(caller)  # what was asked for at the same time may have spent it
    for one in given:
        retrieval.give(caller, one.shown, (hit.chunk.id for hit in one.hits))
    return Documents(given, filtered.ignored, irrelevant)


def _filtered(ask: Ask, places: Sequence[Place]) -> Filtered:
    """The filter that the attributes mean: one for all collections, over the fields that any of them has."""
    snapshots = [place.shown.snapshot for place in places]
    known = frozenset[str]().union(*(snapshot.fields() for snapshot in snapshots))
    dates = frozenset[str]().union(*(snapshot.manifest.dates for snapshot in snapshots))
    return attribute_filter(ask.attributes, known, dates, _Texts(snapshots))


class _Texts:
    """What the documents of some collections say in a field; looks at so many texts for one request, not more."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots = snapshots
        self._looks, self._room = MOST_LOOKS, MOST_TEXTS

    def __call__(self, field: str, pattern: str) -> list[str] | None:
        found: set[str] = set()
        for words in chain.from_iterable(snapshot.words(field) for snapshot in self._snapshots):
            self._looks -= max(len(words), LOOKS_AT_LEAST)
            if self._looks < 0:
                return None
            found.update(words.matching(pattern, self._room + 1))
        self._room -= len(found)
        return sorted(found) if self._room >= 0 else None


def _weighed(found: Found, keywords: Sequence[str]) -> Found:
    """The same with the score that what is known of the user gives it."""
    chunk = found.hits[0].chunk
    lifted = weighed(found.score, f"{chunk.title or ''} {chunk.text}", keywords)
    return replace(found, score=round(min(lifted, 100.0), 2))


def _places(retrieval: Retrieval, sites: Sequence[str], caller: Caller) -> list[Place]:
    """The collections that `sites` mean; a site is the name of one, or the host of items in any."""
    shown = list(retrieval.shown(caller, "nlweb"))
    own = own_hosts(retrieval.settings) if sites else frozenset[str]()
    hosts, asked = [host_of(site) for site in sites], frozenset(map(str.lower, sites))
    if not sites or not own.isdisjoint(hosts) or not EVERYWHERE.isdisjoint(asked):
        return [Place(one) for one in shown]
    # A name without a dot that is one of a collection is no host: the fields of others are not asked for.
    names = {one.name for one in shown if "." not in one.name}
    known = tuple(dict.fromkeys(chain.from_iterable(_sites(host) for host in hosts if host and host not in names)))
    return [Place(one, () if one.name in asked else known) for one in shown if one.name in asked or known]


def own_hosts(settings: Settings) -> frozenset[str]:
    """The hosts of this server, as a client may name them."""
    urls = (settings.server.base_url, settings.server.origin)
    return frozenset(host for host in map(host_of, filter(None, urls)) if host)


def host_of(site: str) -> str:
    """The host, and the port if any, that a site names, which may be a URL; empty where it names none."""
    site = site[:SITE_CHARS]
    try:
        parts = urlsplit(site if "//" in site else f"//{site}")
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2].lower().removeprefix("www.")
    return host.removesuffix({"http": ":80", "https": ":443"}.get(parts.scheme, ""))


def _sites(host: str) -> list[str]:
    """A host as items may have it: in the letters of its language, or in those that DNS knows."""
    site = site_of(f"//{host}") or host
    if len(site) > HOST_CHARS or (site.isascii() and "xn--" not in site):
        return [site]
    try:
        coded = site.encode("idna")
        read = coded.decode("idna")
        same = site in {coded.decode(), read} and read.encode("idna") == coded
    except UnicodeError:
        return [site]
    return [coded.decode(), read] if same else [site]  # what does not come back as it was is another host: ß, ss


async def _in_place(retrieval: Retrieval, place: Place, question: Question, caller: Caller) -> tuple[list[Found], bool]:
    """The best documents of one collection, as many as the question wants, and whether the least score cut any off."""
    snapshot, wanted = place.shown.snapshot, question.top_k
    if place.hosts:
        by_host = {"site": {"in": list(place.hosts)}}
        both = by_host if question.filter is None else {"and": [by_host, question.filter]}
        question = replace(question, filter=both)
    if snapshot.chunks != snapshot.documents:
        question = replace(question, top_k=wanted * FIRST_CHUNKS)
    text = str(question.text)
    among = snapshot.chunks if question.filter is None else await retrieval.count(snapshot, question.filter)
    while True:
        answer = await retrieval.search(place.shown, question, caller, "nlweb", gives=False)
        space = _space(answer)
        texts = (f"{hit.chunk.title or ''} {hit.chunk.text}" for hit in answer.hits[:BEST])
        met = question.filter is not None or meets(text, texts)  # what was filtered was chosen by more than words
        bound = least(retrieval.settings.nlweb.min_score, answer.mode, space, text, among, met=met)
        scored = [(percent(hit.score, answer.mode, space), hit) for hit in answer.hits]
        relevant = [pair for pair in scored if bound is None or pair[0] >= bound]
        single = snapshot.chunks == snapshot.documents
        documents = [[pair] for pair in relevant] if single else _collapsed(relevant)
        cut = len(relevant) < len(scored)
        # Below the least score nothing more can come; neither where the matches have ended.
        if len(documents) >= wanted or len(answer.hits) < question.top_k or cut:
            return [Found(answer.shown, tuple(hit for _, hit in hits), hits[0][0]) for hits in documents[:wanted]], cut
        question = replace(question, top_k=question.top_k * DEEPER)


def _space(answer: Answer) -> EmbeddingSpace | None:
    """The space that an answer was found in, None where words alone were searched."""
    return None if answer.space is None else answer.shown.snapshot.space(answer.space).space


def _collapsed(scored: Iterable[tuple[float, Hit]]) -> list[list[tuple[float, Hit]]]:
    """The hits of each document together, in the order of the best of each."""
    documents: dict[tuple[str, int], list[tuple[float, Hit]]] = {}
    for pair in scored:
        documents.setdefault(pair[1].chunk.document_place, []).append(pair)
    return list(documents.values())
