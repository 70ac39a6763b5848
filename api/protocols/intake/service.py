"""The service behind Agent Intake: turns submissions into offers, binds offers, delivers or keeps the data of binds.

The ledger has a thread of its own and so has the webhook: the event loop blocks on neither.

Delivery of binds to the provider's webhook, repeated until it accepts them; then their data leave the store.

A bind is delivered at least once; `Idempotency-Key` is the id of its offer. The delivering worker claims it for
LEASE_SECONDS, longer than a delivery can take. The claim of a worker that dies expires, and another worker delivers the
bind.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson

from aidre.api.access import intake_caller
from aidre.api.config import BIND_DATA, OfferedIntake, retention_of, schema_violation
from aidre.api.http import rfc3339
from aidre.api.protocols.intake.bind_key import BindKey, find_bind_key
from aidre.api.protocols.intake.intake_envelope import PROTOCOL_VERSION, IntakeError, invalid, unavailable
from aidre.api.protocols.intake.intake_messages import BindAnswer, IntakeAnswer, OfferItem, parse_uuid
from aidre.api.protocols.intake.offer_ledger import OfferLedger, StoredBind, StoredOffer
from aidre.api.protocols.intake.offers import (
    bind_endpoint,
    build_offer,
    build_question,
    expiry_of,
    offer_items,
    with_binding,
)
from aidre.api.retrieval import Retrieval
from aidre.engine.errors import AidreError, FetchFailed
from aidre.engine.index.fields import parse_filter
from aidre.engine.retrieve import RELEVANT
from aidre.ingest.fetch import Fetcher, FetchRules, read_url

SOCKET_TIMEOUT_SECONDS = 10.0
"""For one step of a delivery: look up the name, connect, send or receive."""
DELIVERY_SECONDS = 20.0
"""For a whole delivery, from the look-up of the name to the status."""
LEASE_SECONDS = 60.0
MIN_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """The request that delivers one bind; `offer` is the id of its offer."""

    offer: str
    body: bytes


def decrypt_delivery(bind: StoredBind, key: BindKey) -> Delivery | None:
    """The delivery of a bind; None if this key cannot decrypt it."""
    opened = None if bind.sealed is None or bind.key != key.id else key.open(bind.sealed, bind.offer)
    if opened is None:
        return None
    members = {"offer_id": bind.offer, "session_id": bind.session, "intake": bind.intake}
    return Delivery(bind.offer, orjson.dumps({**members, "bound_at": rfc3339(bind.bound), **orjson.loads(opened)}))


def retry_seconds(attempts: int) -> float:
    """The exponential back-off after failed attempts, in seconds."""
    return min(MIN_RETRY_SECONDS * 2.0 ** min(attempts, 30), MAX_RETRY_SECONDS)


def deliver(url: str, delivery: Delivery) -> bool:
    """Post a delivery; True if the webhook accepts it, with any status of 2xx. Logs neither the URL nor the data."""
    # The operator configured the address, so it may be private.
    rules = FetchRules(
        allow_private_addresses=True,
        timeout=DELIVERY_SECONDS,
        connect_timeout=SOCKET_TIMEOUT_SECONDS,
        read_timeout=SOCKET_TIMEOUT_SECONDS,
    )
    logging.getLogger("httpcore2").setLevel(logging.WARNING)  # on DEBUG it names the host
    headers = {"Content-Type": "application/json", "Idempotency-Key": delivery.offer}
    try:
        status = Fetcher(rules).post(read_url(url), delivery.body, headers)
    except FetchFailed as error:
        reason = type(error.__cause__ or error).__name__
        logger.warning("the webhook did not accept the bind of offer %s: %s", delivery.offer, reason)
        return False
    if not 200 <= status < 300:
        logger.warning("the webhook did not accept the bind of offer %s: status %d", delivery.offer, status)
        return False
    return True


logger = logging.getLogger("aidre")

SEARCH_TIMEOUT_SECONDS = 10.0
"""The time-out of a submission's search."""
POLL_SECONDS = 1.0
"""Between two looks for due binds: those to retry, and those whose worker died."""
EXPIRY_SECONDS = 60.0
"""Between two deletions of expired data, and the pause after an error."""
SHARE_RETRY_SECONDS = "60"
"""Retry-After for a caller whose share of the offers is used; it ends as its offers expire."""
FORMER_COUNTS = "intake-rates.sqlite*"
"""Files in which earlier releases counted submissions."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A bind request that was checked; its parts as they came."""

    offer: str
    session: str
    data: Mapping[str, Any]
    agent: Mapping[str, Any]
    metadata: Mapping[str, Any]


