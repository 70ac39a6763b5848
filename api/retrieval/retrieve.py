"""Retrieval, shared by all protocols: search, chunk look-up, count and chunk budget.

It raises errors of the engine and HttpErrors; each protocol renders them in its own envelope.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.api.access import Caller
from aidre.api.access.limits import ChunkBudget
from aidre.api.config import FusionSettings, Protocol, Settings
from aidre.api.http import BadRequest, Conflict, Metrics, NotFound, Unavailable
from aidre.api.retrieval.cursor import Cursors, SearchCursor, cursor_binding, expired_cursor, next_cursor, snapshot_of
from aidre.api.retrieval.facets import AskedFacet, count_facets
from aidre.api.retrieval.pagination import Page, PageSearch
from aidre.api.retrieval.query_embedding import QueryEmbedders
from aidre.api.retrieval.question import Question, resolve_mode
from aidre.api.retrieval.redaction import check_tests_no_text
from aidre.api.retrieval.scheduler import Scheduler
from aidre.api.retrieval.snapshots import LiveSnapshots
from aidre.api.retrieval.visibility import VisibleCollection, VisibleCollections
from aidre.engine.errors import CollectionMissing, ModelUnavailable
from aidre.engine.index.fields import Filter, filter_digest, parse_filter
from aidre.engine.index.text import MAX_HIGHLIGHTED
from aidre.engine.model import EmbeddingSpace, Fusion, Highlight, HighlightLimits, Json, Mode, Query, Rescore
from aidre.engine.ports import Reader, can_fuse
from aidre.engine.types import Facet, Hit, RetrievedChunk

T = TypeVar("T")
MAX_RESULTS = 1_000
"""Results over all pages of a search, unless `top_k_max` is larger."""
INLINE_FILTER_BYTES = 2_000
"""JSON bytes up to which a filter is parsed in the event loop; a larger one is parsed in a thread, since thousands of
values take a tenth of a second."""


HIGHLIGHT_SECONDS = 5e-8
"""About the time in which words are looked for in a character."""

Reranked: TypeAlias = Literal["feedback", "rescore"]


class Answer(NamedTuple):
    """`space` and `vector` are None for a lexical search; `ignored` names the filter's fields that no document has.

    `best` is the best hit of all pages. `reranked` says what ordered the first hits anew: feedback or a second space.
    """

    collection: VisibleCollection
    mode: Mode
    space: str | None
    hits: list[Hit]
    next_cursor: str | None
    ignored: tuple[str, ...] = ()
    best: Hit | None = None
    vector: NDArray[np.float32] | None = None
    reranked: Reranked | None = None


class Retrieval:
    """What the endpoints of every protocol need; one per process."""

    def __init__(
        self,
        settings: Settings,
        snapshots: LiveSnapshots,
        cursors: Cursors,
        embedders: QueryEmbedders,
        metrics: Metrics,
        *,
        budget: ChunkBudget | None = None,
    ) -> None:
        self.settings = settings
        self.snapshots = snapshots
        self.collections = VisibleCollections(settings, snapshots)
        self.embedders = embedders
        self.metrics = metrics
        self.max_results = max(MAX_RESULTS, settings.limits.top_k_max)
        """Limit of the results over all pages of a search."""
        self.preloads = True
        """Whether `warm` loads models; if not, the first question to a collection does."""
        self.is_replica = False
        """Whether the store is pulled from a bucket, and others answer the same requests."""
        self.counts_chunks = budget is not None
        """Whether callers have a budget of chunks, past which no text may be told."""
        self._budget = budget
        self._cursors = cursors
        self._scheduler = Scheduler(settings.limits.wait)
        self._pages = PageSearch(self._scheduler, self.max_results)

    async def find(self, name: str | None, cursor: str | None, caller: Caller, protocol: Protocol) -> VisibleCollection:
        """As `collections.find`; raises Conflict where the cursor is of a collection that was dropped."""
        try:
            return self.collections.find(name, caller, protocol)
        except (CollectionMissing, BadRequest):
            if cursor is not None:
                dropped = await asyncio.to_thread(self.collections.dropped, name, caller, protocol)
                if self._cursors.lineage(cursor) in dropped:
                    raise expired_cursor() from None
            raise

    async def search(
        self,
        collection: VisibleCollection,
        question: Question,
        caller: Caller,
        protocol: Protocol,
        *,
        charge: bool = True,
    ) -> Answer:
        """One page of hits. `collection` is from `collections.find` for this caller.

        With `charge=False` the budget is not charged for the hits; the protocol calls `charge_budget` for those it
        returns. Raises RateLimited if the budget is spent, Overloaded, and the errors of a question that the
        collection cannot answer.
        """
        self.check_budget(caller)
        mode, space, vector = await self._mode_and_vector(collection, question, caller, protocol)
        space_id = None if space is None else space.id
        filter = None if question.filter is None else await self._parse_filter(question.filter)
        filter_key = None if filter is None else filter_digest(filter)
        binding = cursor_binding(caller, collection.name, mode, space_id, question, filter_key=filter_key)
        cursor, snapshot = None, collection.snapshot
        if question.cursor is not None:
            cursor, snapshot = await self._resume(collection, question.cursor, binding)
            if snapshot is not collection.snapshot:
                # The cursor names another generation; a newer one has been opened by now.
                collection = self.collections.find(collection.name, caller, protocol)
        if filter is not None and not collection.settings.return_text:
            check_tests_no_text(filter, snapshot, collection.settings)
        offset = 0 if cursor is None else cursor.offset
        query = Query(vector, space_id, question.top_k, offset, filter, text=question.text, mode=mode)
        if mode == "hybrid":
            query = await self._with_fusion(query, snapshot, collection.settings.fusion, question, caller)
        started = perf_counter()
        page = await self._page(cursor, snapshot, collection.snapshot, query, filter_key=filter_key)
        self.metrics.observe_stage(protocol, "search", perf_counter() - started)
        following = None
        if page.offset is not None:
            if cursor is None and snapshot.can.generations:
                self.snapshots.pin(collection.name, snapshot)
            following = self._cursors.write(next_cursor(cursor, snapshot, page.offset), binding)
        ignored = () if filter is None else await self._unknown_fields(snapshot, filter)
        if charge and self._budget is not None:
            self.check_budget(caller)  # concurrent requests may have spent it
            self.charge_budget(caller, collection, (hit.chunk.id for hit in page.hits))
        return Answer(
            collection, mode, space_id, page.hits, following, ignored, page.best, vector, _reranked(snapshot, query)
        )

    async def _mode_and_vector(
        self, collection: VisibleCollection, question: Question, caller: Caller, protocol: Protocol
    ) -> tuple[Mode, EmbeddingSpace | None, NDArray[np.float32] | None]:
        """The mode, its space and the query vector; lexical if the model is unavailable and no mode was requested."""
        settings = collection.settings
        mode, space = resolve_mode(collection.snapshot, question, lexical=settings.lexical, order=settings.spaces)
        if question.vector is not None or space is None:
            return mode, space, question.vector
        try:
            return mode, space, await self._embed(space, question, caller, protocol)
        except ModelUnavailable:
            if question.mode is not None or not collection.is_lexical:
                raise
            return "lexical", None, None

    async def _embed(
        self, space: EmbeddingSpace, question: Question, caller: Caller, protocol: Protocol
    ) -> NDArray[np.float32]:
        started = perf_counter()
        self.metrics.add_queued(1)
        try:
            return await self.embedders.embed(space, str(question.text), caller.name)
        finally:
            self.metrics.add_queued(-1)
            self.metrics.observe_stage(protocol, "embed", perf_counter() - started)

    async def _with_fusion(
        self, query: Query, snapshot: Reader, fusion: FusionSettings, question: Question, caller: Caller
    ) -> Query:
        """The query with the configured fusion, and re-scoring if the collection has that space and its model loads."""
        rescore = None
        for space in snapshot.collection.spaces if fusion.rescore is not None and snapshot.can.rescore else ():
            if space.id == fusion.rescore and space.model is not None and can_fuse(snapshot, space):
                with suppress(ModelUnavailable):  # already logged; the first scores are an answer, too
                    vector = await self.embedders.embed(space, str(question.text), caller.name)
                    rescore = Rescore(vector, space.id, fusion.depth)
                break
        return replace(query, fusion=Fusion(fusion.a, fusion.c), rescore=rescore)

    async def _resume(self, collection: VisibleCollection, cursor: str, binding: bytes) -> tuple[SearchCursor, Reader]:
        position = self._cursors.read(cursor, binding)
        if position.offset >= self.max_results:
            raise expired_cursor()
        return position, await snapshot_of(position, collection.name, collection.snapshot, self.snapshots)

    def _page(
        self,
        cursor: SearchCursor | None,
        snapshot: Reader,
        newest: Reader,
        query: Query,
        *,
        filter_key: bytes | None,
    ) -> Awaitable[Page]:
        if cursor is None:
            return self._pages.first(snapshot, query, filter_key)
        return self._pages.later(snapshot, newest, query, cursor.first)

    async def _parse_filter(self, value: Any) -> Filter:
        if _json_bytes(value) > INLINE_FILTER_BYTES:
            return await self._scheduler.run_in_thread(partial(parse_filter, value))
        return parse_filter(value)

    async def _unknown_fields(self, snapshot: Reader, filter: Filter) -> tuple[str, ...]:
        if snapshot.waits:
            return await self._scheduler.run_in_thread(partial(snapshot.unknown_fields, filter))
        return snapshot.unknown_fields(filter)

    async def facets(self, question: Question, answer: Answer, asked: tuple[AskedFacet, ...]) -> list[Facet]:
        """The facets of all matches of a question, not only of the page that `answer` has, in the newest state of the
        collection. Raises InvalidFilter, Overloaded."""
        filter = None if question.filter is None else await self._parse_filter(question.filter)
        text = question.text if answer.mode == "lexical" else None
        count = partial(count_facets, answer.collection.snapshot, asked, filter, text)
        return await self._scheduler.run_in_thread(count)

    async def highlights(self, question: Question, answer: Answer, limits: HighlightLimits) -> list[Highlight]:
        """Where the words of a question are in each hit. Raises Overloaded."""
        snapshot = answer.collection.snapshot
        lengths = (end - start for start, end in (hit.chunk.span for hit in answer.hits))
        seconds = sum(min(length, MAX_HIGHLIGHTED) for length in lengths) * HIGHLIGHT_SECONDS
        find = partial(snapshot.highlight, str(question.text), answer.hits, limits)
        return await self._scheduler.run(seconds, find)

    async def count(self, snapshot: Reader, filter: Json) -> int:
        """The number of chunks that match a filter in its JSON form."""
        return await self._scheduler.run_in_thread(lambda: snapshot.count(parse_filter(filter)))

    async def in_thread(self, call: Callable[[], T]) -> T:
        """What takes long and is no search. Raises Overloaded."""
        return await self._scheduler.run_in_thread(call)

    async def read(self, reader: Reader, look_up: Callable[[str], T], name: str) -> T:
        """A look-up of a reader by a name, in a thread where it waits for another machine."""
        if reader.waits:
            return await self._scheduler.run_in_thread(partial(look_up, name))
        return look_up(name)

    async def chunk(
        self, chunk_id: str, name: str | None, caller: Caller, protocol: Protocol
    ) -> tuple[VisibleCollection, RetrievedChunk]:
        """A chunk by its id, from the named collection or from all visible ones; charges the budget.

        Raises NotFound, CollectionMissing, RateLimited, Conflict if several collections have it, and Unavailable if it
        may be in one that cannot be opened.
        """
        self.check_budget(caller)
        names = [name] if name is not None else self.collections.names(caller, protocol)
        matches: list[tuple[VisibleCollection, RetrievedChunk]] = []
        unavailable: Unavailable | None = None
        for candidate in names:
            try:
                collection = self.collections.find(candidate, caller, protocol)
            except Unavailable as error:
                unavailable = error
                continue
            chunk = await self.read(collection.snapshot, collection.snapshot.get, chunk_id)
            if chunk is not None:
                matches.append((collection, chunk))
        if len(matches) > 1:
            holders = [collection.name for collection, _ in matches]
            raise Conflict("several collections have this chunk: add ?collection=", collections=holders)
        if not matches:
            raise unavailable or NotFound("there is no chunk with this id")
        self.check_budget(caller)  # concurrent requests may have spent it
        self.charge_budget(caller, matches[0][0], (chunk_id,))
        return matches[0]

    def check_budget(self, caller: Caller) -> None:
        """Raises RateLimited if the caller has spent its chunk budget of the day."""
        account = caller.account or caller.name
        if self._budget is not None and account:
            self._budget.check(account)

    def charge_budget(self, caller: Caller, collection: VisibleCollection, chunk_ids: Iterable[str]) -> None:
        """Counts chunks that a caller receives."""
        account = caller.account or caller.name
        if self._budget is not None and account:
            self._budget.give(account, collection.name, chunk_ids)

    def warm(self) -> None:
        """Starts to load the models of all spaces that take text."""
        for current in self.snapshots.collections.values() if self.preloads else ():
            if current.snapshot is not None:
                self.embedders.warm(current.snapshot.collection.spaces)

    def close(self) -> None:
        self.embedders.close()
        self._scheduler.close()


def _reranked(snapshot: Reader, query: Query) -> Reranked | None:
    if query.mode != "hybrid":
        return None
    if query.rescore is not None:
        return "rescore"
    return "feedback" if snapshot.can.feedback and query.fusion.a > 0 else None


def _json_bytes(value: Any) -> int:
    """The size as JSON; 0 if it cannot be serialized (too deep, lone surrogates), which `parse_filter` rejects."""
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return 0
