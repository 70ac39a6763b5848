"""The one place that decides who comes in: it knows each request's caller and counts it before any protocol sees it.

Routes that say whether the server lives know no callers; those, the metrics and the documents under /.well-known/ are
not counted either. The documents are there to be found, also by a key that may not read; all else, the metrics too, is
read. It knows no protocol: what it refuses, the protocol of the path says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.types import Receive

from aidre.api.access import Caller
from aidre.api.guard import metadata, quota
from aidre.api.guard.addresses import Addresses
from aidre.api.guard.buckets import Buckets, Taken
from aidre.api.guard.budget import ChunkBudget
from aidre.api.guard.credentials import Holder, Keys, bearer_of
from aidre.api.guard.quota import RawHeaders
from aidre.api.guard.refusals import Forbidden, RateLimited, Unauthorized
from aidre.api.guard.remote import RemoteBuckets
from aidre.api.guard.running import Place, Running
from aidre.api.guard.tokens import Tokens
from aidre.api.settings import Settings, is_loopback
from aidre.api.tables import Rate

HEALTH = frozenset({"/healthz", "/readyz"})
METRICS = "/metrics"
UNCOUNTED = HEALTH | {METRICS}
WELL_KNOWN = "/.well-known/"
BEYOND_LOOPBACK = Rate(600, 60)
UNLIMITED = Rate(0, 1)
NO_FIELDS: RawHeaders = []
REMEMBERED = 4_096


class Guard:
    """One per process. `folders` are where the workers share their counts, the first that can be written."""

    def __init__(self, settings: Settings, folders: Iterable[Path] = ()) -> None:
        server, limits, oauth, folders = settings.server, settings.limits, settings.oauth, tuple(folders)
        base_url = str(server.base_url)
        beyond = not is_loopback(urlsplit(base_url).hostname or "")
        self._rate = limits.rate or (BEYOND_LOOPBACK if beyond else UNLIMITED)
        self._addresses = Addresses(server.trusted_proxies)
        self._keys = Keys(settings.keys)
        self._tokens = Tokens(oauth) if oauth is not None else None
        limited = any(rate.count for rate in (self._rate, *(key.rate or UNLIMITED for key in settings.keys)))
        limited |= oauth is not None and oauth.rate is not None
        self._buckets = Buckets(folders) if limited else None
        self._remote = RemoteBuckets(limits.redis, self._buckets) if limits.redis and self._buckets else None
        self.budget = ChunkBudget(folders, limits.chunks_per_day) if limits.chunks_per_day else None
        self._varying = [(b"vary", b"Authorization")] if settings.knows_callers else NO_FIELDS
        # Where vectors are granted by name, whoever leaves the name out has no more than whoever gives it.
        self._stranger = Holder(Caller(vectors=not settings.knows_callers))
        self._named = lru_cache(REMEMBERED)(lambda account: replace(self._stranger.caller, account=account))
        self._settings = settings
        self.running = Running(limits.concurrency, limits.deadline)

    async def open(self) -> None:
        if self._tokens is not None:
            await self._tokens.open()

    def enter(self, path: str, method: str, receive: Receive) -> Place | None:
        """A place among the requests that are answered at once; None on the routes that are not counted, which must
        answer also when all places are taken. Raises Overloaded."""
        if path in UNCOUNTED or path.startswith(WELL_KNOWN):
            return None
        return self.running.enter(receive, waits=method == "POST")

    async def admit(self, scope: Any) -> RawHeaders:
        """Makes the caller known in the scope, and gives back the fields that belong to the answer.

        Raises Unauthorized, Forbidden, RateLimited or Unavailable.
        """
        path: str = scope["path"]
        if path in HEALTH:
            return NO_FIELDS
        counted = not (path in UNCOUNTED or path.startswith(WELL_KNOWN))
        try:
            credential = bearer_of(scope["headers"])
            holder = self._stranger if credential is None else await self._holder(credential)
        except Unauthorized as error:
            await self._taken(scope, self._stranger)  # guesses are counted wherever they are made
            raise self._challenged(error, path) from error
        caller = holder.caller
        if self.budget is not None and not caller.account:
            caller = self._named(self.account(scope, caller))
        scope["state"]["caller"] = caller
        if counted:
            fields = await self._taken(scope, holder)
        elif path == METRICS:
            fields = NO_FIELDS
            if self._settings.server.metrics == "callers" and not caller.name:
                challenge = {"WWW-Authenticate": self.challenge(path)}
                raise Unauthorized(
                    "the metrics are not for everybody here: send Authorization: Bearer SECRET", challenge
                )
        else:
            return self._varying
        if not holder.may_search:
            raise Forbidden(
                "this key may not search: its scopes lack search",
                {"WWW-Authenticate": f'{self.challenge(path)}, error="insufficient_scope", scope="search"'},
            )
        return fields + self._varying

    async def _holder(self, credential: bytes) -> Holder:
        holder = self._keys.holder(credential)
        if holder is None and self._tokens is not None and credential.count(b".") == 2:
            holder = await self._tokens.holder(credential)
        if holder is None:
            raise Unauthorized("this key is not known here: send Authorization: Bearer SECRET, or none")
        return holder

    async def _taken(self, scope: Any, holder: Holder) -> RawHeaders:
        """Counts the request; raises RateLimited."""
        rate = holder.rate or self._rate
        if not rate.count or self._buckets is None:
            return NO_FIELDS
        account = self.account(scope, holder.caller)
        taken = self._buckets.take(account, rate) if self._remote is None else await self._remote.take(account, rate)
        if not taken.admitted:
            raise _too_many(rate, taken)
        return quota.fields(rate, taken)

    def account(self, scope: Any, caller: Caller) -> str:
        """Whose requests are counted together with this one: those of a key, of a token's subject or of an address."""
        return caller.account or f"address {self._addresses.of(scope)}"

    def _challenged(self, error: Unauthorized, path: str) -> Unauthorized:
        return Unauthorized(error.message, {"WWW-Authenticate": f'{self.challenge(path)}, error="invalid_token"'})

    def challenge(self, path: str) -> str:
        """How to come in, and where that is described (RFC 9728, 5.1); MCP clients know a resource of their own."""
        return f'Bearer realm="aidre", resource_metadata="{metadata.address(self._settings, path)}"'

    async def close(self) -> None:
        if self._tokens is not None:
            await self._tokens.close()
        if self._remote is not None:
            await self._remote.close()
        if self._buckets is not None:
            self._buckets.close()
        if self.budget is not None:
            self.budget.close()


async def check_guard(settings: Settings) -> None:
    """Raises ConfigurationError for what no server could start with: a file of keys, a library that is not there."""
    guard = Guard(settings)
    if settings.oauth is not None and settings.oauth.jwks is not None:
        await guard.open()
    await guard.close()


def private(headers: RawHeaders) -> RawHeaders:
    """The header of an answer to somebody who is known, changed in place: nobody else's cache may keep it."""
    for place, (name, value) in enumerate(headers):
        if name == b"cache-control" and not value.startswith((b"no-store", b"private")):
            headers[place] = name, b"private, " + value
    return headers


def _too_many(rate: Rate, taken: Taken) -> RateLimited:
    return RateLimited(
        f"more than {rate.count} requests in {rate.seconds} seconds: wait as long as Retry-After says",
        quota.refused(rate, taken),
    )
