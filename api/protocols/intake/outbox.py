"""Delivery of binds to the provider's webhook, repeated until it accepts them; then their data leave the store.

A bind is delivered at least once; `Idempotency-Key` is the id of its offer. The delivering worker claims it for
LEASE_SECONDS, longer than a delivery should take, and renews the claim while the delivery runs, since a DNS look-up has
no upper bound. The claim of a worker that dies expires, and another worker delivers the bind.
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

from aidre.api.protocols.intake.bind_key import BindKey
from aidre.api.protocols.intake.ledger import StoredBind
from aidre.api.protocols.intake.offers import format_timestamp

logger = logging.getLogger("aidre")

SOCKET_TIMEOUT_SECONDS = 10.0
"""For one step of a delivery: connect, send or receive."""
DELIVERY_SECONDS = 20.0
"""For a whole delivery; it does not interrupt a DNS look-up."""
LEASE_SECONDS = 60.0
RENEW_SECONDS = LEASE_SECONDS / 3
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
    try:
        status = _post(url, delivery)
    except (OSError, http.client.HTTPException, ValueError) as error:
        logger.warning("the webhook did not accept the bind of offer %s: %s", delivery.offer, type(error).__name__)
        return False
    if not 200 <= status < 300:
        logger.warning("the webhook did not accept the bind of offer %s: status %d", delivery.offer, status)
        return False
    return True


def _post(url: str, delivery: Delivery) -> int:
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            str(parts.hostname), parts.port, timeout=SOCKET_TIMEOUT_SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=SOCKET_TIMEOUT_SECONDS)
    # A socket time-out bounds one step only: a webhook that answers byte by byte must not outlast the lease.
    given_up = threading.Event()
    timer = threading.Timer(DELIVERY_SECONDS, _give_up, [connection, given_up])
    timer.daemon = True
    timer.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Content-Type": "application/json", "Idempotency-Key": delivery.offer, "Connection": "close"}
        connection.request("POST", target, delivery.body, headers)
        status = connection.getresponse().status
        if given_up.is_set():  # http.client takes an answer that was cut within its headers for a whole one
            raise TimeoutError
        return status
    finally:
        timer.cancel()
        connection.close()


def _give_up(connection: http.client.HTTPConnection, given_up: threading.Event) -> None:
    given_up.set()
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
