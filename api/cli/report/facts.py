"""The facts of a report: of a store, and of each of its collections.

What an engine, or a collection, cannot tell is listed in `unavailable` with the reason; the rest of the report stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TypeVar

import msgspec

from aidre.api.access import visibility_in_force
from aidre.api.cli import maintenance
from aidre.api.cli.report import quality
from aidre.api.cli.report.quality import LengthRange, NearCopies, Searches, search_titles
from aidre.api.cli.report.sample import draw
from aidre.api.config import Settings
from aidre.api.http import rfc3339
from aidre.engine.errors import AidreError
from aidre.engine.maintenance import Inventory, take_inventory
from aidre.engine.model import Json, Visibility
from aidre.engine.ports import Source
from aidre.engine.types import CollectionStatus, RetrievedChunk
from aidre.ingest.pipeline import load_read_times

T = TypeVar("T")
_EXCERPT_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source of documents and when it was last read to its end, by RFC 3339. The name is None for documents that
    were written without one."""

    name: str | None
    root: str | None
    documents: int
    last_read: str | None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A chunk: the beginning of its text, and how many characters that has in all."""

    id: str
    title: str | None
    url: str | None
    characters: int
    text: str


@dataclass(frozen=True, slots=True)
class SampleExtent:
    """What the sample is: chunks of `total` that were compared by length, chunks and documents that were looked at."""

    total: int
    scanned: int
    chunks: int
    documents: int
    is_head: bool


@dataclass(frozen=True, slots=True)
class CollectionFacts:
    """One collection. `sizes` are bytes by kind of file; `untitled` documents are all of them where `untitled_of` is
    the number of documents, else those of the sample. `languages` count chunks: all, or `detected` in the sample."""

    name: str
    visibility: Visibility
    status: CollectionStatus
    lacking: tuple[str, ...]
    sizes: Mapping[str, int]
    sources: tuple[ReadSource, ...]
    extent: SampleExtent
    untitled: int
    untitled_of: int
    languages: Mapping[str, int]
    languages_detected: bool
    lengths: tuple[LengthRange, ...]
    longest: tuple[Excerpt, ...]
    shortest: tuple[Excerpt, ...]
    copies: NearCopies | None
    searches: Searches | None
    unavailable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnopenedCollection:
    """A collection that cannot be opened, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoreReport:
    """`seconds` is how long it took to make."""

    store: str
    engine: str
    version: str
    made_at: str
    seconds: float
    collections: tuple[CollectionFacts, ...]
    failures: tuple[UnopenedCollection, ...]


def report_of(store: Source, names: Sequence[str], settings: Settings) -> StoreReport:
    """The report on the named collections."""
    begun, made_at = time.monotonic(), rfc3339(time.time())
    found, failures = list[CollectionFacts](), list[UnopenedCollection]()
    for name in names:
        try:
            found.append(_collection_facts(store, name, settings))
        except AidreError as error:
            failures.append(UnopenedCollection(name, str(error)))
    seconds = round(time.monotonic() - begun, 1)
    engine = settings.store.backend
    return StoreReport(
        str(store.path.absolute()), engine, version("aidre"), made_at, seconds, tuple(found), tuple(failures)
    )


def facts_of(report: StoreReport) -> Iterator[dict[str, Json]]:
    """One JSON object for each collection; one that cannot be opened has `name` and `reason`."""
    for record in (*report.collections, *report.failures):
        yield {"store": report.store, "made_at": report.made_at, **msgspec.to_builtins(record)}


def _collection_facts(store: Source, name: str, settings: Settings) -> CollectionFacts:
    reader = store.open(name)
    status, sample = reader.status(), draw(reader)
    unavailable: dict[str, str] = {}

    def attempt(what: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except AidreError as error:
            unavailable[what] = str(error)
            return None

    inventory = attempt("sizes by kind of file, and sources", lambda: take_inventory(store, name))
    read_times = load_read_times(store.path).get(name, {})
    languages = status["languages"] or quality.detected_languages(sample)
    copies = attempt("near-duplicates", lambda: quality.find_copies(reader, sample))
    if not reader.can.recall:
        unavailable["recall as calibrated"] = f"the engine {settings.store.backend} lacks the capability recall"
    untitled = sum(not (chunk.title or "").strip() for chunk in sample.documents)
    return CollectionFacts(
        name=name,
        visibility=visibility_in_force(reader.collection.visibility, settings.collection(name)),
        status=status,
        lacking=tuple(maintenance.lacking(reader.can)),
        sizes=_sizes(status) if inventory is None else inventory.sizes,
        sources=_sources(inventory, read_times),
        extent=SampleExtent(sample.total, sample.scanned, len(sample.chunks), len(sample.documents), sample.is_head),
        untitled=untitled if inventory is None else inventory.untitled,
        untitled_of=len(sample.documents) if inventory is None else reader.documents,
        languages=languages,
        languages_detected=not status["languages"],
        lengths=quality.lengths(sample),
        longest=tuple(map(_excerpt, sample.longest)),
        shortest=tuple(map(_excerpt, sample.shortest)),
        copies=copies,
        searches=attempt(
            "sample searches", lambda: search_titles(reader, sample, settings) if sample.documents else None
        ),
        unavailable=unavailable,
    )


def _sizes(status: CollectionStatus) -> dict[str, int]:
    """Bytes of each kind of rows, as an engine without files tells them."""
    sizes: dict[str, int] = {}
    for space in status["spaces"]:
        for kind, size in space["bytes"].items():
            sizes[kind] = sizes.get(kind, 0) + size
    return {"documents and chunks": status["bytes"] - sum(sizes.values()), **sizes}


def _sources(inventory: Inventory | None, read_times: Mapping[str, float]) -> tuple[ReadSource, ...]:
    stored = () if inventory is None else inventory.sources
    return tuple(
        ReadSource(source.name, source.root, source.documents, _moment(read_times.get(source.name or "")))
        for source in stored
    )


def _excerpt(chunk: RetrievedChunk) -> Excerpt:
    text = chunk.text
    return Excerpt(chunk.id, chunk.title, chunk.url, len(text), text[:_EXCERPT_CHARACTERS])


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)
