"""The state that the endpoints of one process share, and the authentication of partners."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from starlette.requests import Request

from aidre.api.config import EditorialDomain, is_loopback
from aidre.api.http import parse_rfc3339, request_target
from aidre.api.protocols.intent.declaration import publisher_of
from aidre.api.protocols.intent.hmac_signing import (
    KEY_ID_FIELD,
    NONCE_FIELD,
    NONCE_PATTERN,
    SIGNATURE_FIELD,
    TIMESTAMP_FIELD,
    VERSION_FIELD,
    WINDOW_SECONDS,
    SignatureFields,
    canonical_string,
    verify_signature,
)
from aidre.api.protocols.intent.intent_messages import VERSIONS, Version
from aidre.api.protocols.intent.limits import explain_unservable
from aidre.api.protocols.intent.receipts import Nonce, Receipts
from aidre.api.protocols.intent.signed_envelope import AuthenticationFailed, context_of
from aidre.api.retrieval import Retrieval
from aidre.engine.errors import AidreError, StorageFailed
from aidre.engine.index.fields import parse_filter
from aidre.engine.retrieve import State, text_modes

logger = logging.getLogger("aidre")

SIGNATURE_FIELDS = tuple(
    name.lower().encode() for name in (VERSION_FIELD, KEY_ID_FIELD, TIMESTAMP_FIELD, NONCE_FIELD, SIGNATURE_FIELD)
)
"""As header fields are named in an ASGI scope."""
DUMMY_SECRET = secrets.token_urlsafe(24)
"""Stands in for the secret of an unknown key, so that an unknown key costs the same time as a known one."""


class IntentService:
    """One per process. `folder` holds the receipts; `clock` returns Unix time."""

    def __init__(self, retrieval: Retrieval, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.retrieval = retrieval
        self.intent = retrieval.settings.intent
        self.publisher = publisher_of(retrieval.settings)
        self.clock = clock
        self.started = datetime.fromtimestamp(clock(), UTC).date()
        self.receipts = Receipts(folder, clock)
        server = retrieval.settings.server
        self._prefix = urlsplit(str(server.base_url)).path
        self._host = urlsplit(server.origin or str(server.base_url)).hostname or ""

    async def open(self) -> None:
        """Take over receipts of older releases, and warn the operator about content that can never be served."""
        try:
            await self.receipts.open()
        except StorageFailed as error:
            logger.warning("Agentic Intent cannot answer until this is cured: %s", error)
        for line in await asyncio.to_thread(self._warnings):
            logger.warning("%s", line)

    def _warnings(self) -> list[str]:
        warnings = []
        if self.intent.enabled and not self.intent.keys:
            warnings.append(
                "intent.keys is empty: no request can be signed, so all are refused; give partners their keys"
            )
        if self.publisher["domain"] != self._host and not is_loopback(self._host):
            warnings.append(
                f"intent.publisher.domain is {self.publisher['domain']}, but aip.json is served at {self._host}: "
                "platforms look for it at the publisher's domain (server.origin)"
            )
        for name in sorted({domain.collection for domain in self.intent.editorial_domains.values()}):
            warnings += [f"collection {name}: {warning}" for warning in self._collection_warnings(name)]
        for name, domain in self.intent.editorial_domains.items():
            warnings += [
                f'intent.editorial_domains."{name}".filter: no document of {domain.collection} has {field}'
                for field in self._unknown_fields(domain)
            ]
        return warnings

    def _collection_warnings(self, name: str) -> Iterable[str]:
        opened = self.retrieval.snapshots.collections.get(name)
        settings = self.retrieval.collections.settings_of(name)
        if "intent" not in settings.protocols or not settings.return_text:
            return [
                "an editorial domain opens it, but nothing is returned: it needs return_text, "
                'and "intent" among its protocols'
            ]
        if opened is None or opened.snapshot is None:
            return ["an editorial domain opens it, but it is not in the store"]
        if not text_modes(State(opened.snapshot, settings.policy)):
            return ["it has no embedding model and lexical = false, so that no request can be answered"]
        return explain_unservable(self.intent, name, opened.snapshot)

    def _unknown_fields(self, domain: EditorialDomain) -> tuple[str, ...]:
        opened = self.retrieval.snapshots.collections.get(domain.collection)
        if opened is None or opened.snapshot is None or domain.filter is None:
            return ()
        try:
            return opened.snapshot.unknown_fields(parse_filter(domain.filter))
        except AidreError:  # a damaged file is reported on opening, and must not keep the server from starting
            return ()

    async def close(self) -> None:
        await asyncio.to_thread(self.receipts.close)

    def authenticate(self, request: Request, body: bytes) -> Nonce:
        """Verify the signature and enter the partner in the request's context. Raises AuthenticationFailed.

        The caller has to spend the returned nonce before any answer leaves. It is not spent here: an unverified
        request could otherwise use up the nonces of other partners.
        """
        context = context_of(request)
        context.path = self._prefix + request_target(request.scope).decode("latin-1")
        fields = _signature_fields(request)
        if fields is None:
            raise AuthenticationFailed
        if fields.version in VERSIONS:
            context.version = cast(Version, fields.version)
        secret = self.intent.keys.get(fields.key_id)
        text = canonical_string(request.method, context.path, body, fields.timestamp, fields.nonce)
        is_verified = verify_signature(DUMMY_SECRET if secret is None else secret, text, fields.signature)
        signed_at = parse_rfc3339(fields.timestamp)
        is_timely = signed_at is not None and abs(self.clock() - signed_at) <= WINDOW_SECONDS
        is_usable = fields.version in VERSIONS and NONCE_PATTERN.fullmatch(fields.nonce) is not None
        if secret is None or not is_verified or not is_timely or not is_usable:
            raise AuthenticationFailed
        context.key_id, context.secret = fields.key_id, secret
        return Nonce.of(fields.key_id, fields.nonce)


def _signature_fields(request: Request) -> SignatureFields | None:
    """The five signature fields; None if one is missing or repeated."""
    values: dict[bytes, str] = {}
    for name, value in request.scope["headers"]:
        if name in SIGNATURE_FIELDS:
            if name in values:
                return None
            values[name] = value.decode("latin-1")
    if len(values) != len(SIGNATURE_FIELDS):
        return None
    return SignatureFields(*(values[name] for name in SIGNATURE_FIELDS))