class IntakeService:
    """One per process. Raises ConfigurationError if an intake can be bound and no bind key can be read or created."""

    def __init__(self, retrieval: Retrieval, folder: Path) -> None:
        self.retrieval = retrieval
        self.settings = retrieval.settings
        self.intakes = {intake.id: intake for intake in self.settings.intakes}
        self._folder = folder
        binds = any(intake.binds for intake in self.settings.intakes)
        self._key = find_bind_key(self.settings.intake, retrieval.snapshots.source.path) if binds else None
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="intake")
        self._hook = ThreadPoolExecutor(1, thread_name_prefix="webhook")
        self._ledger: OfferLedger | None = None
        self._wake = asyncio.Event()
        self._closing = False
        self._worker: asyncio.Task[None] | None = None

    async def submit(
        self, intake: OfferedIntake, data: Mapping[str, Any], session: str, account: str = ""
    ) -> IntakeAnswer:
        """An offer, or the reason for declining."""
        answer = partial(IntakeAnswer, version=PROTOCOL_VERSION, session_id=session)
        items = await self._search_items(intake, data, account)
        if not items:
            return answer(status="declined", decline_reason=intake.decline_reason)
        offer = build_offer(str(uuid.uuid4()), intake, data, items)
        if intake.binds and self._key is not None:
            expires = expiry_of(intake)
            retention = retention_of(intake, self.settings.intake)
            stored = StoredOffer(
                offer.id, _canonical_session(session), intake.id, intake.bind_requires, expires, retention
            )
            await self._on_disk(self._add_offer, stored, self._key.digest(account.encode("utf-8", "surrogatepass")))
            offer = with_binding(offer, intake, bind_endpoint(str(self.settings.server.base_url)), expires)
        return answer(status="offer", offer=offer)

    async def _search_items(self, intake: OfferedIntake, data: Mapping[str, Any], account: str) -> list[OfferItem]:
        question = build_question(intake, data, self.settings.limits.query_chars)
        if question is None:
            return []
        # An intake grants access to its collection, even a private one, and to no other.
        caller = intake_caller(intake.collection, account)
        try:
            async with asyncio.timeout(SEARCH_TIMEOUT_SECONDS):
                collection = self.retrieval.collections.find(intake.collection, caller, "intake")
                served = await self.retrieval.ask(collection, question, caller, "intake", filter=intake.filter)
        except TimeoutError as error:
            raise unavailable("the answer takes too long at the moment: try again later") from error
        min_score = RELEVANT if intake.min_score is None else intake.min_score
        return offer_items(served.answer, min_score, returns_text=collection.settings.return_text)

    async def bind(self, request: Acceptance) -> bytes:
        """The body of the answer, the same for every repetition of the same bind. Raises IntakeError."""
        if self._key is None:
            raise _not_found()
        answer = await self._on_disk(self._bind, request, self._key)
        self._wake.set()
        return answer

    def _bind(self, request: Acceptance, key: BindKey) -> bytes:
        ledger = self._open_ledger()
        session = _canonical_session(request.session)
        digest = key.digest(orjson.dumps(request.data, option=orjson.OPT_SORT_KEYS))
        bind = ledger.bind(request.offer)
        if bind is None:
            now = time.time()
            offer = ledger.offer(request.offer)
            if offer is None or offer.session != session:
                raise _not_found()
            if offer.expires <= now:
                raise IntakeError("OFFER_EXPIRED", f"this offer expired at {rfc3339(offer.expires)}: submit again")
            _check_complete(request.data, offer.requires)
            bind = ledger.add_bind(_new_bind(request, offer, key, digest, now), deliver=self._webhook is not None)
        if bind.session != session:
            raise _not_found()
        if bind.key != key.id:
            logger.error("the bind of offer %s was sealed with another bind key", bind.offer)
            raise unavailable("this bind cannot be compared at the moment: try again later")
        if bind.digest != digest:
            raise IntakeError("OFFER_ALREADY_BOUND", "this offer is bound already, with other data")
        return bind.answer

    @property
    def _webhook(self) -> str | None:
        return self.settings.intake.webhook

    async def open(self) -> None:
        """Warn the operator about intakes that cannot be served, and start delivering binds and deleting old data."""
        with suppress(OSError):
            for file in self._folder.glob(FORMER_COUNTS):
                file.unlink(missing_ok=True)
        for intake in self.intakes.values():
            if intake.requires_auth and not self.settings.knows_callers:
                logger.warning(
                    "intake %s requires_auth, but there are no [[keys]]: no caller can submit to it", intake.id
                )
            try:
                collection = self.retrieval.collections.find(
                    intake.collection, intake_caller(intake.collection), "intake"
                )
                fields = (
                    () if intake.filter is None else collection.snapshot.unknown_fields(parse_filter(intake.filter))
                )
                if not collection.text_modes:
                    logger.warning(
                        "intake %s can offer nothing: collection %s has no embedding model and lexical = false",
                        intake.id,
                        collection.name,
                    )
                for field in fields:
                    logger.warning("the filter of intake %s asks for %s, which no document has", intake.id, field)
            except AidreError as error:
                logger.warning("intake %s has nothing to offer until this is cured: %s", intake.id, error)
        if self._key is not None:
            self._worker = asyncio.create_task(self._work(self._key))

    async def close(self) -> None:
        self._closing = True
        self._wake.set()
        if self._worker is not None:
            # A running delivery may finish: an interrupted one would be made again.
            await asyncio.wait({self._worker}, timeout=DELIVERY_SECONDS)
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
        self._hook.shutdown(wait=False, cancel_futures=True)
        self._disk.submit(self._close)
        self._disk.shutdown(wait=True)

    async def _work(self, key: BindKey) -> None:
        """Deliver due binds and delete expired data until the service is closed."""
        expired_at = -EXPIRY_SECONDS
        while not self._closing:
            self._wake.clear()
            pause = POLL_SECONDS if self._webhook is not None else EXPIRY_SECONDS
            try:
                if time.monotonic() - expired_at >= EXPIRY_SECONDS:
                    expired_at = time.monotonic()
                    for offer in await self._on_disk(lambda: self._open_ledger().delete_expired(time.time())):
                        logger.error(
                            "no webhook accepted the bind of offer %s before its retention ended: its data are deleted",
                            offer,
                        )
                while not self._closing and self._webhook is not None and await self._deliver_next(self._webhook, key):
                    pass
            except AidreError as error:
                logger.error("binds cannot be delivered or expired: %s", error)
                pause = EXPIRY_SECONDS
            except Exception as error:  # the outermost handler of this task; its message might contain personal data
                logger.error("binds cannot be delivered or expired: a defect, %s", type(error).__name__)
                pause = EXPIRY_SECONDS
            with suppress(TimeoutError):
                if not self._closing:
                    await asyncio.wait_for(self._wake.wait(), pause)

    async def _deliver_next(self, webhook: str, key: BindKey) -> bool:
        """Deliver the bind that is due first; False if none is due."""
        bind = await self._on_disk(lambda: self._open_ledger().claim(time.time(), LEASE_SECONDS))
        if bind is None:
            return False
        delivery = decrypt_delivery(bind, key)
        if delivery is None:
            logger.error("the bind of offer %s was sealed with another bind key", bind.offer)
        run = asyncio.get_running_loop().run_in_executor
        if delivery is not None and await run(self._hook, deliver, webhook, delivery):
            await self._on_disk(lambda: self._open_ledger().mark_delivered(bind.offer))
        else:
            due = time.time() + retry_seconds(bind.attempts)
            await self._on_disk(lambda: self._open_ledger().postpone(bind.offer, due))
        return True

    async def _on_disk(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work, *arguments)

    def _open_ledger(self) -> OfferLedger:
        """The ledger, opened on first use: a store that is read-only now may be writable later."""
        if self._ledger is None:
            self._ledger = OfferLedger(self._folder)
        return self._ledger

    def _add_offer(self, offer: StoredOffer, account: bytes) -> None:
        """`account` is the digest of a key or an address."""
        max_offers = self.settings.intake.max_offers
        status = self._open_ledger().add_offer(offer, account, max_offers, time.time())
        if status == "share used":
            raise IntakeError(
                "RATE_LIMITED",
                "too many of your offers wait to be bound: bind them, or come again when they have expired",
                {"Retry-After": SHARE_RETRY_SECONDS},
            )
        if status == "full":
            logger.warning("an offer was refused: %d are stored already (intake.max_offers)", max_offers)
            raise unavailable("too many offers wait to be bound at the moment: try again later")

    def _close(self) -> None:
        if self._ledger is not None:
            self._ledger.close()


