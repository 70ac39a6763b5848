"""How long a server that is overworked is waited for: as long as it asks, within bounds. Fetches nothing.

A well-behaved crawler comes back no earlier than it was told (RFC 9110, 10.2.3), and one that a publisher waits for
does not stand still for an hour. So an answer of 429 or 503 with Retry-After is waited for twice at most, a minute at
most each time, five minutes at most for all of a source. Beyond that the address fails, its host is asked for nothing
more in this run, what the store has of it stays, and the next run asks again.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

MOST_WAITS = 2
LONGEST_WAIT = 60.0
IN_ALL = 300.0
"""Waits of one address, seconds of one wait, and seconds of all the waits of a source."""

ASKS_FOR_TIME = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})

_LEAST = 1.0
_SECONDS = re.compile(r"[0-9]{1,9}")


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After asks for, by number or by date; None where there is none that can be read."""
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return max(_LEAST, float(text))
    try:
        moment = parsedate_to_datetime(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return None
    return max(_LEAST, seconds.total_seconds())


class Patience:
    """What is left of it for one source."""

    def __init__(self) -> None:
        self._left = IN_ALL

    def allows(self, seconds: float, waits: int) -> bool:
        """Whether to wait so long, after so many waits for the same address; then they are used up."""
        if waits >= MOST_WAITS or seconds > min(LONGEST_WAIT, self._left):
            return False
        self._left -= seconds
        return True
