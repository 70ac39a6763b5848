"""Retrieval, shared by all protocols: search, chunk look-up, count and chunk budget.

It raises errors of the engine and HttpErrors; each protocol renders them in its own envelope.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import orjson
from starlette.requests import Request

from aidre.api.access import Caller
from aidre.api.access.limits import ChunkBudget
from aidre.api.config import Protocol, Settings
from aidre.api.http import BadRequest, ConflictingRequest, Metrics, NotFound, Unavailable, Unprocessable, header_field
from aidre.api.retrieval.cursor import Cursors, SearchCursor, expired_cursor, next_cursor, snapshot_of
from aidre.api.retrieval.drive import Driver, Ticket
from aidre.api.retrieval.query_embedding import QueryEmbedders
from aidre.api.retrieval.redaction import check_tests_no_text
from aidre.api.retrieval.scheduler import Scheduler
from aidre.api.retrieval.snapshots import LiveSnapshots
from aidre.api.retrieval.visibility import NotHere, VisibleCollection, VisibleCollections
from aidre.engine.errors import AidreError, CollectionMissing, Unanswerable
from aidre.engine.index.fields import Filter, parse_filter
from aidre.engine.model import Json
from aidre.engine.ports import Reader
from aidre.engine.retrieve import (
    Answer,
    FindOptions,
    Question,
    Ranking,
    Step,
    Turn,
    answer,
    find_documents,
    find_in_turn,
)
from aidre.engine.types import RetrievedChunk

logger = logging.getLogger("aidre")

T = TypeVar("T")
MAX_RESULTS = 1_000
"""Results over all pages of a search, unless `top_k_max` is larger."""
GENERATION = b"aidre-generation"
"""A header field of a request: the generation that a write of its caller has answered."""
INLINE_FILTER_BYTES = 2_000
"""JSON bytes up to which a filter is parsed in the event loop; a larger one is parsed in a thread, since thousands of
values take a tenth of a second."""
PULLING_THREADS = 4
"""Pulls at a time, each of several files. They wait for the bucket, and must not keep searches out of their threads."""
MOST_PULLED = 16
"""Collections that one question may pull."""


class Served(NamedTuple):
    """An answer to a caller: from which collection, and the cursor of its next page."""

    collection: VisibleCollection
    answer: Answer
    next_cursor: str | None


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
        self._pulls = Pulls(snapshots)
        self._scheduler = Scheduler(settings.limits.wait)
        self._driver = Driver(
            self.collections,
            snapshots,
            cursors,
            embedders=embedders,
            scheduler=self._scheduler,
            metrics=metrics,
            max_results=self.max_results,
        )

    async def reach(self, request: Request, name: str | None) -> None:
        """Open the newest state of a collection first, where this process has an older one than the caller knows: a
        write answers with the generation that has it, maybe by another worker. BadRequest."""
        text = header_field(request, GENERATION)
        if text is None:
            return
        if not (text.isascii() and text.isdigit()):
            raise BadRequest("Aidre-Generation must be a whole number, the generation that a write answered")
        current = self.snapshots.collections.get(name or "")
        newest = None if current is None else current.snapshot
        if newest is None or newest.generation < int(text[:20]):
            await asyncio.to_thread(self.snapshots.refresh)

    async def find(self, name: str | None, cursor: str | None, caller: Caller, protocol: Protocol) -> VisibleCollection:
        """As `find_here`; raises ConflictingRequest where the cursor is of a collection that was dropped."""
        try:
            return await self.find_here(name, caller, protocol)
        except (CollectionMissing, BadRequest):
            if cursor is not None:
                dropped = await asyncio.to_thread(self.collections.dropped, name, caller, protocol)
                if self._cursors.lineage(cursor) in dropped:
                    raise expired_cursor() from None
            raise

    async def find_here(self, name: str | None, caller: Caller, protocol: Protocol) -> VisibleCollection:
        """As `collections.find`; a collection that is not on this machine yet is pulled first. Also raises Unavailable
        where that fails."""
        try:
            return self.collections.find(name, caller, protocol)
        except NotHere as missing:
            await self._pulls.pull(missing.name)
            return self.collections.find(name, caller, protocol)

    async def here(self, names: Sequence[str]) -> bool:
        """Pull those of the collections that are not on this machine; whether there were any. BadRequest for too many,
        Unavailable."""
        self.snapshots.used(names)
        absent = [name for name in names if not self.collections.is_here(name)]
        if len(absent) > MOST_PULLED:
            raise BadRequest(
                f"this would fetch {len(absent)} collections that are not on this machine: name a collection",
                missing=["collection"],
            )
        await asyncio.gather(*(self._pulls.pull(name) for name in absent))
        return bool(absent)

    async def ask(
        self,
        collection: VisibleCollection,
        question: Question,
        caller: Caller,
        protocol: Protocol,
        *,
        filter: Json = None,
        charge: bool = True,
    ) -> Served:
        """The answer to a question. `collection` is from `collections.find` for this caller; `filter` is JSON.

        With `charge=False` the budget is not charged for the hits; the protocol calls `charge_budget` for those it
        returns. Raises RateLimited if the budget is spent, Overloaded, and the errors of a question that the
        collection cannot answer.
        """
        self.check_budget(caller)
        ticket = Ticket(collection, caller, protocol)
        if filter is not None:
            question = await self._with_filter(question, filter, ticket)
        found = await self._drive(answer(question, collection.state), ticket)
        served = Served(ticket.collection, found, self._driver.next_cursor(found, ticket))
        if charge and self._budget is not None:
            self.check_budget(caller)  # concurrent requests may have spent it
            shown = chain(found.hits, *(found.passages or ()))
            self.charge_budget(caller, collection, (hit.chunk.id for hit in shown))
        return served

    async def documents(
        self,
        scopes: Sequence[tuple[VisibleCollection, Json]],
        question: Question,
        caller: Caller,
        protocol: Protocol,
        *,
        bound: float,
        keywords: Sequence[str] = (),
        turn: Turn | None = None,
    ) -> tuple[Ranking, str]:
        """The documents that a question finds in several collections, each with its filter in JSON, and the text that
        was answered, which with `turn` may be that one; see `find_documents`. The budget is not charged: the protocol
        does that for the documents that it returns."""
        self.check_budget(caller)
        questions, tickets = [], []
        for collection, filter in scopes:
            ticket = Ticket(collection, caller, protocol)
            own = question if filter is None else await self._with_filter(question, filter, ticket)
            questions.append((own, collection.state))
            tickets.append(ticket)
        text = str(question.text)
        options: FindOptions = {
            "bound": bound,
            "keywords": keywords,
            "correct": question.correct,
            "operators": question.operators,
        }
        if turn is not None:
            return await self._drive(find_in_turn(text, turn, questions, **options), *tickets)
        return await self._drive(find_documents(text, questions, **options), *tickets), text

    async def _drive(self, steps: Generator[Step, Any, T], *tickets: Ticket) -> T:
        try:
            return await self._driver.drive(steps, *tickets)
        except Unanswerable as error:
            raise Unprocessable(error.message, **error.details) from None

    async def _with_filter(self, question: Question, filter: Json, ticket: Ticket) -> Question:
        """InvalidFilter."""
        return question._replace(filter=await self.read_filter(filter, ticket.collection))

    async def read_filter(self, value: Json, collection: VisibleCollection, *, is_free: bool = False) -> Filter:
        """A filter that asks for nothing that the collection withholds; with `is_free`, whose answers no budget counts,
        for nothing that is counted either. InvalidFilter."""
        is_long = _json_bytes(value) > INLINE_FILTER_BYTES
        parsed = await self.in_thread(partial(parse_filter, value)) if is_long else parse_filter(value)
        if not collection.settings.return_text:
            check_tests_no_text(parsed, collection.snapshot, collection.settings)
        elif is_free and self.counts_chunks:
            why = "and texts are counted here (limits.chunks_per_day)"
            check_tests_no_text(parsed, collection.snapshot, collection.settings, why)
        return parsed

    async def resumed(
        self, cursor: str | None, collection: VisibleCollection, binding: bytes
    ) -> tuple[Reader, SearchCursor | None]:
        """The state that a listing reads, and its position in it; None at its beginning. InvalidInput for the cursor of
        another listing, ConflictingRequest for one that has expired."""
        if cursor is None:
            return collection.snapshot, None
        position = self._cursors.read(cursor, binding)
        return await snapshot_of(position, collection.name, collection.snapshot, self.snapshots), position

    def cursor_at(
        self, offset: int, reader: Reader, position: SearchCursor | None, collection: VisibleCollection, binding: bytes
    ) -> str:
        """The cursor of a listing that goes on at `offset`; its state is kept for it."""
        if position is None:
            self._driver.keep(collection.name, reader)
        return self._cursors.write(next_cursor(position, reader, offset), binding)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """What takes long and is not a search. Raises Overloaded."""
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

        Raises NotFound, CollectionMissing, RateLimited, ConflictingRequest if several collections have it, and
        Unavailable if it may be in one that cannot be opened.
        """
        self.check_budget(caller)
        names = [name] if name is not None else self.collections.names(caller, protocol)
        if name is None:
            await self.here(names)
        matches: list[tuple[VisibleCollection, RetrievedChunk]] = []
        unavailable: Unavailable | None = None
        for candidate in names:
            try:
                collection = await self.find_here(candidate, caller, protocol)
            except Unavailable as error:
                unavailable = error
                continue
            chunk = await self.read(collection.snapshot, collection.snapshot.get, chunk_id)
            if chunk is not None:
                matches.append((collection, chunk))
        if len(matches) > 1:
            holders = [collection.name for collection, _ in matches]
            raise ConflictingRequest("several collections have this chunk: add ?collection=", collections=holders)
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
        self._pulls.close()
        self._scheduler.close()


