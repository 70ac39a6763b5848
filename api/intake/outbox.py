"""Hands binds to the provider's webhook, again and again until it takes them; then their data leave the store.

A bind is delivered at least once: `Idempotency-Key` is its offer's id. Whoever delivers holds it for LEASE_SECONDS,
longer than a delivery should take, and holds on as long as it does take, since nothing bounds how long a name is looked
up; a worker that dies meanwhile leaves it to the others.
"""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson

from aidre.api.intake.bind_key import BindKey
from aidre.api.intake.ledger import StoredBind
from aidre.api.intake.offers import timestamp

logger = logging.getLogger("aidre")

STEP_SECONDS = 10.0
DELIVERY_SECONDS = 20.0
LEASE_SECONDS = 60.0
RENEW_SECONDS = LEASE_SECONDS / 3
FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What goes to a webhook about one bind."""

    offer: str
    body: bytes


def delivery_of(bind: StoredBind, key: BindKey) -> Delivery | None:
    """None where the bind cannot be decrypted with this key."""
    opened = None if bind.sealed is None or bind.key != key.id else key.open(bind.sealed, bind.offer)
    if opened is None:
        return None
    told = {"offer_id": bind.offer, "session_id": bind.session, "intake": bind.intake}
    return Delivery(bind.offer, orjson.dumps({**told, "bound_at": timestamp(bind.bound), **orjson.loads(opened)}))


def retry_seconds(attempts: int) -> float:
    """How long to wait after so many attempts that failed."""
    return min(FIRST_RETRY_SECONDS * 2.0 ** min(attempts, 30), LAST_RETRY_SECONDS)


def deliver(url: str, delivery: Delivery) -> bool:
    """Whether the webhook took it: any status of 2xx. What is logged names neither the address nor the data."""
    try:
        status = _post(url, delivery)
    except (OSError, http.client.HTTPException, ValueError) as error:
        logger.warning("the webhook did not take the bind of offer %s: %s", delivery.offer, type(error).__name__)
        return False
    if not 200 <= status < 300:
        logger.warning("the webhook did not take the bind of offer %s: status %d", delivery.offer, status)
        return False
    return True


def _post(url: str, delivery: Delivery) -> int:
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(str(parts.hostname), parts.port, timeout=STEP_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=STEP_SECONDS)
    # The time-out of a socket is for one step of it; a webhook that drips must not outlast the lease.
    ending = threading.Timer(DELIVERY_SECONDS, _break, [connection])
    ending.daemon = True
    ending.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Content-Type": "application/json", "Idempotency-Key": delivery.offer, "Connection": "close"}
        connection.request("POST", target, delivery.body, headers)
        return connection.getresponse().status
    finally:
        ending.cancel()
        connection.close()


def _break(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
