"""The RateLimit fields: of draft-ietf-httpapi-ratelimit-headers-10, and the three that came before them."""

from __future__ import annotations

from functools import lru_cache

from aidre.api.guard.buckets import Taken
from aidre.api.tables import Rate

RawHeaders = list[tuple[bytes, bytes]]


def fields(rate: Rate, taken: Taken) -> RawHeaders:
    """What goes out with an answer; not to be changed."""
    return _fields(rate.count, rate.seconds, taken.remaining, taken.reset)


@lru_cache(maxsize=4_096)
def _fields(count: int, seconds: int, left: int, until: int) -> RawHeaders:
    """Most callers are far from their limit, and their fields the same again and again."""
    remaining, reset = b"%d" % left, b"%d" % until
    return [
        (b"ratelimit", b'"default";r=%b;t=%b' % (remaining, reset)),
        (b"ratelimit-remaining", remaining),
        (b"ratelimit-reset", reset),
        (b"ratelimit-policy", b'"default";q=%d;w=%d' % (count, seconds)),
        (b"ratelimit-limit", b"%d" % count),
    ]


def refused(rate: Rate, taken: Taken) -> dict[str, str]:
    """What goes out with 429."""
    said = {name.decode(): value.decode() for name, value in fields(rate, taken)}
    return {**said, "retry-after": str(taken.reset)}


def spent(most: int, wait: int) -> dict[str, str]:
    """What goes out with 429 when the chunks of a day have been given."""
    return {
        "ratelimit": f'"chunks";r=0;t={wait}',
        "ratelimit-policy": f'"chunks";q={most};w=86400',
        "ratelimit-limit": str(most),
        "ratelimit-remaining": "0",
        "ratelimit-reset": str(wait),
        "retry-after": str(wait),
    }
