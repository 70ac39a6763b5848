"""Durations as people write them, "under 30 minutes", as the ISO 8601 durations that publishers write.

The filter grammar orders no durations: a bound becomes the list of all whole minutes inside it, as they are spelled.
That suits recipes and instructions; of what is measured in seconds nothing is claimed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from aidre.api.nlweb.quantities import LONGEST, Bounds, read_bounds

MEMBERS: Final = frozenset({"cookTime", "prepTime", "totalTime", "performTime"})
"""The properties of schema.org that hold durations of whole minutes."""
MOST_MINUTES: Final = 1_440
_ISO: Final = re.compile(r"p(?:(\d{1,2})d)?(?:t(?:(\d{1,3})h)?(?:(\d{1,4})m)?(?:0+(?:\.0+)?s)?)?")
_HOURS: Final = r"(?:hours?|hrs?|h|stunden?|std|heures?|horas?)(?:\b|(?=\d))\.?"
_MINUTES: Final = r"(?:minutes?|minuten?|mins?|m|minutos?)\b\.?"
_MIXED: Final = re.compile(rf"(\d+) ?{_HOURS} ?(?:and |und |et )?(\d+) ?(?:{_MINUTES})?")
_UNIT: Final = re.compile(rf"(\d+(?:[.,]\d+)?) ?(?:({_HOURS})|{_MINUTES})")
_PAIR: Final = re.compile(rf"(\d+(?:[.,]\d+)?) ?(-|–|to|and|bis|und) ?(\d+(?:[.,]\d+)?) ?{_HOURS}")
_WORDS: Final = (
    (re.compile(r"\b(?:half an hour|a half hour|eine halbe stunde)\b"), "30 min"),
    (re.compile(r"\b(?:an|one|1) hour and a half\b"), "90 min"),
    (re.compile(r"\b(?:an|a|one|eine|une|una) (hour|minute|stunde|heure|hora)\b"), r"1 \1"),
)


def read_minutes(written: str) -> Bounds | None:
    """The bounds, in minutes, that a text or an ISO 8601 duration means; None without a unit."""
    text = " ".join(written.lower().split())
    if not text or len(text) > LONGEST:
        return None
    iso = _ISO.fullmatch(text)
    if iso is not None and any(iso.groups()):
        days, hours, minutes = (int(part or 0) for part in iso.groups())
        total = days * 1_440 + hours * 60 + minutes
        return Bounds(total, total)
    for words, plain in _WORDS:
        text = words.sub(plain, text)
    plain = _PAIR.sub(lambda match: f"{_sixty(match[1])} {match[2]} {_sixty(match[3])}", text)
    plain = _MIXED.sub(lambda match: str(int(match[1]) * 60 + int(match[2])), plain)
    plain = _UNIT.sub(lambda match: _sixty(match[1]) if match[2] else match[1], plain)
    return read_bounds(plain) if plain != text else None


def _sixty(hours: str) -> str:
    return f"{float(hours.replace(',', '.')) * 60:g}"


@lru_cache(maxsize=16)
def spellings(bounds: Bounds) -> tuple[str, ...]:
    """The durations of whole minutes inside the bounds, up to a day, as they may be written."""
    found: list[str] = []
    for minutes in range(MOST_MINUTES + 1):
        if _inside(minutes, bounds):
            found += _spelled(minutes)
    return tuple(found)


def _inside(minutes: int, bounds: Bounds) -> bool:
    low, high = bounds.low, bounds.high
    if low is not None and (minutes < low or (minutes == low and not bounds.low_closed)):
        return False
    return high is None or minutes < high or (minutes == high and bounds.high_closed)


def _spelled(minutes: int) -> list[str]:
    """PT90M, PT1H30M, PT01H30M, P0DT1H30M; PT1H and PT1H0M."""
    hours, rest = divmod(minutes, 60)
    found = [f"PT{minutes}M", f"PT{hours}H{rest}M", f"P0DT{hours}H{rest}M", f"PT{hours:02}H{rest:02}M"]
    if rest == 0:
        found.append(f"PT{hours}H")
    if minutes == MOST_MINUTES:
        found.append("P1D")
    return found
