"""Carries the steps of an answer (`engine/retrieve`) out on the event loop: texts are embedded together, short searches
run inline, long ones in a thread, and cursors are verified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from aidre.api.access import Caller
from aidre.api.config import Protocol
from aidre.api.http import Metrics
from aidre.api.retrieval.cursor import Cursors, cursor_binding, expired_cursor, next_cursor, snapshot_of
from aidre.api.retrieval.query_embedding import QueryEmbedders
from aidre.api.retrieval.scheduler import Scheduler
from aidre.api.retrieval.snapshots import LiveSnapshots
from aidre.api.retrieval.visibility import VisibleCollection, VisibleCollections
from aidre.engine.errors import AidreError
from aidre.engine.index.fields import filter_digest
from aidre.engine.model import Mode
from aidre.engine.ports import Reader
from aidre.engine.retrieve import (
    Answer,
    Beside,
    Count,
    Embed,
    Older,
    Position,
    Question,
    Search,
    SearchPage,
    Step,
    Together,
    first_page,
    first_pages,
    later_page,
)

T = TypeVar("T")


@dataclass(slots=True)
class Ticket:
    """The caller of one answer, and the collection that it asks. A cursor of another generation may bring a newer
    state of the collection."""

    collection: VisibleCollection
    caller: Caller
    protocol: Protocol

    def binding(self, question: Question, mode: Mode, space: str | None) -> bytes:
        """What a cursor of this search is bound to."""
        return cursor_binding(self.caller, self.collection.name, mode, space, question)


class Driver:
    """One per process. `max_results` is where the pages of every search end."""

    def __init__(
        self,
        collections: VisibleCollections,
        snapshots: LiveSnapshots,
        cursors: Cursors,
        *,
        embedders: QueryEmbedders,
        scheduler: Scheduler,
        metrics: Metrics,
        max_results: int,
    ) -> None:
        self._collections, self._snapshots = collections, snapshots
        self._cursors, self._embedders = cursors, embedders
        self._scheduler, self._metrics = scheduler, metrics
        self._max_results = max_results
        self._pinned: dict[str, tuple[str, int]] = {}
        """By collection, the lineage and generation that were last kept for a cursor."""

    async def drive(self, steps: Generator[Step, Any, T], *tickets: Ticket) -> T:
        """The result of the steps, with a ticket for each place that they name. Raises what they raise, Overloaded."""
        do: Any = steps.send
        value: Any = None
        try:
            while True:
                try:
                    step = do(value)
                except StopIteration as end:
                    result: T = end.value
                    return result
                try:
                    do, value = steps.send, await self._done(step, tickets)
                except AidreError as error:
                    do, value = steps.throw, error
        finally:
            steps.close()

    async def _done(self, step: Step, tickets: Sequence[Ticket]) -> Any:
        """The result of one step."""
        if isinstance(step, Together):
            return await asyncio.gather(*(self.drive(steps, tickets[place]) for place, steps in step.answers))
        ticket, started = tickets[0], perf_counter()
        if isinstance(step, Search):
            page = await self._page(step, ticket)
            self._metrics.observe_stage(ticket.protocol, "search", perf_counter() - started)
            return page
        if isinstance(step, Embed):
            self._metrics.add_queued(1)
            try:
                return await self._embedders.embed(step.space, step.text, ticket.caller.name)
            finally:
                self._metrics.add_queued(-1)
                self._metrics.observe_stage(ticket.protocol, "embed", perf_counter() - started)
        if isinstance(step, Older):
            return await self._position(step, ticket)
        if isinstance(step, Beside) and step.seconds is not None:
            return await self._scheduler.run(step.seconds, step.work)
        work = partial(step.reader.count, step.filter) if isinstance(step, Count) else step.work
        return await self._scheduler.run_in_thread(work)

    def _page(self, step: Search, ticket: Ticket) -> Awaitable[SearchPage]:
        reader, query, newest, first, counted = step
        if first is not None:
            return self._scheduler.run_in_thread(
                partial(later_page, reader, newest, query, first, self._max_results, counted=counted)
            )
        seconds = reader.estimated_seconds(query)
        if query.mode == "dense":
            batch_key = reader, query.space, query.top_k, query.recall, query.filter and filter_digest(query.filter)
            search = partial(first_pages, reader, max_results=self._max_results)
            return self._scheduler.run_batched(seconds, batch_key, query, search)
        return self._scheduler.run(seconds, partial(first_page, reader, query, self._max_results))

    async def _position(self, step: Older, ticket: Ticket) -> Position:
        """Raises ConflictingRequest for a cursor that has expired, InvalidInput for one of another search."""
        question, name = step.question, ticket.collection.name
        cursor = self._cursors.read(str(question.cursor), ticket.binding(question, step.mode, step.space))
        if cursor.offset >= self._max_results:
            raise expired_cursor()
        newest = ticket.collection.snapshot
        reader = await snapshot_of(cursor, name, newest, self._snapshots)
        if reader is not newest:  # the cursor names another generation; a newer one may have been opened by now
            ticket.collection = self._collections.find(name, ticket.caller, ticket.protocol)
            if reader.lineage != ticket.collection.snapshot.lineage:  # the alias means another collection now
                before = self._collections.before(ticket.collection, self._snapshots.newest(reader))
                if before is None:
                    raise expired_cursor()
                ticket.collection = before
        return Position(reader, cursor.first, cursor.offset, ticket.collection.state, cursor)

    def keep(self, name: str, reader: Reader) -> None:
        """Keep the generation that a first page was read from."""
        state = reader.lineage, reader.generation
        if reader.can.generations and self._pinned.get(name) != state:
            self._pinned[name] = state
            self._snapshots.source.pin(name, reader.generation)  # one small file on disk

    def next_cursor(self, found: Answer, ticket: Ticket) -> str | None:
        """The cursor of the page after an answer, whose generation is kept for it."""
        if found.next is None or found.next >= self._max_results:
            return None
        reader, position, name = found.state.reader, found.position, ticket.collection.name
        if position is None:
            self.keep(name, reader)
        binding = ticket.binding(found.question, found.mode, None if found.space is None else found.space.id)
        return self._cursors.write(next_cursor(position and position.mark, reader, found.next), binding)
