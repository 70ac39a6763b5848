"""Receipts: what has to be on disk before an answer leaves. The ledger and the event log, off the event loop.

An answer waits for both at once, and together with the answers beside it: one turn of the disk serves them all.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson

from aidre.api.intent import ledger as tables
from aidre.api.intent.ledger import Candidate, Exchange, Ledger, digest_of
from aidre.api.intent.log import FOLDER, EventLog, line_of, newest_segment, read_events
from aidre.api.intent.messages import CitationEvent
from aidre.api.intent.signing import WINDOW_SECONDS, rfc3339
from aidre.api.intent.together import Together
from aidre.api.refusals import Conflicting, NotFound, Unavailable, Unprocessable
from aidre.engine.errors import AidreError

T = TypeVar("T")

NONCE_SECONDS = 3 * WINDOW_SECONDS
"""Longer than a timestamp can stay acceptable, which is twice the window."""
PATIENCE = 10.0
"""After so many seconds an event that another worker began to keep is taken for abandoned."""
LOOK_SECONDS = 0.02


class Receipts:
    """One per process; opens its files when they are first needed, so a store that cannot be written fails late."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder / FOLDER
        self._path = folder / tables.FILE
        self._clock = clock
        self._ledger: Ledger | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")  # one thread, so one connection
        self._log = EventLog(self.folder)
        self._lines: Together[bytes] = Together(self._log.append, "events")
        self._syncs: Together[None] = Together(self._sync, "ledger-sync")
        self._changes = 0
        self._durable = 0

    async def use(self, key_id: str, nonce: str) -> bool:
        """Whether this key has not used the nonce before. Let no answer leave before `settled`."""
        now = self._clock()
        return await self._change(Ledger.use, digest_of("nonce", key_id, nonce), now, now + NONCE_SECONDS)

    async def take(
        self, exchange: Exchange, candidates: Sequence[Candidate], chunks: int, tokens: int
    ) -> tuple[int, ...]:
        return await self._change(Ledger.take, exchange, candidates, chunks, tokens, self._clock())

    async def give_back(self, exchange: Exchange) -> None:
        with suppress(AidreError):  # then the session has less than it could have
            await self._change(Ledger.give_back, exchange)

    async def keep_access(self, event: Mapping[str, Any]) -> None:
        """Returns when the event is on disk, and all that was taken too."""
        results = await asyncio.gather(self._lines.through(line_of(event)), self.settled(), return_exceptions=True)
        for failure in results:
            if failure is not None:
                raise failure

    async def keep_citation(self, key_id: str, cited: CitationEvent) -> Literal["kept", "same"]:
        """Keeps an event that agrees with what was returned; NotFound, Unprocessable, Conflicting."""
        exchange = Exchange.of(key_id, cited.request_id, "")
        _check(cited, await self._do(Ledger.returned, exchange.request))
        event = {**cited.event, "platform": {"id": key_id}}
        digest = digest_of("event", key_id, cited.event_id)
        facts = digest_of(cited.request_id, cited.source_url, cited.display_surface, *cited.chunk_ids)
        segment = await asyncio.to_thread(newest_segment, self.folder)
        deadline = time.monotonic() + PATIENCE
        claim = await self._change(Ledger.claim, digest, facts, segment, self._clock(), PATIENCE)
        while claim.state == "elsewhere":
            if time.monotonic() > deadline:
                raise Unavailable("this event is being kept just now: send it again")
            await asyncio.sleep(LOOK_SECONDS)
            claim = await self._change(Ledger.claim, digest, facts, segment, self._clock(), PATIENCE)
        if claim.state == "other":
            raise Conflicting("another event has this event_id: give each its own", member="event_id")
        if claim.state == "same":
            return "same"
        await self._write(key_id, digest, event, claim.segment)
        return "kept"

    async def _write(self, key_id: str, digest: bytes, event: Mapping[str, Any], segment: int | None) -> None:
        stands = segment is not None and await asyncio.to_thread(self._stands, key_id, event, segment)
        if not stands:
            try:
                await self.settled()  # so that after a power cut the log is searched for it
                await self._lines.through(line_of(event))
            except AidreError:
                with suppress(AidreError):
                    await self._change(Ledger.drop, digest)
                raise
        await self._change(Ledger.kept, digest)

    def _stands(self, key_id: str, event: Mapping[str, Any], segment: int) -> bool:
        """Whether an attempt that did not end has written it all the same."""
        return any(
            one.get("event_id") == event["event_id"] and one.get("platform") == {"id": key_id}
            for one in read_events(self.folder, segment)
        )

    async def settled(self) -> None:
        """Returns when everything that was changed is on disk."""
        if self._durable < self._changes:
            await self._syncs.through(None)

    def _sync(self, _: Sequence[None]) -> None:
        reached = self._changes
        if self._ledger is not None:
            self._ledger.sync()
        self._durable = max(self._durable, reached)

    async def _change(self, method: Callable[..., T], *arguments: Any) -> T:
        result = await self._do(method, *arguments)
        self._changes += 1
        return result

    async def _do(self, method: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._call, method, arguments)

    def _call(self, method: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        if self._ledger is None:
            self._ledger = Ledger(self._path)
        return method(self._ledger, *arguments)

    def close(self) -> None:
        """Blocks until what is under way is through."""
        self._lines.close()
        self._syncs.close()
        if self._ledger is not None:
            self._thread.submit(self._ledger.close).result()
            self._ledger = None
        self._thread.shutdown(wait=True)
        self._log.close()


def access_event(
    request_id: str, tokens: Sequence[int], *, version: str, publisher: Mapping[str, str], key_id: str, now: float
) -> dict[str, Any]:
    """The receipt of one ok answer."""
    return {
        "aip_version": version,
        "event_id": "evt_" + secrets.token_urlsafe(16),
        "event_type": "access",
        "timestamp": rfc3339(now),
        "request_id": request_id,
        "publisher": {"id": publisher["id"], "domain": publisher["domain"]},
        "platform": {"id": key_id},
        "access": {"chunks_returned": len(tokens), "token_count": sum(tokens), "retrieval_mode": "chunks"},
    }


def _check(cited: CitationEvent, returned: Mapping[str, frozenset[str | None]]) -> None:
    if not returned:
        raise UnknownRequest("nothing was returned to this key under this request_id", member="request_id")
    for chunk_id in cited.chunk_ids:
        if chunk_id not in returned:
            shown = orjson.dumps(chunk_id[:200]).decode()
            raise Unprocessable(f"chunk {shown} was not returned under this request_id", member="citation.chunk_ids")
        if cited.source_url not in returned[chunk_id]:
            raise Unprocessable("source_url is not that of the cited chunks", member="citation.source_url")


class UnknownRequest(NotFound):
    code = "unknown_request"
