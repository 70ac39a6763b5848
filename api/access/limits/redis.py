"""Rate limits shared by several machines, in Redis or Valkey, by the library `limits`: sliding windows, not buckets.

A request waits for the server for TIMEOUT_SECONDS at most; after that it is charged to the buckets of this machine, so
that a failure of the server is not an outage. The server never sees account names: it gets keyed hashes, and the key is
derived from its password, which all machines share and a copy of its data does not contain.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from aidre.api.access.limits.token_bucket import BucketState, TokenBuckets
from aidre.api.config import Rate
from aidre.engine.errors import ConfigurationError

if TYPE_CHECKING:
    from limits.aio.strategies import SlidingWindowCounterRateLimiter

logger = logging.getLogger("aidre")

SCHEMES = ("redis://", "rediss://", "redis+unix://", "valkey://", "valkeys://", "valkey+unix://")
TIMEOUT_SECONDS = 0.25
"""How long a request waits for an answer of the server."""
RETRY_SECONDS = 5.0
"""How long a server that did not answer is not asked again."""
CACHE_SIZE = 4_096
"""Hashes of accounts."""


class RedisBuckets:
    """`local` is charged while the server does not answer. Raises ConfigurationError for a bad URL or no library."""

    def __init__(self, url: str, local: TokenBuckets) -> None:
        if not url.startswith(SCHEMES):
            raise ConfigurationError(f"limits.redis must begin with one of {', '.join(SCHEMES)}")
        client = "valkey" if url.startswith("valkey") else "redis"
        if find_spec("limits") is None or find_spec(client) is None:
            raise ConfigurationError(f"limits.redis needs the libraries limits and {client}: pip install aidre[redis]")
        self._url, self._client, self._local = url, client, local
        self._hashed = lru_cache(CACHE_SIZE)(_account_hash(url))
        self._limiter: SlidingWindowCounterRateLimiter | None = None
        self._connection: Any = None
        self._retry_at = 0.0

    async def take(self, account: str, rate: Rate, *, spend: bool = True) -> BucketState:
        """Charge one request to the account's window, unless it is full; without `spend` only say what would happen."""
        if time.monotonic() >= self._retry_at:
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    return await self._charge(account, rate, spend)
            except Exception as error:  # its client raises many kinds when the server is gone, slow or full
                self._retry_at = time.monotonic() + RETRY_SECONDS
                logger.warning("limits are counted by this machine alone: %s", type(error).__name__)
        return self._local.take(account, rate, spend=spend)

    async def _charge(self, account: str, rate: Rate, spend: bool) -> BucketState:
        from limits import RateLimitItemPerSecond

        limiter = self._limiter or self._connect()
        item = RateLimitItemPerSecond(rate.count, rate.seconds)
        name = self._hashed(account)
        admitted = await (limiter.hit(item, name) if spend else limiter.test(item, name))
        window = await limiter.get_window_stats(item, name)
        # In the first millisecond of a window the library reports its end as now.
        wait = max(0, math.ceil(window.reset_time - time.time())) or rate.seconds
        if not 0 <= window.remaining <= rate.count or wait > 2 * rate.seconds:
            raise ValueError("the server counts what no window has")
        return BucketState(admitted, window.remaining if admitted else 0, wait)

    def _connect(self) -> SlidingWindowCounterRateLimiter:
        from limits.aio.storage import RedisStorage
        from limits.aio.strategies import SlidingWindowCounterRateLimiter

        url, prefix = f"async+{self._url}", "aidre"
        if self._client == "valkey":
            storage = RedisStorage(url, implementation="valkey", key_prefix=prefix)
        else:
            storage = RedisStorage(url, implementation="redispy", key_prefix=prefix)
        self._limiter = SlidingWindowCounterRateLimiter(storage)
        bridge: Any = storage.bridge
        self._connection = bridge.storage
        return self._limiter

    async def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):  # the connection is abandoned either way
                await self._connection.aclose()


def _account_hash(url: str) -> Callable[[str], str]:
    """A keyed hash of account names, the same on every machine that has this password."""
    try:
        password = urlsplit(url).password or ""
    except ValueError as error:
        raise ConfigurationError("limits.redis is not a URL") from error
    key = hashlib.blake2b(b"aidre limits" + unquote(password).encode(), digest_size=32).digest()

    def hashed(account: str) -> str:
        return hashlib.blake2b(account.encode("utf-8", "surrogatepass"), key=key, digest_size=16).hexdigest()

    return hashed
