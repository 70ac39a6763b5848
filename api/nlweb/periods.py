"""Dates as people write them, "after 2024", "2024-01..2024-06", "last 30 days", as spans of time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from aidre.engine.filters import parse_instant

LONGEST: Final = 100
"""Characters of a text that is looked at."""
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = "|".join(
    (
        "january", "february", "march", "april", "june", "july", "august", "september", "sept", "october", "november",
        "december", *_MONTHS,
    )
)  # fmt: skip
_FORMS: Final = (
    re.compile(r"(?P<year>\d{4})"),
    re.compile(r"(?P<year>\d{4})[-/](?P<month>\d{1,2})"),
    re.compile(r"(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})"),
    re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})"),
    re.compile(rf"(?P<name>{_MONTH})\.?,? (?P<year>\d{{4}})"),
    re.compile(rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?(?P<name>{_MONTH})\.?,? (?P<year>\d{{4}})"),
    re.compile(rf"(?P<name>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})"),
)
"""The day stands first with dots alone: of 03/04/2024 nobody knows."""
_AFTER: Final = re.compile(r"(?:after|later than|newer than|>|nach|après|después de) ?(.+)")
_SINCE: Final = re.compile(r"(?:since|from|starting|not before|>=|≥|seit|ab|depuis|desde) ?(.+?)(?: on| onwards?)?")
_BEFORE: Final = re.compile(r"(?:before|earlier than|older than|prior to|<|vor|avant|antes de) ?(.+)")
_UNTIL: Final = re.compile(r"(?:until|till|by|up to|through|not after|<=|≤|bis|jusqu'à|hasta) ?(.+)")
_IN: Final = re.compile(r"(?:in|on|during|=|==|im|am|en) ?(.+)")
_LINK: Final = r" ?(?:\.\.\.?|…|–|—|\bto\b|\buntil\b|\bthrough\b|\band\b|\bbis\b|\bund\b) ?| - |(?<=\d)/(?=\d{4}-)|--"
_RANGE: Final = re.compile(rf"(?:between |from |zwischen |von )?(?P<low>\S.*?)?(?:{_LINK})(?P<high>.*\S)?")
_YEARS: Final = re.compile(r"(\d{4}) ?[-/] ?(\d{4})")
_RECENT: Final = re.compile(
    r"(?:in |within )?(?:the )?(?P<way>last|past|previous|next) (?:(?P<count>\d{1,4}) )?(?P<unit>day|week|month|year)s?"
)
_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_INSTANT: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` on, and up to but not with `end`; None has no bound."""

    start: datetime | None
    end: datetime | None

    def operators(self) -> dict[str, str]:
        """As operators of the filter grammar, for fields that are dates."""
        found = {}
        if self.start is not None:
            found["gte"] = _written(self.start)
        if self.end is not None:
            found["lt"] = _written(self.end)
        return found

    def years(self) -> dict[str, int] | None:
        """The same for fields that hold a year as a number: the years that lie in it whole."""
        low, high = 1, 9_999
        if self.start is not None:
            low = self.start.year + (self.start > datetime(self.start.year, 1, 1, tzinfo=UTC))
        if self.end is not None:
            high = self.end.year - 1
        return {"gte": low, "lte": high} if low <= high else None


def read_period(written: str, now: datetime | None = None) -> Period | None:
    """The span that a text means, in UTC; None where it means none."""
    text = " ".join(written.lower().split())
    if not text or len(text) > LONGEST:
        return None
    try:
        return _spoken(text, now or datetime.now(UTC))
    except (ValueError, OverflowError):
        return None  # the 31st of February, the year 10000


def _spoken(text: str, now: datetime) -> Period | None:
    found = _point(text, now) or _relative(text, now) or _range(text, now)
    if found is not None:
        return found
    for form, kind in ((_SINCE, "since"), (_AFTER, "after"), (_UNTIL, "until"), (_BEFORE, "before"), (_IN, "in")):
        match = form.fullmatch(text)
        point = _point(match[1], now) if match is not None else None
        if point is not None:
            return {
                "since": Period(point.start, None),
                "after": Period(point.end, None),
                "until": Period(None, point.end),
                "before": Period(None, point.start),
                "in": point,
            }[kind]
    return None


def _point(text: str, now: datetime) -> Period | None:
    """A year, a month, a day or an instant, each with its end."""
    text = text.strip()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    shift = {"today": 0, "yesterday": -1, "tomorrow": 1, "heute": 0, "gestern": -1, "morgen": 1}.get(text)
    if shift is not None:
        return _span(today + timedelta(days=shift), timedelta(days=1))
    if text == "now":
        return _span(now, _INSTANT)
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is not None:
            return _calendar(match)
    microseconds = parse_instant(text)
    return None if microseconds is None else _span(_EPOCH + timedelta(microseconds=microseconds), _INSTANT)


def _span(start: datetime, length: timedelta) -> Period:
    return Period(start, start + length)


def _calendar(match: re.Match[str]) -> Period:
    parts = match.groupdict()
    year = int(parts["year"])
    name = parts.get("name")
    if name is None and parts.get("month") is None:
        return Period(datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))
    month = _MONTHS.index(name[:3]) + 1 if name is not None else int(parts["month"])
    if parts.get("day") is None:
        after = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        return Period(datetime(year, month, 1, tzinfo=UTC), after)
    return _span(datetime(year, month, int(parts["day"]), tzinfo=UTC), timedelta(days=1))


def _relative(text: str, now: datetime) -> Period | None:
    match = _RECENT.fullmatch(text)
    if match is None:
        return None
    length = timedelta(days=int(match["count"] or 1) * _DAYS[match["unit"]])
    return Period(now, now + length) if match["way"] == "next" else Period(now - length, now)


def _range(text: str, now: datetime) -> Period | None:
    """Both ends belong to it, either may be left out."""
    match = _YEARS.fullmatch(text)
    low, high = (match[1], match[2]) if match is not None else (None, None)
    if match is None:
        match = _RANGE.fullmatch(text)
        if match is None:
            return None
        low, high = match["low"], match["high"]
    first = _point(low, now) if low else None
    last = _point(high, now) if high else None
    if (low and first is None) or (high and last is None) or (first is None and last is None):
        return None
    found = Period(first.start if first else None, last.end if last else None)
    return None if found.start and found.end and found.start >= found.end else found


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
