"""Whether the author of a document has published it: flags and dates of a front matter, and directives for robots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from aidre.engine.model import Document, Json
from aidre.ingest.records.dates import read_date, to_timestamp
from aidre.ingest.records.document import escape_unprintable

_YES = frozenset({"true", "yes", "y", "on", "1"})
_NO = frozenset({"false", "no", "n", "off", "0"})
_UNPUBLISHED_FLAGS = {"draft": _YES, "published": _NO, "publish": _NO}
"""Flags of a front matter, in lower case, with the values that keep a document from being published."""

_MAX_SHOWN = 40
"""Characters of a value that a reason shows."""

_WEEKDAY = re.compile(r"\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,", re.IGNORECASE)
_WORD_BREAK = re.compile(r"[\s;]+")
"""What some authors write between directives in place of a comma."""

_OWN_AGENT = "aidre"
_VALUED_DIRECTIVES = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
"""Directives with a colon, which would otherwise be read as the name of a robot."""


class DraftStatus(NamedTuple):
    """`reason` says why a document is not published, None for one that is. `until` is when that changes (RFC 3339)."""

    reason: str | None = None
    until: str | None = None


PUBLISHED = DraftStatus()


def read_publication(members: Mapping[str, Json], now: datetime) -> DraftStatus:
    """By `draft`, `published`, `publish`, `publishDate` and `expiryDate` of a front matter, in upper or lower case.

    A date that cannot be read leaves the document out: nothing is published by mistake.
    """
    until: str | None = None
    for name, value in members.items():
        key = name.lower()
        if key in _UNPUBLISHED_FLAGS and _to_flag(value) in _UNPUBLISHED_FLAGS[key]:
            return DraftStatus(_shown(name, value))
        if key in ("publishdate", "expirydate") and value is not None and value != "":
            date = read_date(value)
            if date is None:
                return DraftStatus(f"{_shown(name, value)} is not a date that can be read")
            is_over = datetime.fromisoformat(date) <= now
            if is_over and key == "expirydate":
                return DraftStatus(f"{name} {date} has passed")
            if not is_over and key == "publishdate":
                return DraftStatus(f"{name} {date} is ahead", date)
            until = date if key == "expirydate" else until
    return DraftStatus(None, until)


def read_robots(values: Sequence[str], now: datetime) -> DraftStatus:
    """By values of X-Robots-Tag headers, or of a page's meta elements, that are for all robots or for this one."""
    until: str | None = None
    for agent, directive in _directives(values):
        name, _, value = directive.partition(":")
        if agent not in ("", "*", "robots", _OWN_AGENT):
            continue
        refusal = next((word for word in _WORD_BREAK.split(name) if word in ("noindex", "none")), None)
        if refusal is not None:
            return DraftStatus(refusal)
        date = _read_date(value.strip()) if name.strip() == "unavailable_after" else None
        if date is not None and date <= now:
            return DraftStatus(f"unavailable_after {to_timestamp(date)} has passed")
        if date is not None:
            until = to_timestamp(date)
    return DraftStatus(None, until)


def mark_expiry(document: Document, publication: DraftStatus) -> Document:
    """The document with the moment at which it is published no more in its state, so that it is read again then."""
    return document if publication.until is None else replace(document, state={"expires": publication.until})


def _shown(name: str, value: Json) -> str:
    return escape_unprintable(f"{name}: {_to_flag(value)}"[:_MAX_SHOWN])


def _to_flag(value: Json) -> str:
    return str(value).strip().lower() if type(value) in (bool, int, str) else ""


def _directives(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each directive in lower case, with the name of the robot that it is for, "" for all."""
    for value in values:
        agent = ""
        for part in _WEEKDAY.sub("", value).lower().split(","):
            name, colon, rest = part.partition(":")
            is_named = bool(colon) and name.strip() not in _VALUED_DIRECTIVES
            agent = name.strip() if is_named else agent
            yield agent, (rest if is_named else part).strip()


def _read_date(value: str) -> datetime | None:
    """A date in RFC 822, RFC 850 or ISO 8601, in UTC; None for another one."""
    readers: tuple[Callable[[str], datetime], ...] = (datetime.fromisoformat, parsedate_to_datetime)
    for read in readers:
        try:
            date = read(value.upper())
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError, TypeError, IndexError):
            continue
    return None
