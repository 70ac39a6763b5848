"""Receipts: what the ledger has of an answer before it leaves, written off the event loop.

An answer waits for one commit, and so one fsync, which it shares with the answers beside it: its nonce, the chunks that
may be returned and its event are on disk together, or nothing is and the answer is an error.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import orjson

from aidre.api.http import ConflictingRequest, HttpError, NotFound, Unprocessable, digest_of
from aidre.api.protocols.intent.event_ledger import (
    LEDGER_FILE,
    EventLedger,
    PassageCandidate,
    RecordedExchange,
    pseudonym_of,
)
from aidre.api.protocols.intent.group_commit import GroupCommit
from aidre.api.protocols.intent.hmac_signing import WINDOW_SECONDS, format_rfc3339
from aidre.api.protocols.intent.intent_messages import CitationEvent
from aidre.api.protocols.intent.older_receipts import EVENTS_FOLDER
from aidre.api.protocols.intent.signed_envelope import AuthenticationFailed
from aidre.engine.errors import AidreError, StorageFailed

logger = logging.getLogger("aidre")

T = TypeVar("T")
Operation: TypeAlias = Callable[[EventLedger], T]
"""A part of a commit. An HttpError fails the operation alone, any other error the whole commit."""

NONCE_LIFETIME_SECONDS = 3 * WINDOW_SECONDS
"""Longer than a timestamp stays acceptable, which is at most twice the window."""


@dataclass(slots=True)
class Nonce:
    """Allows one answer to a request; the first commit for the request spends it."""

    digest: bytes
    spent: bool = False

    @classmethod
    def of(cls, key_id: str, nonce: str) -> Nonce:
        return cls(digest_of("nonce", key_id, nonce))


class Receipts:
    """One per process. Every method returns once its effect is on disk.

    Files are opened on first use, so that a server over a read-only store starts and fails only where it has to write.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = folder / LEDGER_FILE
        self._clock = clock
        self._ledger: EventLedger | None = None
        self._spending: list[Nonce] = []
        self._group: GroupCommit[Operation[Any], Any] = GroupCommit(self._commit_batch, "receipts", self._maintain)

    async def spend(self, nonce: Nonce) -> None:
        """Raises AuthenticationFailed if another request has spent the nonce."""
        if not nonce.spent:
            await self._commit(lambda ledger: self._spend(ledger, nonce))

    async def reserve(
        self,
        nonce: Nonce,
        exchange: RecordedExchange,
        candidates: Sequence[PassageCandidate],
        limits: tuple[int, int],
        make_event: Callable[[Sequence[int]], Mapping[str, Any] | None],
    ) -> tuple[int, ...]:
        """The indices of the candidates that may be returned; `limits` are chunks and tokens.

        `make_event` returns the access event to commit with them, or None while more pages are to be searched. Raises
        AuthenticationFailed if another request has spent the nonce.
        """

        def operation(ledger: EventLedger) -> tuple[int, ...]:
            self._spend(ledger, nonce)
            indices = ledger.reserve(exchange, candidates, *limits, self._clock())
            event = make_event(indices)
            if event is not None:
                ledger.add_event(event)
            return indices

        return await self._commit(operation)

    async def release(self, exchange: RecordedExchange) -> None:
        """Undo the reservations of an answer that was not sent."""
        with suppress(AidreError):  # on failure the session may receive less than its limit allows
            await self._commit(lambda ledger: ledger.release(exchange))

    async def record_citation(self, nonce: Nonce, key_id: str, citation: CitationEvent) -> Literal["kept", "same"]:
        """Record a citation of returned chunks; "same" if it was recorded before.

        Raises AuthenticationFailed for a spent nonce, UnknownRequest, Unprocessable and ConflictingRequest.
        """
        exchange = RecordedExchange.of(key_id, citation.request_id, "")
        event = {**citation.event, "platform": {"id": key_id}}
        digest = digest_of("event", key_id, citation.event_id)
        facts = digest_of(citation.request_id, citation.source_url, citation.display_surface, *citation.chunk_ids)

        def operation(ledger: EventLedger) -> Literal["kept", "same"]:
            self._spend(ledger, nonce)
            _check_citation(citation, ledger.returned_chunks(exchange.request))
            status = ledger.record_citation(digest, facts, self._clock())
            if status == "other":
                raise ConflictingRequest("another event has this event_id: give each its own", member="event_id")
            if status == "same":
                return "same"
            ledger.add_event(event)
            return "kept"

        return await self._commit(operation)

    def _spend(self, ledger: EventLedger, nonce: Nonce) -> None:
        if nonce.spent:
            return
        now = self._clock()
        if not ledger.spend(nonce.digest, now, now + NONCE_LIFETIME_SECONDS):
            raise AuthenticationFailed
        self._spending.append(nonce)

    async def _commit(self, operation: Operation[T]) -> T:
        """The result of the operation once it is on disk; raises its HttpError, or the error of the commit."""
        result: T | HttpError = await self._group.submit(operation)
        if isinstance(result, HttpError):
            raise result
        return result

    async def open(self) -> None:
        """Take over what an older release wrote; does nothing where there are no receipts."""
        if await asyncio.to_thread(lambda: self.path.exists() or self.path.with_name(EVENTS_FOLDER).exists()):
            await self._commit(lambda _: None)

    def _commit_batch(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        ledger = self._ledger = self._ledger or EventLedger(self.path)
        self._spending.clear()
        with ledger.transaction():
            results = [_run(operation, ledger) for operation in operations]
        for nonce in self._spending:
            nonce.spent = True
        ledger.sync()
        return results

    def _maintain(self) -> None:
        try:
            if self._ledger is not None:
                self._ledger.maintain(self._clock())
        except StorageFailed as error:
            logger.error("expired receipts could not be deleted, the next commit tries again: %s", error)

    def close(self) -> None:
        """Block until the running commits have ended."""
        self._group.close()
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None


def _run(operation: Operation[Any], ledger: EventLedger) -> Any:
    try:
        return operation(ledger)
    except HttpError as error:
        return error


def build_access_event(
    request_id: str, tokens: Sequence[int], *, version: str, publisher: Mapping[str, str], key_id: str, now: float
) -> dict[str, Any]:
    """The receipt of one ok answer; `tokens` has the token count of every returned chunk."""
    return {
        "aip_version": version,
        "event_id": "evt_" + secrets.token_urlsafe(16),
        "event_type": "access",
        "timestamp": format_rfc3339(now),
        "request_id": request_id,
        "publisher": {"id": publisher["id"], "domain": publisher["domain"]},
        "platform": {"id": key_id},
        "access": {"chunks_returned": len(tokens), "token_count": sum(tokens), "retrieval_mode": "chunks"},
    }


def _check_citation(citation: CitationEvent, returned: Mapping[str, frozenset[str | None]]) -> None:
    """Raises UnknownRequest or Unprocessable; `returned` maps chunks to URLs, by pseudonym or (older releases) name."""
    if not returned:
        raise UnknownRequest("nothing was returned to this key under this request_id", member="request_id")
    for chunk_id in citation.chunk_ids:
        urls = returned.get(pseudonym_of(chunk_id)) or returned.get(chunk_id)
        if urls is None:
            shown = orjson.dumps(chunk_id[:200]).decode()
            raise Unprocessable(f"chunk {shown} was not returned under this request_id", member="citation.chunk_ids")
        if urls.isdisjoint({citation.source_url, pseudonym_of(citation.source_url)}):
            raise Unprocessable("source_url is not that of the cited chunks", member="citation.source_url")


class UnknownRequest(NotFound):
    code = "unknown_request"
