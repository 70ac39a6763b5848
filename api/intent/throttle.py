"""Calls an address may make before it is known who calls: one bucket each, burst N, as `limits.rate` says."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from starlette.requests import Request

from aidre.api.intent.envelope import Throttled
from aidre.api.proxies import Proxies
from aidre.api.tables import Rate

ADDRESSES_MOST = 65_536
BEYOND_LOOPBACK = Rate(600, 60)


class Throttle:
    """A bucket for every address; `proxies` are believed when they say for whom they call."""

    def __init__(self, rate: Rate, proxies: Iterable[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._proxies = Proxies(proxies)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, request: Request) -> None:
        """Raises Throttled."""
        if self._rate.count == 0:
            return
        now, address = self._clock(), self._proxies.address(request)
        left, at = self._buckets.pop(address, (float(self._rate.count), now))
        refill = self._rate.count / self._rate.seconds
        left = min(float(self._rate.count), left + (now - at) * refill)
        self._buckets[address] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > ADDRESSES_MOST:
            self._buckets.popitem(last=False)
        if left < 1:
            raise Throttled(self._fields(math.ceil((1 - left) / refill)))

    def _fields(self, wait: int) -> dict[str, str]:
        return {
            "Retry-After": str(wait),
            "RateLimit": f'"default";r=0;t={wait}',
            "RateLimit-Policy": f'"default";q={self._rate.count};w={self._rate.seconds}',
            "RateLimit-Limit": str(self._rate.count),
            "RateLimit-Remaining": "0",
            "RateLimit-Reset": str(wait),
        }
