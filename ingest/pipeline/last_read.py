"""When each source of a collection was last read to its end, whether or not anything had changed.

A run that changes nothing makes no generation, so these times are kept beside the generations, in `STORE/.checks.json`.
Metrics alone depend on them: an ingest succeeds even if the file can be neither read nor written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson

from aidre.engine.errors import StorageFailed
from aidre.engine.storage import locked_folder, remove_temporaries, replace_file, seal, unseal

logger = logging.getLogger("aidre")

FILE_NAME = ".checks.json"
MAX_FILE_BYTES = 16 << 20
"""The rest of a longer file is not read, so that its seal does not match and it counts as empty."""

ReadTimes = Mapping[str, Mapping[str, float]]
"""Unix time by collection and source."""


def load_read_times(store: Path) -> ReadTimes:
    """Empty if there is no file, or none that can be read."""
    try:
        with (store / FILE_NAME).open("rb") as file:
            stored = orjson.loads(unseal(file.read(MAX_FILE_BYTES)))
    except (OSError, ValueError):
        return {}
    if not isinstance(stored, dict):
        return {}
    return {
        collection: {source: float(time) for source, time in sources.items() if isinstance(time, int | float)}
        for collection, sources in stored.items()
        if isinstance(sources, dict)
    }


def oldest_read_times(store: Path) -> dict[str, float]:
    """The time of the least recently read source, by collection."""
    return {name: min(sources.values()) for name, sources in load_read_times(store).items() if sources}


def save_read_times(store: Path, collection: str, read: Iterable[str], known: Iterable[str], now: float) -> None:
    """Record that the sources `read` were read at `now`. Of the others, those that are not `known` are forgotten."""
    try:
        with locked_folder(store):
            remove_temporaries(store / FILE_NAME)
            collections = {name: dict(sources) for name, sources in load_read_times(store).items()}
            former = collections.get(collection, {})
            sources = {name: former[name] for name in known if name in former} | dict.fromkeys(read, now)
            content = orjson.dumps({**collections, collection: sources}, option=orjson.OPT_SORT_KEYS)
            replace_file(store / FILE_NAME, seal(content))
    except (OSError, StorageFailed) as error:
        logger.warning("the times when sources were read could not be saved: %s", error)
