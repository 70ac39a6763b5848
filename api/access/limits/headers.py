"""The RateLimit fields: of draft-ietf-httpapi-ratelimit-headers-10, and the three that came before them."""

from __future__ import annotations

from functools import lru_cache

from aidre.api.access.limits.token_bucket import BucketState
from aidre.api.config import Rate

RawHeaders = list[tuple[bytes, bytes]]


def rate_limit_fields(rate: Rate, state: BucketState) -> RawHeaders:
    """The fields of an answer; shared, so not to be modified."""
    return _fields(rate.count, rate.seconds, state.remaining, state.reset)


@lru_cache(maxsize=4_096)
def _fields(count: int, seconds: int, remaining_requests: int, reset_seconds: int) -> RawHeaders:
    """Cached: most callers are far from their limit, so the same fields recur."""
    remaining, reset = b"%d" % remaining_requests, b"%d" % reset_seconds
    return [
        (b"ratelimit", b'"default";r=%b;t=%b' % (remaining, reset)),
        (b"ratelimit-remaining", remaining),
        (b"ratelimit-reset", reset),
        (b"ratelimit-policy", b'"default";q=%d;w=%d' % (count, seconds)),
        (b"ratelimit-limit", b"%d" % count),
    ]


def rejection_fields(rate: Rate, state: BucketState) -> dict[str, str]:
    """The fields of a 429 answer."""
    fields = {name.decode(): value.decode() for name, value in rate_limit_fields(rate, state)}
    return {**fields, "retry-after": str(state.reset)}


def budget_fields(chunks: int, wait: int) -> dict[str, str]:
    """The fields of a 429 answer after the daily budget of `chunks`; `wait` in seconds until midnight UTC."""
    return {
        "ratelimit": f'"chunks";r=0;t={wait}',
        "ratelimit-policy": f'"chunks";q={chunks};w=86400',
        "ratelimit-limit": str(chunks),
        "ratelimit-remaining": "0",
        "ratelimit-reset": str(wait),
        "retry-after": str(wait),
    }
