"""The one verb that all protocols share: which collection, which vector, which page, then Snapshot.search.

It raises the errors of the engine and refusals; how they are said is each protocol's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from aidre.api.access import Caller, may_see, visibility_in_force
from aidre.api.batching import TextQueries
from aidre.api.bodies import ask_no_bodies
from aidre.api.cursor import Cursors, Place, lineage_digest
from aidre.api.guard.budget import ChunkBudget
from aidre.api.live import Live, Opened
from aidre.api.metrics import Metrics
from aidre.api.pages import Page, first_page, first_pages, later_page
from aidre.api.refusals import BadRequest, Conflicting, NotFound, Unavailable, Unprocessable
from aidre.api.scheduling import Scheduler
from aidre.api.settings import CollectionSettings, FusionSettings, Protocol, Settings
from aidre.engine.errors import CollectionMissing, GenerationMissing, ModelUnavailable, SpaceMissing
from aidre.engine.filters import Filter, canonical, parse_filter
from aidre.engine.fuse import can_fuse
from aidre.engine.model import EmbeddingSpace, Fusion, Json, Mode, Query, Rescore, Visibility
from aidre.engine.segment import StoredChunk
from aidre.engine.snapshot import Hit, Snapshot

RESULTS_MOST = 1_000
FOUND = 1_024
INLINE_FILTER = 2_000
"""A filter of more JSON than this is read in a thread: thousands of values take a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asks: exactly one of `text` and `vector`. `filter` is JSON as it came.

    Without a `mode` a text is searched hybrid where the collection has a model, else by its words.
    """

    top_k: int
    text: str | None = None
    vector: NDArray[np.float32] | None = None
    space: str | None = None
    filter: Any = None
    cursor: str | None = None
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A collection that a caller may see, at one snapshot."""

    name: str
    snapshot: Snapshot
    settings: CollectionSettings
    visibility: Visibility

    @property
    def description(self) -> str:
        return self.settings.description or self.snapshot.collection.description


class Answer(NamedTuple):
    """`space` is None where words alone were searched; `ignored` names what the filter asks that no document has."""

    shown: Shown
    mode: Mode
    space: str | None
    hits: list[Hit]
    next_cursor: str | None
    ignored: tuple[str, ...] = ()


