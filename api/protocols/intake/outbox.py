"""Delivery of binds to the provider's webhook, repeated until it accepts them; then their data leave the store.

A bind is delivered at least once; `Idempotency-Key` is the id of its offer. The delivering worker claims it for
LEASE_SECONDS, longer than a delivery can take. The claim of a worker that dies expires, and another worker delivers the
bind.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import orjson

from aidre.api.protocols.intake.bind_key import BindKey
from aidre.api.protocols.intake.ledger import StoredBind
from aidre.api.protocols.intake.offers import format_timestamp
from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch import Fetcher, FetchRules, read_url

logger = logging.getLogger("aidre")

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
    return Delivery(
        bind.offer, orjson.dumps({**members, "bound_at": format_timestamp(bind.bound), **orjson.loads(opened)})
    )


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
