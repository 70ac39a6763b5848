"""Rate limits by a clock that only tests move."""

from __future__ import annotations

from aidre.api.access.limits.token_bucket import TokenBuckets
from tests.support.clients import Client
from tests.support.clocks import Clock

NANOSECONDS = 1_000_000_000


def count_by(clock: Clock, client: Client) -> None:
    """The buckets of a server are empty from now on, and refilled as this clock says."""
    guard = client.app.state.guard
    guard._buckets.close()
    guard._buckets = TokenBuckets([], lambda: int(clock() * NANOSECONDS))
