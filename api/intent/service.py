"""What the endpoints share in one process: who is known, the receipts; and who is speaking now."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import Request

from aidre.api.intent.discovery import publisher_of
from aidre.api.intent.envelope import VERSIONS, AuthenticationFailed, conversation_of
from aidre.api.intent.limits import warnings_of
from aidre.api.intent.receipts import Nonce, Receipts
from aidre.api.intent.settings import EditorialDomain
from aidre.api.intent.signing import (
    KEY,
    NONCE,
    SIGNATURE,
    TIMESTAMP,
    USABLE_NONCE,
    VERSION,
    WINDOW_SECONDS,
    Signed,
    canonical,
    instant_of,
    matches,
)
from aidre.api.retrieve import Retrieval
from aidre.api.settings import is_loopback
from aidre.api.wire import target_of
from aidre.engine.errors import AidreError, StorageFailed
from aidre.engine.filters import parse_filter

logger = logging.getLogger("aidre")

FIELDS = tuple(name.lower().encode() for name in (VERSION, KEY, TIMESTAMP, NONCE, SIGNATURE))
"""As they stand in a request."""
NOBODY = secrets.token_urlsafe(24)
"""What stands for the secret of an unknown key, so that the same is done for it as for a known one."""


class Service:
    """One per process. `folder` is where receipts are kept."""

    def __init__(self, retrieval: Retrieval, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.retrieval = retrieval
        self.intent = retrieval.settings.intent
        self.publisher = publisher_of(retrieval.settings)
        self.clock = clock
        self.started = datetime.fromtimestamp(clock(), UTC).date()
        self.receipts = Receipts(folder, clock)
        server = retrieval.settings.server
        parts = urlsplit(str(server.base_url))
        self._prefix = parts.path
        self._host = urlsplit(server.origin or str(server.base_url)).hostname or ""

    async def open(self) -> None:
        """Tells the operator what can never be served; brings the log up to date."""
        try:
            await self.receipts.open()
        except StorageFailed as error:
            logger.warning("Agentic Intent cannot answer until this is cured: %s", error)
        for line in await asyncio.to_thread(self._warnings):
            logger.warning("%s", line)

    def _warnings(self) -> list[str]:
        said = []
        if self.intent.enabled and not self.intent.keys:
            said.append("intent.keys is empty: nobody can sign a request, so all are refused; give partners their keys")
        if self.publisher["domain"] != self._host and not is_loopback(self._host):
            said.append(
                f"intent.publisher.domain is {self.publisher['domain']}, but aip.json is served at {self._host}: "
                "platforms look for it at the publisher's domain (server.origin)"
            )
        for name in sorted({domain.collection for domain in self.intent.editorial_domains.values()}):
            opened = self.retrieval.live.collections.get(name)
            collection = self.retrieval.settings.collection(name)
            if "intent" not in collection.protocols or not collection.return_text:
                said.append(
                    f"collection {name}: an editorial domain opens it, but nothing is returned: it needs return_text, "
                    'and "intent" among its protocols'
                )
            elif opened is None or opened.snapshot is None:
                said.append(f"collection {name}: an editorial domain opens it, but it is not in the store")
            else:
                said += [f"collection {name}: {what}" for what in warnings_of(self.intent, name, opened.snapshot)]
        for name, domain in self.intent.editorial_domains.items():
            said += [
                f'intent.editorial_domains."{name}".filter: no document of {domain.collection} has {field}'
                for field in self._unknown_fields(domain)
            ]
        return said

    def _unknown_fields(self, domain: EditorialDomain) -> tuple[str, ...]:
        opened = self.retrieval.live.collections.get(domain.collection)
        if opened is None or opened.snapshot is None or domain.filter is None:
            return ()
        try:
            return opened.snapshot.unknown_fields(parse_filter(domain.filter))
        except AidreError:  # a damaged file is told of where it is opened, and keeps nobody from starting
            return ()

    async def close(self) -> None:
        await asyncio.to_thread(self.receipts.close)

    def authenticate(self, request: Request, body: bytes) -> Nonce:
        """Makes the partner known in the conversation; raises AuthenticationFailed, which says no more than that.

        Gives back what must be spent before any answer leaves, and not before now: else anybody could use up the
        nonces of others.
        """
        known = conversation_of(request)
        known.path = self._prefix + target_of(request.scope).decode("latin-1")
        signed = _signed(request)
        if signed is None:
            raise AuthenticationFailed
        if signed.version in VERSIONS:
            known.version = signed.version
        secret = self.intent.keys.get(signed.key_id)
        text = canonical(request.method, known.path, body, signed.timestamp, signed.nonce)
        right = matches(NOBODY if secret is None else secret, text, signed.signature)
        instant = instant_of(signed.timestamp)
        timely = instant is not None and abs(self.clock() - instant) <= WINDOW_SECONDS
        usable = signed.version in VERSIONS and USABLE_NONCE.fullmatch(signed.nonce) is not None
        if secret is None or not right or not timely or not usable:
            raise AuthenticationFailed
        known.key_id, known.secret = signed.key_id, secret
        return Nonce.of(signed.key_id, signed.nonce)


def _signed(request: Request) -> Signed | None:
    """The five fields; None where one is missing or stands there twice."""
    found: dict[bytes, str] = {}
    for name, value in request.scope["headers"]:
        if name in FIELDS:
            if name in found:
                return None
            found[name] = value.decode("latin-1")
    return Signed(*(found[name] for name in FIELDS)) if len(found) == len(FIELDS) else None
