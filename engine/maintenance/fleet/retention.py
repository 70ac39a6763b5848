"""Which objects of a bucket stay, and until when.

A generation stays for RECENT after it was superseded, for cursors and for replicas that are pulling it; the newest one
at the end of each SLOT stays for KEEP. A publisher that runs remembers what its publications superseded and removes it
without listing the bucket, which is listed once a day, for what publishers that ended have left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from aidre.engine.maintenance.bucket import StoredObject
from aidre.engine.maintenance.fleet.packs import PACKS
from aidre.engine.storage import MANIFESTS

KEEP = timedelta(hours=24)
"""How long an object stays that no newer generation names: a replica may still be pulling it."""
RECENT = timedelta(minutes=15)
"""How long cursors may ask for any generation, and a little longer."""
SLOT = 600.0
"""Seconds."""
COLLECT_SECONDS = 86_400
"""Between two listings of a bucket, for its garbage."""
_BRIEF_SECONDS = 3_600.0
"""How long an object stays that came and went within a slot; not below RECENT."""
_SWEEP_SECONDS = 600.0


def needed(manifests: Mapping[int, StoredObject], now: datetime) -> Iterator[int]:
    """The generations that were superseded within KEEP: all of the last RECENT, before that the newest one at the end
    of each SLOT, whose files are those of all that came between, so that few manifests are read."""
    numbers, recent, limit = sorted(manifests), now - RECENT, now - KEEP
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        until = None if following is None else manifests[following].modified
        is_recent = until is None or until >= recent
        reigned = manifests[number].modified
        if is_recent or (until is not None and until >= limit and _slot(until) != _slot(reigned)):
            yield number


def _slot(moment: datetime) -> float:
    return moment.timestamp() // SLOT


def generations(found: Iterable[StoredObject]) -> dict[int, StoredObject]:
    """The manifests and packs among some objects, by generation."""
    named = ((stored, stored.key.split("/")) for stored in found)
    return {
        int(parts[2].partition(".")[0]): stored
        for stored, parts in named
        if len(parts) == 3 and parts[1] in (MANIFESTS, PACKS) and parts[2].partition(".")[0].isdecimal()
    }


class Superseded:
    """The objects of one collection that publications of this process superseded. Times are Unix times."""

    def __init__(self) -> None:
        self._born: dict[str, float] | None = None
        self._brief: dict[str, float] = {}
        self._long: dict[str, float] = {}
        self._swept = 0.0

    def note(self, keys: Collection[str], now: float) -> None:
        """A publication names these objects from now on, and no others."""
        former = self._born
        # Of objects that were there before this process published, the age is unknown.
        self._born = dict.fromkeys(keys, now if former is not None else 0.0) | {
            key: born for key, born in (former or {}).items() if key in keys
        }
        for key, born in (former or {}).items():
            if key not in self._born:
                is_brief = born // SLOT == now // SLOT
                (self._brief if is_brief else self._long)[key] = now
        for revived in self._born.keys() & (self._brief.keys() | self._long.keys()):  # by a roll-back
            self._brief.pop(revived, None)
            self._long.pop(revived, None)

    def due(self, now: float) -> list[str]:
        """What may be removed; nothing more often than every ten minutes."""
        if now < self._swept + _SWEEP_SECONDS:
            return []
        self._swept = now
        return [*_taken(self._brief, now - _BRIEF_SECONDS), *_taken(self._long, now - KEEP.total_seconds())]


def _taken(times: dict[str, float], until: float) -> list[str]:
    """Remove and return those of `until` or before; the times ascend."""
    found = []
    for key, moment in times.items():
        if moment > until:
            break
        found.append(key)
    for key in found:
        del times[key]
    return found