class Retrieval:
    """Everything an endpoint needs; one per process."""

    def __init__(
        self,
        settings: Settings,
        live: Live,
        cursors: Cursors,
        texts: TextQueries,
        metrics: Metrics,
        *,
        budget: ChunkBudget | None = None,
    ) -> None:
        self.settings = settings
        self._budget = budget
        self.live = live
        self.texts = texts
        self.metrics = metrics
        self.results_most = max(RESULTS_MOST, settings.limits.top_k_max)
        """Where the pages of one search end."""
        self._cursors = cursors
        self._scheduler = Scheduler(settings.limits.wait)
        self._looked_at = live.collections
        self._found: dict[tuple[str | None, Protocol, frozenset[str]], Shown] = {}

    def names(self, caller: Caller, protocol: Protocol) -> list[str]:
        """The collections that exist for this caller, also those that cannot be opened just now."""
        return [name for name, opened in self.live.collections.items() if self._sees(caller, name, opened, protocol)]

    def shown(self, caller: Caller, protocol: Protocol) -> Iterator[Shown]:
        """The collections that this caller can search just now."""
        for name in self.names(caller, protocol):
            opened = self.live.collections.get(name)
            if opened is not None and opened.snapshot is not None:
                yield self._shown(name, opened.snapshot)

    def find(self, name: str | None, caller: Caller, protocol: Protocol) -> Shown:
        """The collection of that name, or the one that is meant without a name; remembered until anything changes."""
        collections = self.live.collections
        if collections is not self._looked_at or len(self._found) > FOUND:
            self._looked_at, self._found = collections, {}
        key = name, protocol, caller.collections
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find(name, caller, protocol)
        return found

    def _find(self, name: str | None, caller: Caller, protocol: Protocol) -> Shown:
        if name is None:
            name = self._meant(caller, protocol)
        opened = self.live.collections.get(name)
        if opened is None or not self._sees(caller, name, opened, protocol):
            raise CollectionMissing(f"there is no collection {name!r}", collection=name)
        if opened.snapshot is None:
            raise Unavailable("this collection cannot be read at the moment: try again later", collection=name)
        return self._shown(name, opened.snapshot)

    def _sees(self, caller: Caller, name: str, opened: Opened, protocol: Protocol) -> bool:
        settings = self.settings.collection(name)
        # Nobody knows what a damaged one was: where somebody may be kept out, it is private.
        damaged: Visibility = "private" if self.settings.knows_callers else "public"
        manifest = opened.snapshot.collection.visibility if opened.snapshot else damaged
        return protocol in settings.protocols and may_see(caller, name, visibility_in_force(manifest, settings))

    def _shown(self, name: str, snapshot: Snapshot) -> Shown:
        settings = self.settings.collection(name)
        return Shown(name, snapshot, settings, visibility_in_force(snapshot.collection.visibility, settings))

    def _meant(self, caller: Caller, protocol: Protocol) -> str:
        names = self.names(caller, protocol)
        default = self.settings.server.default_collection
        if default in names:
            return str(default)
        if len(names) != 1:
            raise BadRequest("collection is missing: name the collection to search", missing=["collection"])
        return names[0]

    async def search(
        self, shown: Shown, question: Question, caller: Caller, protocol: Protocol, *, gives: bool = True
    ) -> Answer:
        """The page of hits that is asked for, in a collection that `find` has found for this caller.

        Who does not give all of them away says so, and counts what is given by `give`.
        """
        self.check_budget(caller)
        mode, space = _means(shown.snapshot, question)
        vector = question.vector
        if vector is None and space is not None:
            try:
                vector = await self._vector(space, question, protocol)
            except ModelUnavailable:
                if question.mode is not None:
                    raise
                mode, space = "lexical", None  # words are better than no answer; the answer says its mode
        filter = None if question.filter is None else await self._filter(question.filter)
        filtered = None if filter is None else canonical(filter)
        binding = _binding(caller, shown.name, (mode, None if space is None else space.id), question, filtered)
        place, snapshot = None, shown.snapshot
        if question.cursor is not None:
            place, snapshot = await self._place(shown, question.cursor, binding)
            if snapshot is not shown.snapshot:  # a cursor of a newer generation has made it open that one
                shown = self.find(shown.name, caller, protocol)
        if filter is not None and not shown.settings.return_text:
            ask_no_bodies(filter, snapshot)
        query = Query(
            vector,
            None if space is None else space.id,
            question.top_k,
            0 if place is None else place.offset,
            filter,
            text=question.text,
            mode=mode,
        )
        if mode == "hybrid":
            fusion = shown.settings.fusion
            rescore = await self._rescore(snapshot, fusion, question)
            query = replace(query, fusion=Fusion(fusion.a, fusion.c), rescore=rescore)
        began = perf_counter()
        page = await self._page(place, snapshot, shown, query, filtered)
        self.metrics.stage(protocol, "search", perf_counter() - began)
        following = None
        if page.offset is not None:
            following = self._cursors.write(_following(place, snapshot, page.offset), binding)
        ignored = () if filter is None else snapshot.unknown_fields(filter)
        if gives and self._budget is not None:
            self.check_budget(caller)  # what was asked for at the same time may have spent it
            self.give(caller, shown, (hit.chunk.id for hit in page.hits))
        return Answer(shown, mode, query.space, page.hits, following, ignored)

    async def _vector(self, space: EmbeddingSpace, question: Question, protocol: Protocol) -> NDArray[np.float32]:
        began = perf_counter()
        self.metrics.queued(1)
        try:
            return await self.texts.embed(space, str(question.text))
        finally:
            self.metrics.queued(-1)
            self.metrics.stage(protocol, "embed", perf_counter() - began)

    async def _rescore(self, snapshot: Snapshot, fusion: FusionSettings, question: Question) -> Rescore | None:
        """The second look that the configuration asks for, where the collection has that space and its model loads."""
        if fusion.rescore is None:
            return None
        for space in snapshot.collection.spaces:
            if space.id == fusion.rescore and space.model is not None and can_fuse(space):
                with suppress(ModelUnavailable):  # which was logged: the first look is an answer, too
                    return Rescore(await self.texts.embed(space, str(question.text)), space.id, fusion.depth)
        return None

    async def _place(self, shown: Shown, cursor: str, binding: bytes) -> tuple[Place, Snapshot]:
        """Where the search goes on, and the generation it began in."""
        now = shown.snapshot
        place = self._cursors.read(cursor, binding)
        if place.expired or place.offset >= self.results_most:
            raise _moved_on()
        if place.generation == now.generation and place.lineage == lineage_digest(now.lineage):
            return place, now
        try:
            then = await asyncio.to_thread(self.live.at, shown.name, place.generation)
        except GenerationMissing as error:
            raise _moved_on() from error
        if place.lineage != lineage_digest(then.lineage):
            raise _moved_on()
        return place, then

    async def _filter(self, value: Any) -> Filter:
        if _json_size(value) > INLINE_FILTER:
            return await self._scheduler.run(None, partial(parse_filter, value))
        return parse_filter(value)

    def _page(
        self, place: Place | None, then: Snapshot, shown: Shown, query: Query, filtered: bytes | None
    ) -> Awaitable[Page]:
        if place is None:
            kind = _kind(shown.name, query, filtered)
            if query.mode == "dense":
                like = kind, then, query.top_k
                return self._scheduler.run_together(
                    kind, like, query, partial(first_pages, then, most=self.results_most)
                )
            return self._scheduler.run(kind, partial(first_page, then, query, self.results_most))
        later = partial(later_page, then, shown.snapshot, query, place.first, self.results_most)
        return self._scheduler.run(None, later)

    async def count(self, snapshot: Snapshot, filter: Json) -> int:
        """The chunks that pass a filter in its JSON form."""
        return await self._scheduler.run(None, lambda: snapshot.count(parse_filter(filter)))

    def chunk(self, id: str, collection: str | None, caller: Caller, protocol: Protocol) -> tuple[Shown, StoredChunk]:
        """A chunk by its id, looked for in all collections that the caller may see, or in one."""
        self.check_budget(caller)
        names = [collection] if collection is not None else self.names(caller, protocol)
        found: list[tuple[Shown, StoredChunk]] = []
        unavailable: Unavailable | None = None
        for name in names:
            try:
                shown = self.find(name, caller, protocol)
            except Unavailable as error:
                unavailable = error
                continue
            chunk = shown.snapshot.get(id)
            if chunk is not None:
                found.append((shown, chunk))
        if len(found) > 1:
            holders = [shown.name for shown, _ in found]
            raise Conflicting("several collections have this chunk: add ?collection=", collections=holders)
        if not found:
            raise unavailable or NotFound("there is no chunk with this id")
        self.give(caller, found[0][0], (id,))
        return found[0]

    def check_budget(self, caller: Caller) -> None:
        """Raises RateLimited where the caller has had all chunks of today."""
        account = caller.account or caller.name
        if self._budget is not None and account:
            self._budget.check(account)

    def give(self, caller: Caller, shown: Shown, ids: Iterable[str]) -> None:
        """Counts chunks that a caller is given."""
        account = caller.account or caller.name
        if self._budget is not None and account:
            self._budget.give(account, shown.name, ids)

    def warm(self) -> None:
        """Begins to load the models of all spaces that take text."""
        for opened in self.live.collections.values():
            if opened.snapshot is not None:
                self.texts.warm(opened.snapshot.collection.spaces)

    def close(self) -> None:
        self.texts.close()
        self._scheduler.close()


