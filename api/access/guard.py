"""Authorisation: the guard identifies the caller of each request and charges its rate limit, before any protocol runs.

Health routes need no credential. Health, metrics and the documents under /.well-known/ are not rate limited, except
that a wrong credential is charged on every route but health. Every valid key may read the documents; a key needs the
scope `search` for everything else, metrics included, and `write` for the routes that write. The guard knows no
protocol: the protocol of the path renders its refusals.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.types import Receive

from aidre.api.access.caller import Caller
from aidre.api.access.client_address import ClientAddresses
from aidre.api.access.credentials import ApiKeys, Grant, bearer_of
from aidre.api.access.jwt import TokenVerifier
from aidre.api.access.limits import (
    BucketState,
    ChunkBudget,
    ConcurrencyLimit,
    RawHeaders,
    RedisBuckets,
    Slot,
    TokenBuckets,
    token_bucket,
)
from aidre.api.access.web_origins import METRICS
from aidre.api.config import Rate, Settings, is_loopback
from aidre.api.http import Forbidden, HttpError, RateLimited, Unauthorized

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
MCP = "/mcp"
"""There are two resources: the whole server, and for MCP clients the address of MCP."""
HEALTH = frozenset({"/healthz", "/readyz"})
UNMETERED = HEALTH | {METRICS}
WELL_KNOWN = "/.well-known/"
WRITE_ROUTE = re.compile(r"/collections/[^/]+/documents(?:/.*)?", re.DOTALL)
"""Routes that need the scope `write` instead of `search`; their endpoints ask for it."""
DEFAULT_RATE = Rate(600, 60)
"""Requests and seconds, where the server is reachable beyond loopback."""
UNLIMITED = Rate(0, 1)
NO_FIELDS: RawHeaders = []
UNKNOWN_KEY = "this key is not known here: send Authorization: Bearer SECRET, or none"
CACHE_SIZE = 4_096
"""Anonymous callers by account."""

Charge: TypeAlias = tuple[str, Rate]
"""The account of a bucket, and its rate."""


class Guard:
    """One per process. Workers share their counts in the first of `folders` that is writable."""

    def __init__(self, settings: Settings, folders: Iterable[Path] = ()) -> None:
        server, limits, oauth, folders = settings.server, settings.limits, settings.oauth, tuple(folders)
        is_local = is_loopback(urlsplit(str(server.base_url)).hostname or "")
        self._rate = limits.rate or (UNLIMITED if is_local else DEFAULT_RATE)
        self._client_addresses = ClientAddresses(server.trusted_proxies)
        self._keys = ApiKeys(settings.keys)
        self._tokens = TokenVerifier(oauth) if oauth is not None else None
        limited = any(rate.count for rate in (self._rate, *(key.rate or UNLIMITED for key in settings.keys)))
        limited |= oauth is not None and oauth.rate is not None
        limited |= any(intake.rate_limit for intake in settings.intakes)
        self._buckets = TokenBuckets(folders) if limited else None
        self._redis = RedisBuckets(limits.redis, self._buckets) if limits.redis and self._buckets else None
        self.budget = ChunkBudget(folders, limits.chunks_per_day) if limits.chunks_per_day else None
        self._vary = [(b"vary", b"Authorization")] if settings.knows_callers else NO_FIELDS
        # Where keys grant vectors, a caller without a key must not get more than one with a key.
        self._anonymous = Grant(Caller(vectors=not settings.knows_callers))
        self._with_account = lru_cache(CACHE_SIZE)(lambda account: replace(self._anonymous.caller, account=account))
        self._settings = settings
        self.running = ConcurrencyLimit(limits.concurrency, limits.deadline)

    async def open(self) -> None:
        if self._tokens is not None:
            await self._tokens.open()

    def enter(self, path: str, method: str, receive: Receive) -> Slot | None:
        """A slot of the concurrency limit; None on the unmetered routes, which answer also at the limit. Raises
        Overloaded."""
        if _is_unmetered(path):
            return None
        return self.running.enter(receive, waits=method in {"POST", "PUT", "PATCH"})

    def admit(self, scope: Any) -> RawHeaders | Coroutine[Any, Any, RawHeaders]:
        """Sets the caller in the scope; returns the header fields for the answer.

        Where a token or Redis has to be asked, it returns a coroutine that does the same; until it is awaited, nothing
        is charged. Raises Unauthorized, Forbidden, RateLimited or Unavailable.
        """
        if scope["path"] in HEALTH:
            return NO_FIELDS
        grant = self._known_grant(scope)
        if grant is None or self._redis is not None:
            return self._admit_asking(scope, grant)
        charge = self._charge_of(scope, grant)
        return self._settle(scope, grant, charge, None if charge is None else self._take(charge))

    async def _admit_asking(self, scope: Any, grant: Grant | Unauthorized | None) -> RawHeaders:
        """`admit` where a token (no `grant`) or Redis has to be asked."""
        if grant is None:
            grant = await self._token_grant(scope)
        charge, state = self._charge_of(scope, grant), None
        if charge is not None:
            state = await self._redis.take(*charge) if self._redis is not None else self._take(charge)
        return self._settle(scope, grant, charge, state)

    def _known_grant(self, scope: Any) -> Grant | Unauthorized | None:
        """The grant of a request or the error of its credential; None for a credential that may be a token."""
        try:
            credential = bearer_of(scope["headers"])
        except Unauthorized as error:
            return error
        if credential is None:
            return self._anonymous
        grant = self._keys.grant(credential)
        is_token = self._tokens is not None and credential.count(b".") == 2
        return grant if grant is not None or is_token else Unauthorized(UNKNOWN_KEY)

    async def _token_grant(self, scope: Any) -> Grant | Unauthorized:
        """The same for a token, once `_known_grant` has found that it may be one."""
        credential, tokens = bearer_of(scope["headers"]), self._tokens
        assert credential is not None and tokens is not None
        try:
            return await tokens.grant(credential)
        except Unauthorized as error:
            return error

    def _charge_of(self, scope: Any, grant: Grant | Unauthorized) -> Charge | None:
        """What a request is charged to; None on a route or for a caller without a limit. Guesses are charged on every
        route."""
        if isinstance(grant, Unauthorized):
            grant = self._anonymous
        elif _is_unmetered(scope["path"]):
            return None
        rate = grant.rate or self._rate
        return (self.account(scope, grant.caller), rate) if rate.count and self._buckets is not None else None

    def _take(self, charge: Charge, *, spend: bool = True) -> BucketState:
        assert self._buckets is not None
        return self._buckets.take(*charge, spend=spend)

    def _settle(
        self, scope: Any, grant: Grant | Unauthorized, charge: Charge | None, state: BucketState | None
    ) -> RawHeaders:
        """The end of an admission, when it is known what the credential grants and whether the bucket has a token."""
        path: str = scope["path"]
        if not isinstance(grant, Unauthorized):
            caller = grant.caller
            if not caller.account:
                caller = self._with_account(self.account(scope, caller))
            scope["state"]["caller"] = caller
        fields = NO_FIELDS
        if charge is not None and state is not None:
            if not state.admitted:
                raise _too_many(charge[1], state)
            fields = token_bucket.rate_limit_fields(charge[1], state)
        if isinstance(grant, Unauthorized):
            refused = f'{self.challenge(path)}, error="invalid_token"'
            raise Unauthorized(grant.message, {"WWW-Authenticate": refused})
        if path == METRICS:
            if self._settings.server.metrics == "callers" and not grant.caller.name:
                challenge = {"WWW-Authenticate": self.challenge(path)}
                raise Unauthorized(
                    "the metrics of this server need a key: send Authorization: Bearer SECRET", challenge
                )
        elif _is_unmetered(path):
            return self._vary
        if not grant.may_search and not (grant.caller.may_write and WRITE_ROUTE.fullmatch(path)):
            raise Forbidden(
                "this key may not search: its scopes lack search",
                {"WWW-Authenticate": f'{self.challenge(path)}, error="insufficient_scope", scope="search"'},
            )
        return fields + self._vary

    async def spend(self, charges: Sequence[Charge]) -> int:
        """Charge one request to all of these accounts, or to none; returns the seconds to wait, 0 if it is admitted."""
        redis = self._redis
        if self._buckets is None:
            return 0
        for spend in (False, True):
            states = [
                self._take(charge, spend=spend) if redis is None else await redis.take(*charge, spend=spend)
                for charge in charges
            ]
            if not all(state.admitted for state in states):
                return max(state.reset for state in states if not state.admitted)
        return 0

    def account(self, scope: Any, caller: Caller) -> str:
        """The account that is charged: the key, the token's subject or the client address."""
        return caller.account or f"address {self._client_addresses.of(scope)}"

    def challenge(self, path: str) -> str:
        """The WWW-Authenticate challenge with the resource metadata (RFC 9728, 5.1); MCP has a resource of its own."""
        return f'Bearer realm="aidre", resource_metadata="{metadata_url(self._settings, path)}"'

    def lacking(self, scope: str, path: str, caller: Caller, *, keyless: str, known: str) -> HttpError:
        """What a caller without a scope is told: 401 asks an anonymous one for a key, 403 says that the key of a known
        one lacks the scope."""
        challenge = self.challenge(path)
        if not caller.name:
            return Unauthorized(keyless, {"WWW-Authenticate": challenge})
        return Forbidden(known, {"WWW-Authenticate": f'{challenge}, error="insufficient_scope", scope="{scope}"'})

    async def close(self) -> None:
        if self._tokens is not None:
            await self._tokens.close()
        if self._redis is not None:
            await self._redis.close()
        if self._buckets is not None:
            self._buckets.close()
        if self.budget is not None:
            self.budget.close()


