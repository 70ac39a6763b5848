"""When each source of a collection was last read to its end, whether or not anything had changed.

A run that changes nothing makes no generation, so this stands beside them, in `STORE/.checks.json`. It is what
metrics are made of and nothing else: where it cannot be read or written, an ingest is none the worse.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import orjson

from aidre.engine.durable import remove_temporaries, replace_file
from aidre.engine.errors import StorageFailed
from aidre.engine.sealed import seal, unseal

logger = logging.getLogger("aidre")

FILE = ".checks.json"
MOST_BYTES = 16 << 20

Checks = Mapping[str, Mapping[str, float]]
"""Unix time by collection and source."""


def read_checks(store: Path) -> Checks:
    """Empty where nothing was noted, or nothing that can be read."""
    try:
        with (store / FILE).open("rb") as file:
            found = orjson.loads(unseal(file.read(MOST_BYTES)))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: {source: float(when) for source, when in sources.items() if isinstance(when, int | float)}
        for name, sources in found.items()
        if isinstance(sources, dict)
    }


def oldest_checks(store: Path) -> dict[str, float]:
    """When the source of each collection was read that was read longest ago."""
    return {name: min(sources.values()) for name, sources in read_checks(store).items() if sources}


def note_checks(store: Path, collection: str, read: Iterable[str], known: Iterable[str], now: float) -> None:
    """Some sources of a collection were `read` now; of others only what is `known` to it is remembered."""
    try:
        with _alone(store):
            remove_temporaries(store / FILE)
            checks = {name: dict(sources) for name, sources in read_checks(store).items()}
            kept = checks.get(collection, {})
            fresh = {source: kept[source] for source in known if source in kept} | dict.fromkeys(read, now)
            noted = orjson.dumps({**checks, collection: fresh}, option=orjson.OPT_SORT_KEYS)
            replace_file(store / FILE, seal(noted))
    except (OSError, StorageFailed) as error:
        logger.warning("it could not be noted when the sources were read: %s", error)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
