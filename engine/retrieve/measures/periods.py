"""Parses dates and durations in free text: "after 2024", "2024-01..2024-06", "last 30 days"; "under 1 hour", PT90M.

A date becomes a `Period` in UTC, a duration becomes `Bounds` in minutes. Knows English, German, French and Spanish
words; names of months are English.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from aidre.engine.index.fields import parse_instant
from aidre.engine.retrieve.measures.quantities import Bounds, read_bounds

# -- dates -----------------------------------------------------------------------------------------------------

MAX_PERIOD_CHARS: Final = 100
"""Characters; a longer text is not a date."""
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH: Final = "|".join(
    (
        "january", "february", "march", "april", "june", "july", "august", "september", "sept", "october", "november",
        "december", *_MONTHS,
    )
)  # fmt: skip
_CALENDAR_FORMS: Final = (
    re.compile(r"(?P<year>\d{4})"),
    re.compile(r"(?P<year>\d{4})[-/](?P<month>\d{1,2})"),
    re.compile(r"(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})"),
    re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})"),
    re.compile(rf"(?P<name>{MONTH})\.?,? (?P<year>\d{{4}})"),
    re.compile(rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?(?P<name>{MONTH})\.?,? (?P<year>\d{{4}})"),
    re.compile(rf"(?P<name>{MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})"),
)
"""The day comes first only where dots separate: 03/04/2024 is ambiguous and is not read."""
_AFTER: Final = re.compile(r"(?:after|later than|newer than|>|nach|après|después de) ?(.+)")
_SINCE: Final = re.compile(r"(?:since|from|starting|not before|>=|≥|seit|ab|depuis|desde) ?(.+?)(?: on| onwards?)?")
_BEFORE: Final = re.compile(r"(?:before|earlier than|older than|prior to|<|vor|avant|antes de) ?(.+)")
_UNTIL: Final = re.compile(r"(?:until|till|by|up to|through|not after|<=|≤|bis|jusqu'à|hasta) ?(.+)")
_DURING: Final = re.compile(r"(?:in|on|during|=|==|im|am|en) ?(.+)")
_SEPARATOR: Final = (
    r" ?(?:\.\.\.?|…|–|—|\bto\b|\buntil\b|\bthrough\b|\band\b|\bbis\b|\bund\b) ?| - |(?<=\d)/(?=\d{4}-)|--"
)
_RANGE: Final = re.compile(rf"(?:between |from |zwischen |von )?(?P<low>\S.*?)?(?:{_SEPARATOR})(?P<high>.*\S)?")
_YEAR_RANGE: Final = re.compile(r"(\d{4}) ?[-/] ?(\d{4})")
_RELATIVE: Final = re.compile(
    r"(?:in |within )?(?:the )?(?P<direction>last|past|previous|next) "
    r"(?:(?P<count>\d{1,4}) )?(?P<unit>day|week|month|year)s?"
)
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_INSTANT: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """A half-open interval of time: `start` belongs to it, `end` does not; None is unbounded."""

    start: datetime | None
    end: datetime | None

    def operators(self) -> dict[str, str]:
        """The period as operators of the filter grammar, for fields that hold dates."""
        operators = {}
        if self.start is not None:
            operators["gte"] = _format_instant(self.start)
        if self.end is not None:
            operators["lt"] = _format_instant(self.end)
        return operators

    def years(self) -> dict[str, int] | None:
        """The same for fields that hold a year as a number: the years that lie wholly inside; None without any."""
        low, high = 1, 9_999
        if self.start is not None:
            low = self.start.year + (self.start > datetime(self.start.year, 1, 1, tzinfo=UTC))
        if self.end is not None:
            high = self.end.year - 1
        return {"gte": low, "lte": high} if low <= high else None


def read_period(written: str, now: datetime | None = None) -> Period | None:
    """The period that a text states; None where it states none. `now` defaults to the clock."""
    text = " ".join(written.lower().split())
    if not text or len(text) > MAX_PERIOD_CHARS:
        return None
    try:
        return _parse_period(text, now or datetime.now(UTC))
    except (ValueError, OverflowError):
        return None  # the 31st of February, the year 10000


def _parse_period(text: str, now: datetime) -> Period | None:
    period = _parse_date(text, now) or _parse_relative(text, now) or _parse_range(text, now)
    if period is not None:
        return period
    prefixes = ((_SINCE, "since"), (_AFTER, "after"), (_UNTIL, "until"), (_BEFORE, "before"), (_DURING, "during"))
    for form, relation in prefixes:
        match = form.fullmatch(text)
        date = _parse_date(match[1], now) if match is not None else None
        if date is not None:
            return {
                "since": Period(date.start, None),
                "after": Period(date.end, None),
                "until": Period(None, date.end),
                "before": Period(None, date.start),
                "during": date,
            }[relation]
    return None


def _parse_date(text: str, now: datetime) -> Period | None:
    """The period of a year, a month, a day or an instant."""
    text = text.strip()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    shift = {"today": 0, "yesterday": -1, "tomorrow": 1, "heute": 0, "gestern": -1, "morgen": 1}.get(text)
    if shift is not None:
        return _period_of(today + timedelta(days=shift), timedelta(days=1))
    if text == "now":
        return _period_of(now, _INSTANT)
    for form in _CALENDAR_FORMS:
        match = form.fullmatch(text)
        if match is not None:
            return _calendar_period(match)
    microseconds = parse_instant(text)
    return None if microseconds is None else _period_of(_EPOCH + timedelta(microseconds=microseconds), _INSTANT)


def _period_of(start: datetime, length: timedelta) -> Period:
    return Period(start, start + length)


def _calendar_period(match: re.Match[str]) -> Period:
    """The year, the month or the day of a match of `_CALENDAR_FORMS`."""
    parts = match.groupdict()
    year = int(parts["year"])
    name = parts.get("name")
    if name is None and parts.get("month") is None:
        return Period(datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))
    month = _MONTHS.index(name[:3]) + 1 if name is not None else int(parts["month"])
    if parts.get("day") is None:
        next_month = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        return Period(datetime(year, month, 1, tzinfo=UTC), next_month)
    return _period_of(datetime(year, month, int(parts["day"]), tzinfo=UTC), timedelta(days=1))


def _parse_relative(text: str, now: datetime) -> Period | None:
    match = _RELATIVE.fullmatch(text)
    if match is None:
        return None
    length = timedelta(days=int(match["count"] or 1) * _UNIT_DAYS[match["unit"]])
    return Period(now, now + length) if match["direction"] == "next" else Period(now - length, now)


def _parse_range(text: str, now: datetime) -> Period | None:
    """A range of two dates, both included; either may be absent, "2024.." or "..2024"."""
    match = _YEAR_RANGE.fullmatch(text)
    low, high = (match[1], match[2]) if match is not None else (None, None)
    if match is None:
        match = _RANGE.fullmatch(text)
        if match is None:
            return None
        low, high = match["low"], match["high"]
    first = _parse_date(low, now) if low else None
    last = _parse_date(high, now) if high else None
    if (low and first is None) or (high and last is None) or (first is None and last is None):
        return None
    period = Period(first.start if first else None, last.end if last else None)
    return None if period.start and period.end and period.start >= period.end else period


def _format_instant(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


# -- durations -------------------------------------------------------------------------------------------------

MAX_DURATION_CHARS: Final = 200
"""Characters; a longer text is not a duration."""
DURATION_MEMBERS: Final = frozenset({"cookTime", "prepTime", "totalTime", "performTime"})
"""Properties of schema.org whose durations are whole minutes."""
MAX_MINUTES: Final = 1_440
"""One day; longer durations are not spelled out."""
_ISO_8601: Final = re.compile(r"p(?:(\d{1,2})d)?(?:t(?:(\d{1,3})h)?(?:(\d{1,4})m)?(?:0+(?:\.0+)?s)?)?")
_HOURS: Final = r"(?:hours?|hrs?|h|stunden?|std|heures?|horas?)(?:\b|(?=\d))\.?"
_MINUTES: Final = r"(?:minutes?|minuten?|mins?|m|minutos?)\b\.?"
_HOURS_AND_MINUTES: Final = re.compile(rf"(\d+) ?{_HOURS} ?(?:and |und |et )?(\d+) ?(?:{_MINUTES})?")
_QUANTITY: Final = re.compile(rf"(\d+(?:[.,]\d+)?) ?(?:({_HOURS})|{_MINUTES})")
_HOUR_RANGE: Final = re.compile(rf"(\d+(?:[.,]\d+)?) ?(-|–|to|and|bis|und) ?(\d+(?:[.,]\d+)?) ?{_HOURS}")
_IDIOMS: Final = (
    (re.compile(r"\b(?:half an hour|a half hour|eine halbe stunde)\b"), "30 min"),
    (re.compile(r"\b(?:an|one|1) hour and a half\b"), "90 min"),
    (re.compile(r"\b(?:an|a|one|eine|une|una) (hour|minute|stunde|heure|hora)\b"), r"1 \1"),
)


def read_minutes(written: str) -> Bounds | None:
    """The bounds, in minutes, that a text or an ISO 8601 duration states; None without a unit."""
    text = " ".join(written.lower().split())
    if not text or len(text) > MAX_DURATION_CHARS:
        return None
    iso = _ISO_8601.fullmatch(text)
    if iso is not None and any(iso.groups()):
        days, hours, minutes = (int(part or 0) for part in iso.groups())
        total = days * 1_440 + hours * 60 + minutes
        return Bounds(total, total)
    for idiom, replacement in _IDIOMS:
        text = idiom.sub(replacement, text)
    in_minutes = _HOUR_RANGE.sub(lambda match: f"{_to_minutes(match[1])} {match[2]} {_to_minutes(match[3])}", text)
    in_minutes = _HOURS_AND_MINUTES.sub(lambda match: str(int(match[1]) * 60 + int(match[2])), in_minutes)
    in_minutes = _QUANTITY.sub(lambda match: _to_minutes(match[1]) if match[2] else match[1], in_minutes)
    return read_bounds(in_minutes) if in_minutes != text else None


def _to_minutes(hours: str) -> str:
    return f"{float(hours.replace(',', '.')) * 60:g}"


@lru_cache(maxsize=16)
def spell_durations(bounds: Bounds) -> tuple[str, ...]:
    """Every ISO 8601 spelling of every whole minute inside the bounds, up to `MAX_MINUTES`: the filter grammar compares
    durations as strings."""
    spellings: list[str] = []
    for minutes in range(MAX_MINUTES + 1):
        if _contains(bounds, minutes):
            spellings += _spell_minutes(minutes)
    return tuple(spellings)


def _contains(bounds: Bounds, minutes: int) -> bool:
    low, high = bounds.low, bounds.high
    if low is not None and (minutes < low or (minutes == low and not bounds.low_closed)):
        return False
    return high is None or minutes < high or (minutes == high and bounds.high_closed)


def _spell_minutes(minutes: int) -> list[str]:
    """PT90M, PT1H30M, PT01H30M, P0DT1H30M; PT1H and PT1H0M."""
    hours, rest = divmod(minutes, 60)
    spellings = [f"PT{minutes}M", f"PT{hours}H{rest}M", f"P0DT{hours}H{rest}M", f"PT{hours:02}H{rest:02}M"]
    if rest == 0:
        spellings.append(f"PT{hours}H")
    if minutes == MAX_MINUTES:
        spellings.append("P1D")
    return spellings