def _kind(collection: str, query: Query, filtered: bytes | None) -> Hashable:
    """What searches have in common that take about the same time; a filter's mask is made when it is first seen."""
    words = 0 if query.text is None else len(query.text).bit_length()
    return collection, query.mode, query.space, query.top_k.bit_length(), words, filtered


def _following(place: Place | None, snapshot: Snapshot, offset: int) -> Place:
    """Where the next page begins."""
    if place is None:
        return Place(snapshot.generation, offset, offset, int(time.time()), lineage_digest(snapshot.lineage))
    return Place(place.generation, place.first, offset, place.started, place.lineage)


def _json_size(value: Any) -> int:
    """Bytes of JSON; 0 where it is nested too deep to be written, which reading it finds out at once."""
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return 0


def _means(snapshot: Snapshot, question: Question) -> tuple[Mode, EmbeddingSpace | None]:
    """By what a question is answered: its mode, and the space of its vectors."""
    space = _space(snapshot, question)
    mode = question.mode
    if question.text is None:
        if mode not in {None, "dense"}:
            raise BadRequest(f"mode {mode} needs query: a vector has no words", member="mode")
        return "dense", space
    if mode is None:
        mode = "lexical" if space is None else "hybrid" if can_fuse(space) else "dense"
    if mode == "lexical":
        return mode, None
    if space is None:
        raise Unprocessable(f"this collection has no embedding model: mode {mode} needs one, lexical does not")
    if mode == "hybrid" and not can_fuse(space):
        raise Unprocessable("this embedding space cannot be searched hybrid: use mode dense or lexical")
    return mode, space


def _space(snapshot: Snapshot, question: Question) -> EmbeddingSpace | None:
    """The space that is named, or the first one that takes text; None where a text finds none."""
    if question.space is not None:
        named = next((space for space in snapshot.collection.spaces if space.id == question.space), None)
        if named is None:
            raise SpaceMissing("this collection has no such embedding space", embedding_space=question.space)
        if question.text is not None and named.model is None:
            raise SpaceMissing("this embedding space takes no text: send query_vector", embedding_space=named.id)
        return named
    return next((space for space in snapshot.collection.spaces if space.model is not None), None)


def _binding(
    caller: Caller, collection: str, means: tuple[Mode, str | None], question: Question, filtered: bytes | None
) -> bytes:
    """What a cursor is good for: this caller, this query, this filter. The cursor's seal hashes it."""
    asked = question.text.encode("utf-8", "surrogatepass") if question.text is not None else _bytes(question.vector)
    filter = filtered.hex() if filtered is not None else None
    context = orjson.dumps([caller.name, collection, *means, question.vector is None, filter])
    return context + asked


def _bytes(vector: NDArray[np.float32] | None) -> bytes:
    """Enough to tell vectors apart: whoever finds two that look alike takes in nobody else."""
    return b"" if vector is None else xxhash.xxh3_128_digest(vector.data)


def _moved_on() -> Conflicting:
    return Conflicting("this cursor has expired: begin the search again without it", member="cursor")