def _json_bytes(value: Any) -> int:
    """The size as JSON; 0 if it cannot be serialized (too deep, lone surrogates), which `parse_filter` rejects."""
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return 0


def retrieval_of(request: Request) -> Retrieval:
    """That of the application which answers a request."""
    retrieval: Retrieval = request.app.state.retrieval
    return retrieval


# -- pulls ---------------------------------------------------------------------------------------------------------


class Pulls:
    """Pulls of collections that a replica does not have yet: one for all who ask at once, in threads of their own."""

    def __init__(self, snapshots: LiveSnapshots) -> None:
        self._snapshots = snapshots
        self._threads = ThreadPoolExecutor(PULLING_THREADS, thread_name_prefix="pull")
        self._running: dict[str, asyncio.Future[None]] = {}

    async def pull(self, name: str) -> None:
        """Until the collection is open. It goes on when its caller disconnects. Unavailable."""
        running = self._running.get(name)
        if running is None:
            running = asyncio.get_running_loop().run_in_executor(self._threads, self._snapshots.pull, name)
            self._running[name] = running
            running.add_done_callback(lambda done: self._forget(name, done))
        try:
            await asyncio.shield(running)
        except (AidreError, OSError) as error:
            text = "this collection cannot be fetched at the moment: try again later"
            raise Unavailable(text, collection=name) from error

    def _forget(self, name: str, done: asyncio.Future[None]) -> None:
        self._running.pop(name, None)
        if not done.cancelled() and (problem := done.exception()) is not None:
            logger.error("collection %s cannot be fetched: %s", name, problem)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
