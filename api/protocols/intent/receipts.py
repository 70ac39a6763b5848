"""Receipts: the ledger and the event log, written off the event loop before an answer leaves.

An answer waits for one commit, which it shares with the answers beside it. A commit takes these steps; the right column
says what remains if the process dies after the step:

    1 spend       the nonce, in the ledger            nothing: steps 1 to 3 are one transaction, not yet committed
    2 reserve     the chunks that may be returned     nothing
    3 journal     the lines for the event log         a journal entry: the next opener of the ledger writes its lines
    4 write       the lines to the event log          the same; a machine that dies may lose them, a process does not
    5 sync        the ledger                          an event that no caller knows of: the answer leaves after this
    6 checkpoint  later: sync the log, clear the      the same as after step 3
                  journal

If step 4 fails, as on a full disk, the lines are removed from the journal and the answer is an error; the nonce stays
spent.
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

from aidre.api.http import Conflict, HttpError, NotFound, Unprocessable
from aidre.api.protocols.intent.envelope import AuthenticationFailed
from aidre.api.protocols.intent.event_log import EVENTS_FOLDER, EventLog, encode_line, missing_lines
from aidre.api.protocols.intent.group_commit import GroupCommit
from aidre.api.protocols.intent.ledger import LEDGER_FILE, Candidate, Exchange, Ledger, digest_of, pseudonym_of
from aidre.api.protocols.intent.messages import CitationEvent
from aidre.api.protocols.intent.signing import WINDOW_SECONDS, format_rfc3339
from aidre.engine.errors import AidreError, StorageFailed

logger = logging.getLogger("aidre")

T = TypeVar("T")
Operation: TypeAlias = Callable[[Ledger, list[bytes]], T]
"""A part of a commit, which appends its event-log lines to the list. An HttpError fails the operation alone, any other
error the whole commit."""

NONCE_LIFETIME_SECONDS = 3 * WINDOW_SECONDS
"""Longer than a timestamp stays acceptable, which is at most twice the window."""
CHECKPOINT_COMMITS = 128
"""Commits between two checkpoints, at most."""
CHECKPOINT_SECONDS = 60.0
"""A commit this long after the last checkpoint is followed by the next one."""


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
        self.folder = folder / EVENTS_FOLDER
        self._path = folder / LEDGER_FILE
        self._clock = clock
        self._ledger: Ledger | None = None
        self._log = EventLog(self.folder)
        self._group: GroupCommit[Operation[Any], Any] = GroupCommit(
            self._commit_batch, "receipts", self._checkpoint_if_due
        )
        self._commits = 0
        self._checkpoint_at = clock()

    async def spend(self, nonce: Nonce) -> None:
        """Raises AuthenticationFailed if another request has spent the nonce."""
        if not nonce.spent:
            await self._commit(lambda ledger, _: self._spend(ledger, nonce))

    async def reserve(
        self,
        nonce: Nonce,
        exchange: Exchange,
        candidates: Sequence[Candidate],
        limits: tuple[int, int],
        make_event: Callable[[Sequence[int]], Mapping[str, Any] | None],
    ) -> tuple[int, ...]:
        """The indices of the candidates that may be returned; `limits` are chunks and tokens.

        `make_event` returns the access event to commit with them, or None while more pages are to be searched. Raises
        AuthenticationFailed if another request has spent the nonce.
        """

        def operation(ledger: Ledger, lines: list[bytes]) -> tuple[int, ...]:
            self._spend(ledger, nonce)
            indices = ledger.reserve(exchange, candidates, *limits, self._clock())
            event = make_event(indices)
            if event is not None:
                lines.append(encode_line(event))
            return indices

        return await self._commit(operation)

    async def release(self, exchange: Exchange) -> None:
        """Undo the reservations of an answer that was not sent."""
        with suppress(AidreError):  # on failure the session may receive less than its limit allows
            await self._commit(lambda ledger, _: ledger.release(exchange))

    async def record_citation(self, nonce: Nonce, key_id: str, citation: CitationEvent) -> Literal["kept", "same"]:
        """Record a citation of returned chunks; "same" if it was recorded before.

        Raises AuthenticationFailed for a spent nonce, UnknownRequest, Unprocessable and Conflict.
        """
        exchange = Exchange.of(key_id, citation.request_id, "")
        line = encode_line({**citation.event, "platform": {"id": key_id}})
        digest = digest_of("event", key_id, citation.event_id)
        facts = digest_of(citation.request_id, citation.source_url, citation.display_surface, *citation.chunk_ids)

        def operation(ledger: Ledger, lines: list[bytes]) -> Literal["kept", "same"]:
            self._spend(ledger, nonce)
            _check_citation(citation, ledger.returned_chunks(exchange.request))
            status = ledger.record_citation(digest, facts, self._clock())
            if status == "other":
                raise Conflict("another event has this event_id: give each its own", member="event_id")
            if status == "same":
                return "same"
            lines.append(line)
            return "kept"

        def undo(ledger: Ledger, _: list[bytes]) -> None:
            if all(line not in entry.lines for entry in ledger.journal()):
                ledger.delete_citation(digest)

        try:
            return await self._commit(operation)
        except StorageFailed:
            with suppress(AidreError):
                await self._commit(undo)  # so that the platform can send the event again
            raise

    def _spend(self, ledger: Ledger, nonce: Nonce) -> None:
        if nonce.spent:
            return
        now = self._clock()
        if not ledger.spend(nonce.digest, now, now + NONCE_LIFETIME_SECONDS):
            raise AuthenticationFailed
        nonce.spent = True

    async def _commit(self, operation: Operation[T]) -> T:
        """The result of the operation once it is on disk; raises its HttpError, or the error of the commit."""
        result: T | HttpError = await self._group.submit(operation)
        if isinstance(result, HttpError):
            raise result
        return result

    async def open(self) -> None:
        """Write journaled lines that the event log has lost; does nothing if there is no ledger."""
        if await asyncio.to_thread(self._path.exists):
            await self._commit(lambda *_: None)

    def _commit_batch(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        ledger = self._ledger or self._open_ledger()
        lines: list[bytes] = []
        with self._log.locked():
            with ledger.transaction():
                results = [_run(operation, ledger, lines) for operation in operations]
                ledger.journal_lines(lines, self._log.segment)
            self._write(ledger, lines)
        ledger.sync()
        self._commits += 1
        return results

    def _write(self, ledger: Ledger, lines: Sequence[bytes]) -> None:
        if lines:
            try:
                self._log.write(lines)
            except StorageFailed:
                with suppress(StorageFailed), ledger.transaction():
                    ledger.remove_lines(lines)
                raise

    def _checkpoint_if_due(self) -> None:
        is_due = self._commits >= CHECKPOINT_COMMITS or self._clock() - self._checkpoint_at >= CHECKPOINT_SECONDS
        if self._ledger is None or not is_due:
            return
        try:
            self._checkpoint(self._ledger)
        except StorageFailed as error:
            logger.error("the journal of Agentic Intent could not be cleared, the next commit tries again: %s", error)

    def _checkpoint(self, ledger: Ledger) -> None:
        """Sync the event log, then move the journal entries whose lines are on disk into the tables."""
        with self._log.locked():
            journal = ledger.journal()
            self._log.sync()
            with ledger.transaction():
                synced = [entry for entry in journal if entry.segment != self._log.unsynced_segment]
                ledger.checkpoint(synced, self._clock())
                ledger.record_checksums(self.folder, self._log.unsynced_segment)
        self._commits, self._checkpoint_at = 0, self._clock()

    def _open_ledger(self) -> Ledger:
        ledger = Ledger(self._path)
        try:
            with self._log.locked():
                journal = ledger.journal()
                lines = [line for entry in journal for line in entry.lines]
                missing = missing_lines(self.folder, lines, journal[0].segment) if lines else []
                if missing:
                    self._log.write(missing)
            if journal:
                self._checkpoint(ledger)
        except BaseException:
            ledger.close()
            raise
        self._ledger = ledger
        return ledger

    def close(self) -> None:
        """Block until the running commits have ended."""
        self._group.close()
        if self._ledger is not None:
            with suppress(StorageFailed):  # on failure the entries stay in the journal
                self._checkpoint(self._ledger)
            self._ledger.close()
            self._ledger = None
        self._log.close()


def _run(operation: Operation[Any], ledger: Ledger, lines: list[bytes]) -> Any:
    try:
        return operation(ledger, lines)
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