def _new_bind(request: Acceptance, offer: StoredOffer, key: BindKey, digest: bytes, now: float) -> StoredBind:
    answer = BindAnswer(
        version=PROTOCOL_VERSION,
        session_id=request.session,
        status="bound",
        offer_id=offer.id,
        bound_at=rfc3339(now),
    )
    content = orjson.dumps({"bind_data": request.data, "agent": request.agent, "metadata": request.metadata})
    return StoredBind(
        offer=offer.id,
        session=offer.session,
        intake=offer.intake,
        bound=now,
        answer=msgspec.json.encode(answer),
        key=key.id,
        digest=digest,
        sealed=key.seal(content, offer.id),
        forget=now + offer.retention,
    )


def _not_found() -> IntakeError:
    return IntakeError("OFFER_NOT_FOUND", "there is no such offer in this session")


def _check_complete(data: Mapping[str, Any], requires: tuple[str, ...]) -> None:
    missing = [name for name in requires if _is_empty(data.get(name))]
    if missing:
        raise IntakeError("BIND_INCOMPLETE", f"bind_data is missing required fields: {', '.join(missing)}")
    fault = schema_violation(BIND_DATA, data, "bind_data")
    if fault is not None:
        raise invalid(fault)


def _is_empty(value: Any) -> bool:
    return value is None or value in ({}, []) or (isinstance(value, str) and not value.strip())


def _canonical_session(session: str) -> str:
    """A session id in its canonical spelling."""
    return str(parse_uuid(session))
