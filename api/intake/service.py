"""Agent Intake at work: a submission becomes an offer, an offer is bound, and what was bound is handed on or kept.

The disk is asked in one thread of its own, webhooks in another: the event loop waits for neither.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from aidre.api.access import granted
from aidre.api.intake.bind_key import BindKey, find_bind_key
from aidre.api.intake.envelope import VERSION, IntakeRefusal, as_uuid, invalid, unavailable
from aidre.api.intake.ledger import Ledger, StoredBind, StoredOffer
from aidre.api.intake.manifest import bind_endpoint
from aidre.api.intake.offers import binding, expiry, items_of, offer_of, question, timestamp
from aidre.api.intake.outbox import (
    DELIVERY_SECONDS,
    LEASE_SECONDS,
    RENEW_SECONDS,
    Delivery,
    deliver,
    delivery_of,
    retry_seconds,
)
from aidre.api.intake.rates import Rates
from aidre.api.intake.schemas import BIND_DATA, complaint
from aidre.api.intake.settings import OfferedIntake, retention_of
from aidre.api.retrieve import Retrieval
from aidre.engine.errors import AidreError
from aidre.engine.filters import parse_filter

logger = logging.getLogger("aidre")

PATIENCE_SECONDS = 10.0
"""In which an agent is answered."""
LOOK_SECONDS = 1.0
"""How often binds are looked for that another worker could not deliver."""
SWEEP_SECONDS = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BindWish:
    """A bind request whose form is right."""

    offer: str
    session: str
    data: Mapping[str, Any]
    agent: Mapping[str, Any]
    metadata: Mapping[str, Any]


class IntakeService:
    """One per process. Raises ConfigurationError where binds would need a key that cannot be made."""

    def __init__(self, retrieval: Retrieval, store: Path) -> None:
        self.retrieval = retrieval
        self.settings = retrieval.settings
        self.intakes = {intake.id: intake for intake in self.settings.intakes}
        self._folder = store / ".log"
        binds = any(intake.binds for intake in self.settings.intakes)
        self._key = find_bind_key(self.settings.intake, store) if binds else None
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="intake")
        self._hook = ThreadPoolExecutor(1, thread_name_prefix="webhook")
        self._ledger: Ledger | None = None
        self._rates: Rates | None = None
        self._bound = asyncio.Event()
        self._ending = False
        self._work: asyncio.Task[None] | None = None

    async def take(self, intake: OfferedIntake, caller: str) -> None:
        """Counts a submission; raises IntakeRefusal where it is one too many."""
        if not intake.rate_limit:
            return
        wait = await self._on_disk(self._take, intake, caller)
        if wait > 0:
            seconds = math.ceil(wait)
            raise IntakeRefusal(
                "RATE_LIMITED", f"too many requests: come again in {seconds} seconds", {"Retry-After": str(seconds)}
            )

    async def submit(
        self, intake: OfferedIntake, data: Mapping[str, Any], session: str, account: str = ""
    ) -> dict[str, Any]:
        """The members of the answer beside the session: an offer, or why there is none."""
        items = await self._items(intake, data, account)
        if not items:
            return {"status": "declined", "decline_reason": intake.decline_reason}
        offer = offer_of(str(uuid.uuid4()), intake, data, items)
        if intake.binds:
            expires = expiry(intake)
            retention = retention_of(intake, self.settings.intake)
            stored = StoredOffer(offer["id"], _plain(session), intake.id, intake.bind_requires, expires, retention)
            await self._on_disk(self._add_offer, stored)
            offer |= binding(intake, bind_endpoint(str(self.settings.server.base_url)), expires)
        return {"status": "offer", "offer": offer}

    async def _items(self, intake: OfferedIntake, data: Mapping[str, Any], account: str) -> list[dict[str, Any]]:
        asked = question(intake, data, self.settings.limits.query_chars)
        if asked is None:
            return []
        # An intake is a grant to its collection, also a private one, and to nothing else.
        caller = granted(intake.collection, account)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                shown = self.retrieval.find(intake.collection, caller, "intake")
                answer = await self.retrieval.search(shown, asked, caller, "intake")
        except TimeoutError as error:
            raise unavailable("the answer takes too long at the moment: try again later") from error
        return items_of(answer, intake.min_score)

    async def bind(self, wish: BindWish) -> bytes:
        """The answer to a bind, the same for the same bind whenever it comes; raises IntakeRefusal."""
        if self._key is None:
            raise _not_found()
        answer = await self._on_disk(self._bind, wish, self._key)
        self._bound.set()
        return answer

    def _bind(self, wish: BindWish, key: BindKey) -> bytes:
        ledger = self._opened()
        session = _plain(wish.session)
        digest = key.digest(orjson.dumps(wish.data, option=orjson.OPT_SORT_KEYS))
        bound = ledger.bind(wish.offer)
        if bound is None:
            now = time.time()
            offer = ledger.offer(wish.offer)
            if offer is None or offer.session != session:
                raise _not_found()
            if offer.expires <= now:
                raise IntakeRefusal("OFFER_EXPIRED", f"this offer expired at {timestamp(offer.expires)}: submit again")
            _check_complete(wish.data, offer.requires)
            bound = ledger.add_bind(self._sealed(wish, offer, key, digest, now), deliver=self._webhook is not None)
        if bound.session != session:
            raise _not_found()
        if bound.key != key.id:
            logger.error("the bind of offer %s was sealed with another bind key", bound.offer)
            raise unavailable("this bind cannot be compared at the moment: try again later")
        if bound.digest != digest:
            raise IntakeRefusal("OFFER_ALREADY_BOUND", "this offer is bound already, with other data")
        return bound.answer

    def _sealed(self, wish: BindWish, offer: StoredOffer, key: BindKey, digest: bytes, now: float) -> StoredBind:
        said = {
            "aip_version": VERSION,
            "session_id": wish.session,
            "status": "bound",
            "offer_id": offer.id,
            "bound_at": timestamp(now),
        }
        handed = orjson.dumps({"bind_data": wish.data, "agent": wish.agent, "metadata": wish.metadata})
        return StoredBind(
            offer=offer.id,
            session=offer.session,
            intake=offer.intake,
            bound=now,
            answer=orjson.dumps(said),
            key=key.id,
            digest=digest,
            sealed=key.seal(handed, offer.id),
            forget=now + offer.retention,
        )

    @property
    def _webhook(self) -> str | None:
        return self.settings.intake.webhook

    async def open(self) -> None:
        """Begins to deliver and to forget."""
        for intake in self.intakes.values():
            if intake.requires_auth and not self.settings.knows_callers:
                logger.warning("intake %s requires_auth, but there are no [[keys]]: nobody can submit to it", intake.id)
            try:
                shown = self.retrieval.find(intake.collection, granted(intake.collection), "intake")
                for name in () if intake.filter is None else shown.snapshot.unknown_fields(parse_filter(intake.filter)):
                    logger.warning("the filter of intake %s asks for %s, which no document has", intake.id, name)
            except AidreError as error:
                logger.warning("intake %s has nothing to offer until this is cured: %s", intake.id, error)
        if self._key is not None:
            self._work = asyncio.create_task(self._tend(self._key))

    async def close(self) -> None:
        self._ending = True
        self._bound.set()
        if self._work is not None:
            # A delivery that is under way is finished: what nobody notes down is delivered once more.
            await asyncio.wait({self._work}, timeout=DELIVERY_SECONDS)
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work
        self._hook.shutdown(wait=False, cancel_futures=True)
        self._disk.submit(self._close)
        self._disk.shutdown(wait=True)

    async def _tend(self, key: BindKey) -> None:
        """Delivers what is due and forgets what is over, as long as the process lives."""
        swept = -SWEEP_SECONDS
        while not self._ending:
            self._bound.clear()
            pause = LOOK_SECONDS if self._webhook is not None else SWEEP_SECONDS
            try:
                if time.monotonic() - swept >= SWEEP_SECONDS:
                    swept = time.monotonic()
                    for offer in await self._on_disk(self._sweep):
                        logger.error("no webhook took the bind of offer %s in its time: it is deleted", offer)
                while not self._ending and self._webhook is not None and await self._deliver(self._webhook, key):
                    pass
            except AidreError as error:
                logger.error("binds cannot be tended: %s", error)
                pause = SWEEP_SECONDS
            except Exception as error:  # the outermost handler of this task; what it says might be of the data
                logger.error("binds cannot be tended: a defect, %s", type(error).__name__)
                pause = SWEEP_SECONDS
            with suppress(TimeoutError):
                if not self._ending:
                    await asyncio.wait_for(self._bound.wait(), pause)

    async def _deliver(self, webhook: str, key: BindKey) -> bool:
        """Whether there was something to deliver."""
        bind = await self._on_disk(lambda: self._opened().claim(time.time(), LEASE_SECONDS))
        if bind is None:
            return False
        delivery = delivery_of(bind, key)
        if delivery is None:
            logger.error("the bind of offer %s was sealed with another bind key", bind.offer)
        if delivery is not None and await self._handed_over(webhook, delivery):
            await self._on_disk(lambda: self._opened().delivered(bind.offer))
        else:
            due = time.time() + retry_seconds(bind.attempts)
            await self._on_disk(lambda: self._opened().postpone(bind.offer, due))
        return True

    async def _handed_over(self, webhook: str, delivery: Delivery) -> bool:
        """Whether the webhook took it; meanwhile it is nobody else's."""
        under_way = asyncio.get_running_loop().run_in_executor(self._hook, deliver, webhook, delivery)
        while not (await asyncio.wait({under_way}, timeout=RENEW_SECONDS))[0]:
            due = time.time() + LEASE_SECONDS
            await self._on_disk(lambda due=due: self._opened().renew(delivery.offer, due))
        return under_way.result()

    async def _on_disk(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work, *arguments)

    def _opened(self) -> Ledger:
        """Opened when it is needed: a store that cannot be written now may be later."""
        if self._ledger is None:
            self._ledger = Ledger(self._folder)
        return self._ledger

    def _add_offer(self, offer: StoredOffer) -> None:
        if not self._opened().add_offer(offer, self.settings.intake.max_offers, time.time()):
            logger.warning(
                "an offer was refused: %d are remembered already (intake.max_offers)", self.settings.intake.max_offers
            )
            raise unavailable("too many offers wait to be bound at the moment: try again later")

    def _sweep(self) -> list[str]:
        return self._opened().sweep(time.time())

    def _take(self, intake: OfferedIntake, caller: str) -> float:
        if self._rates is None:
            self._rates = Rates(self._folder)
        return self._rates.take(intake.id, caller, intake.rate_limit, time.time())

    def _close(self) -> None:
        for opened in (self._ledger, self._rates):
            if opened is not None:
                opened.close()


def _not_found() -> IntakeRefusal:
    return IntakeRefusal("OFFER_NOT_FOUND", "there is no such offer in this session")


def _check_complete(data: Mapping[str, Any], requires: tuple[str, ...]) -> None:
    missing = [name for name in requires if _is_empty(data.get(name))]
    if missing:
        raise IntakeRefusal("BIND_INCOMPLETE", f"bind_data is missing required fields: {', '.join(missing)}")
    wrong = complaint(BIND_DATA, data, "bind_data")
    if wrong is not None:
        raise invalid(wrong)


def _is_empty(value: Any) -> bool:
    return value is None or value in ({}, []) or (isinstance(value, str) and not value.strip())


def _plain(session: str) -> str:
    """One spelling for one session."""
    return str(as_uuid(session))
