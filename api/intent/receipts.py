"""Receipts: what has to be on disk before an answer leaves. The ledger and the event log, off the event loop.

An answer waits for one turn of the disk, together with those beside it. A turn takes these steps; behind each stands
what is left where the process dies after it:

    1 spend   the nonce, in the ledger              nothing: 1 to 3 are one transaction, which is not committed
    2 take    what may be returned, counted         nothing
    3 note    the lines that the log is to have     notes: who opens the ledger next writes what the log lacks
    4 write   the lines into the log                the same; a machine that dies may lose them, a process does not
    5 sync    the ledger                            an event of which no caller knows: the answer leaves after this
    6 strike  later: sync the log, forget notes     what 3 leaves

Where 4 fails for want of room, the notes are taken back and the answer is an error; the nonce stays spent.
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

from aidre.api.intent import ledger as tables
from aidre.api.intent.envelope import AuthenticationFailed
from aidre.api.intent.ledger import Candidate, Exchange, Ledger, digest_of, hidden
from aidre.api.intent.log import FOLDER, EventLog, line_of, missing_lines
from aidre.api.intent.messages import CitationEvent
from aidre.api.intent.signing import WINDOW_SECONDS, rfc3339
from aidre.api.intent.together import Together
from aidre.api.refusals import Conflicting, NotFound, Refusal, Unprocessable
from aidre.engine.errors import AidreError, StorageFailed

logger = logging.getLogger("aidre")

T = TypeVar("T")
Work: TypeAlias = Callable[[Ledger, list[bytes]], T]
"""Part of a turn: what it adds to the list are lines of the log. It may refuse; any other error ends the whole turn."""

NONCE_SECONDS = 3 * WINDOW_SECONDS
"""Longer than a timestamp can stay acceptable, which is twice the window."""
NOTED_MOST = 128
"""Turns that are noted before the log is synced and they are struck."""
NOTED_SECONDS = 60.0
"""After which they are struck, too, when there is a turn."""


@dataclass(slots=True)
class Nonce:
    """What a request may be answered once for; the first that goes to disk for the request spends it."""

    digest: bytes
    spent: bool = False

    @classmethod
    def of(cls, key_id: str, nonce: str) -> Nonce:
        return cls(digest_of("nonce", key_id, nonce))


class Receipts:
    """One per process; opens its files when they are first needed, so a store that cannot be written fails late.

    Whatever returns here is on disk.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder / FOLDER
        self._path = folder / tables.FILE
        self._clock = clock
        self._ledger: Ledger | None = None
        self._log = EventLog(self.folder)
        self._turns: Together[Work[Any], Any] = Together(self._turn, "receipts", self._tidy)
        self._noted = 0
        self._struck = clock()

    async def spend(self, nonce: Nonce) -> None:
        """Raises AuthenticationFailed where another request has spent it."""
        if not nonce.spent:
            await self._on_disk(lambda ledger, _: self._spend(ledger, nonce))

    async def take(
        self,
        nonce: Nonce,
        exchange: Exchange,
        candidates: Sequence[Candidate],
        most: tuple[int, int],
        receipt: Callable[[Sequence[int]], Mapping[str, Any] | None],
    ) -> tuple[int, ...]:
        """The places of what may be returned, of at most so many chunks and tokens. AuthenticationFailed.

        `receipt` makes of them the event that goes to disk with them; None where more is looked for.
        """

        def taking(ledger: Ledger, lines: list[bytes]) -> tuple[int, ...]:
            self._spend(ledger, nonce)
            places = ledger.take(exchange, candidates, *most, self._clock())
            event = receipt(places)
            if event is not None:
                lines.append(line_of(event))
            return places

        return await self._on_disk(taking)

    async def give_back(self, exchange: Exchange) -> None:
        with suppress(AidreError):  # then the session has less than it could have
            await self._on_disk(lambda ledger, _: ledger.give_back(exchange))

    async def keep_citation(self, nonce: Nonce, key_id: str, cited: CitationEvent) -> Literal["kept", "same"]:
        """Keeps an event that agrees with what was returned; raises AuthenticationFailed where the nonce was spent, and
        NotFound, Unprocessable or Conflicting."""
        exchange = Exchange.of(key_id, cited.request_id, "")
        line = line_of({**cited.event, "platform": {"id": key_id}})
        digest = digest_of("event", key_id, cited.event_id)
        facts = digest_of(cited.request_id, cited.source_url, cited.display_surface, *cited.chunk_ids)

        def keeping(ledger: Ledger, lines: list[bytes]) -> Literal["kept", "same"]:
            self._spend(ledger, nonce)
            _check(cited, ledger.returned(exchange.request))
            known = ledger.cite(digest, facts, self._clock())
            if known == "other":
                raise Conflicting("another event has this event_id: give each its own", member="event_id")
            if known == "same":
                return "same"
            lines.append(line)
            return "kept"

        def undoing(ledger: Ledger, _: list[bytes]) -> None:
            if all(line not in one.lines for one in ledger.noted()):
                ledger.forget_cited(digest)

        try:
            return await self._on_disk(keeping)
        except StorageFailed:
            with suppress(AidreError):
                await self._on_disk(undoing)  # so that it can be sent again
            raise

    def _spend(self, ledger: Ledger, nonce: Nonce) -> None:
        if nonce.spent:
            return
        now = self._clock()
        if not ledger.use(nonce.digest, now, now + NONCE_SECONDS):
            raise AuthenticationFailed
        nonce.spent = True

    async def _on_disk(self, work: Work[T]) -> T:
        """What the work gives back, when it is on disk, or its refusal."""
        result: T | Refusal = await self._turns.through(work)
        if isinstance(result, Refusal):
            raise result
        return result

    async def open(self) -> None:
        """Writes again what the log may have lost; returns at once where nothing was ever written."""
        if await asyncio.to_thread(self._path.exists):
            await self._on_disk(lambda *_: None)

    def _turn(self, works: Sequence[Work[Any]]) -> list[Any]:
        ledger = self._ledger or self._opened()
        lines: list[bytes] = []
        with self._log.alone():
            with ledger.transaction():
                results = [_result(work, ledger, lines) for work in works]
                ledger.note(lines, self._log.number)
            self._write(ledger, lines)
        ledger.sync()
        self._noted += 1
        return results

    def _write(self, ledger: Ledger, lines: Sequence[bytes]) -> None:
        if lines:
            try:
                self._log.write(lines)
            except StorageFailed:
                with suppress(StorageFailed), ledger.transaction():
                    ledger.take_back(lines)
                raise

    def _tidy(self) -> None:
        if self._ledger is None or (self._noted < NOTED_MOST and self._clock() - self._struck < NOTED_SECONDS):
            return
        try:
            self._strike(self._ledger)
        except StorageFailed as error:
            logger.error("what is noted of Agentic Intent stays so until the next turn: %s", error)

    def _strike(self, ledger: Ledger) -> None:
        """Brings the log to disk, and strikes what need not be noted any more."""
        with self._log.alone():
            noted = ledger.noted()
            self._log.sync()
            with ledger.transaction():
                ledger.strike([one for one in noted if one.segment != self._log.distrusted], self._clock())
                ledger.mark(self.folder, self._log.distrusted)
        self._noted, self._struck = 0, self._clock()

    def _opened(self) -> Ledger:
        ledger = Ledger(self._path)
        try:
            with self._log.alone():
                noted = ledger.noted()
                lines = [line for one in noted for line in one.lines]
                missing = missing_lines(self.folder, lines, noted[0].segment) if lines else []
                if missing:
                    self._log.write(missing)
            if noted:
                self._strike(ledger)
        except BaseException:
            ledger.close()
            raise
        self._ledger = ledger
        return ledger

    def close(self) -> None:
        """Blocks until what is under way is through."""
        self._turns.close()
        if self._ledger is not None:
            with suppress(StorageFailed):  # then it stays noted
                self._strike(self._ledger)
            self._ledger.close()
            self._ledger = None
        self._log.close()


def _result(work: Work[Any], ledger: Ledger, lines: list[bytes]) -> Any:
    try:
        return work(ledger, lines)
    except Refusal as refusal:
        return refusal


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
        urls = returned.get(hidden(chunk_id)) or returned.get(chunk_id)
        if urls is None:
            shown = orjson.dumps(chunk_id[:200]).decode()
            raise Unprocessable(f"chunk {shown} was not returned under this request_id", member="citation.chunk_ids")
        if urls.isdisjoint({cited.source_url, hidden(cited.source_url)}):
            raise Unprocessable("source_url is not that of the cited chunks", member="citation.source_url")


class UnknownRequest(NotFound):
    code = "unknown_request"
