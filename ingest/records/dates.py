"""Dates as authors and programs write them, where there is one way to read them: as RFC 3339 in UTC.

Read are RFC 3339, ISO 8601 also without leading zeros, RFC 822, dates with an English name of the month, numbers
between dots (day first), between slashes where they have one meaning, and seconds or milliseconds since 1970.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json

_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(\.[0-9]+)?([Zz]| ?[+-][0-9]{2}:?[0-9]{2})?)?"
)
"""RFC 3339, also with the offsets of ISO 8601 ("+0200") and Jekyll (" +0200")."""

_MAX_CHARACTERS = 100
_SECONDS = (10**8, 10**11)
"""Seconds since 1970 from 1973 on; a thousand times as many are milliseconds. Smaller numbers may be anything."""

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NAMES = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?"
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,?\s+)?"
_TIME = (
    r"(?:(?:[T,]|\s+at\b)?\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d{1,9})?)?"
    r"(?:\s?(?P<half>[ap])\.?m\.?)?\s?(?:(?:GMT|UTC|UT|Z)?(?P<offset>[+-]\d{2}:?\d{2})?)(?:\s\([\w\s]{1,40}\))?)?"
)
_DAY_OF_MONTH = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
_FORMS = tuple(
    re.compile(_WEEKDAY + form + _TIME, re.IGNORECASE | re.ASCII)
    for form in (
        r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
        r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})",
        r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4})",
        rf"{_DAY_OF_MONTH}[\s-](?:of\s)?(?P<name>{_NAMES})\.?,?[\s-](?P<year>\d{{4}})",
        rf"(?P<name>{_NAMES})\.?\s{_DAY_OF_MONTH},?\s(?P<year>\d{{4}})",
        rf"(?P<year>\d{{4}})[\s-](?P<name>{_NAMES})[\s-](?P<day>\d{{1,2}})",
    )
)
_SLASHED = re.compile(r"(\d{1,2})([/-])(\d{1,2})\2(\d{4})(?=\D|$)")
_COMPACT_TIME = re.compile(r"(\d{8}T\d{2})(\d{2})(\d{2})?(Z|[+-]\d{2}:?\d{2})?")
_MAIL = re.compile(r"(?:[A-Z][a-z]{2,8},? )?\d{1,2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{1,2}:\d{2}.{0,20}")
_C_TIME = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d{2}:\d{2}:\d{2}(?: [A-Z]{3,4})? \d{4}")


def normalize_timestamp(value: Json) -> str:
    """RFC 3339 in UTC with "Z": a date means its midnight, a time without offset means UTC; raises InvalidDocument."""
    return _normalize(value if type(value) is str else "")


@lru_cache(maxsize=1024)
def _normalize(value: str) -> str:
    match = _TIMESTAMP.fullmatch(value)
    if match is None:
        raise InvalidDocument('updated_at must be an RFC 3339 date or time like "2026-04-01T10:00:00Z"')
    day, time, fraction, offset = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time or '00:00'}{fraction or ''}")
        if offset not in (None, "Z", "z"):
            zone = datetime.fromisoformat(f"2000-01-01T00:00{offset.lstrip()}").tzinfo
            moment = moment.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidDocument(f"updated_at is not a date of the calendar: {value}") from None
    return moment.isoformat() + "Z"


def read_date(value: Json) -> str | None:
    """RFC 3339 in UTC with "Z", a time without a zone being UTC; None for what is not a date, or could be two."""
    if type(value) in (int, float):
        return _read_number(value)
    text = " ".join(value.split()) if type(value) is str else ""
    if not text or len(text) > _MAX_CHARACTERS:
        return None
    with suppress(InvalidDocument):
        return normalize_timestamp(text)
    if text.isascii() and text.isdecimal() and len(text) != 8:
        return _read_number(int(text))
    with suppress(ValueError, OverflowError, TypeError, IndexError):
        return _read_words(text)
    return None


def _read_number(value: float) -> str | None:
    if type(value) is int and 1900_01_01 <= value <= 2999_12_31:
        return read_date(f"{value}") if len(f"{value}") == 8 else None
    for scale in (1, 1000):
        if _SECONDS[0] <= value / scale < _SECONDS[1]:
            with suppress(ValueError, OverflowError, OSError):
                return to_timestamp(datetime.fromtimestamp(value / scale, UTC).replace(microsecond=0))
    return None


def _read_words(text: str) -> str | None:
    if _COMPACT_TIME.fullmatch(text):
        return to_timestamp(datetime.fromisoformat(text))
    if _C_TIME.fullmatch(text):
        words = text.split()
        moment = datetime.strptime(" ".join([*words[1:4], words[-1]]), "%b %d %H:%M:%S %Y")
        return to_timestamp(moment.replace(tzinfo=UTC))
    if _MAIL.fullmatch(text):
        return to_timestamp(parsedate_to_datetime(text))
    slashed = _SLASHED.match(text)
    if slashed is not None:
        first, second = int(slashed[1]), int(slashed[3])
        if first <= 12 and second <= 12 and first != second:
            return None
        month, day = (first, second) if first <= 12 else (second, first)
        text = f"{slashed[4]}-{month}-{day}{text[slashed.end() :]}"
    match = next((found for form in _FORMS if (found := form.fullmatch(text))), None)
    # "Wed May 01 2024 10:00:00 GMT+0200 (CEST)", of JavaScript, is one of these forms, too.
    return None if match is None else to_timestamp(_to_moment(match.groupdict()))


def _to_moment(parts: dict[str, str | None]) -> datetime:
    name = parts.get("name")
    month = _MONTHS.index(name[:3].lower()) + 1 if name else int(parts["month"] or 0)
    hour = int(parts["hour"] or 0)
    if parts["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("no hour")
        hour = hour % 12 + (12 if parts["half"] in "pP" else 0)
    zone = UTC
    if offset := parts["offset"]:
        digits = offset[1:].replace(":", "")
        span = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        zone = timezone(-span if offset[0] == "-" else span)
    return datetime(
        int(parts["year"] or 0), month, int(parts["day"] or 0), hour, int(parts["minute"] or 0),
        int(parts["second"] or 0), tzinfo=zone,
    )  # fmt: skip


def to_timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC; a time without a zone is in UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat() + "Z"