async def check_guard(settings: Settings) -> None:
    """Raises ConfigurationError for an unusable key file or a missing library, before any worker starts."""
    guard = Guard(settings)
    if settings.oauth is not None and settings.oauth.jwks is not None:
        await guard.open()
    await guard.close()


def mark_private(fields: RawHeaders) -> RawHeaders:
    """Make Cache-Control private, in place: an answer to an authenticated caller must not be in a shared cache."""
    for index, (name, value) in enumerate(fields):
        if name == b"cache-control" and not value.startswith((b"no-store", b"private")):
            fields[index] = name, b"private, " + value
    return fields


def _is_unmetered(path: str) -> bool:
    return path in UNMETERED or path.startswith(WELL_KNOWN)


def _too_many(rate: Rate, state: BucketState) -> RateLimited:
    return RateLimited(
        f"more than {rate.count} requests in {rate.seconds} seconds: wait for the seconds that Retry-After says",
        token_bucket.rejection_fields(rate, state),
    )


def metadata_url(settings: Settings, path: str) -> str:
    """The URL of the metadata of the resource at this path: inserted before the path of base_url (RFC 9728, 3.1)."""
    base_url = str(settings.server.base_url)
    parts = urlsplit(settings.server.origin or base_url)
    resource = urlsplit(base_url).path.rstrip("/") + (MCP if path.rstrip("/") == MCP else "")
    return f"{parts.scheme}://{parts.netloc}{RESOURCE_METADATA}{resource}"
