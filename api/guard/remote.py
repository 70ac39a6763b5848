"""Limits that several machines share, in Redis or Valkey, by the library `limits`: sliding windows instead of buckets.

The server is asked for a moment only. What it does not answer is counted by this machine alone: a limit is a courtesy
that must not turn into an outage. It never hears who called: an account is a hash there, under the password of the
server, which all machines know and whoever is shown a copy of its keys does not.
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

from aidre.api.guard.buckets import Buckets, Taken
from aidre.api.tables import Rate
from aidre.engine.errors import ConfigurationError

if TYPE_CHECKING:
    from limits.aio.strategies import SlidingWindowCounterRateLimiter

logger = logging.getLogger("aidre")

SCHEMES = ("redis://", "rediss://", "redis+unix://", "valkey://", "valkeys://", "valkey+unix://")
ANSWER_SECONDS = 0.25
PATIENCE_SECONDS = 5.0
"""How long a server that did not answer is left alone."""
REMEMBERED = 4_096


class RemoteBuckets:
    """`local` counts where the server does not answer; ConfigurationError."""

    def __init__(self, url: str, local: Buckets) -> None:
        if not url.startswith(SCHEMES):
            raise ConfigurationError(f"limits.redis must begin with one of {', '.join(SCHEMES)}")
        client = "valkey" if url.startswith("valkey") else "redis"
        if find_spec("limits") is None or find_spec(client) is None:
            raise ConfigurationError(f"limits.redis needs the libraries limits and {client}: pip install aidre[redis]")
        self._url, self._client, self._local = url, client, local
        self._hidden = lru_cache(REMEMBERED)(_hider(url))
        self._limiter: SlidingWindowCounterRateLimiter | None = None
        self._connection: Any = None
        self._asked_again = 0.0

    async def take(self, account: str, rate: Rate) -> Taken:
        """Takes one request from the account's window, unless it is full."""
        if time.monotonic() >= self._asked_again:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._taken(account, rate)
            except Exception as error:  # whatever its client raises when it is gone, slow or full
                self._asked_again = time.monotonic() + PATIENCE_SECONDS
                logger.warning("limits are counted by this machine alone: %s", type(error).__name__)
        return self._local.take(account, rate)

    async def _taken(self, account: str, rate: Rate) -> Taken:
        from limits import RateLimitItemPerSecond

        limiter = self._limiter or self._connected()
        item = RateLimitItemPerSecond(rate.count, rate.seconds)
        name = self._hidden(account)
        admitted = await limiter.hit(item, name)
        window = await limiter.get_window_stats(item, name)
        # In the millisecond in which a window begins, the library says that it ends now.
        wait = max(0, math.ceil(window.reset_time - time.time())) or rate.seconds
        return Taken(admitted, window.remaining if admitted else 0, wait)

    def _connected(self) -> SlidingWindowCounterRateLimiter:
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
            with suppress(Exception):  # it is given up either way
                await self._connection.aclose()


def _hider(url: str) -> Callable[[str], str]:
    """What turns accounts into names, the same on every machine that gives this password."""
    try:
        password = urlsplit(url).password or ""
    except ValueError as error:
        raise ConfigurationError("limits.redis is no URL") from error
    key = hashlib.blake2b(b"aidre limits" + unquote(password).encode(), digest_size=32).digest()

    def hidden(account: str) -> str:
        return hashlib.blake2b(account.encode("utf-8", "surrogatepass"), key=key, digest_size=16).hexdigest()

    return hidden
