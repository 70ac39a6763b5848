"""When each source of a collection was last read to its end, whether or not anything had changed, and by which readers.

A run that changes nothing makes no generation, so these times are kept beside the generations, in `STORE/.checks.json`.
Metrics and a notice alone depend on them: an ingest succeeds even if the file can be neither read nor written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from aidre.engine.errors import StorageFailed
from aidre.engine.storage import locked_folder, remove_temporaries, replace_file, seal, unseal
from aidre.ingest.sources import READER_VERSION

logger = logging.getLogger("aidre")

FILE_NAME = ".checks.json"
MAX_FILE_BYTES = 16 << 20
"""The rest of a longer file is not read, so that its seal does not match and it counts as empty."""

_READERS = ".readers"
"""Where the versions stand among the collections, whose names never begin with a dot."""

ReadTimes = Mapping[str, Mapping[str, float]]
"""Unix time by collection and source."""


def load_read_times(store: Path) -> ReadTimes:
    """Empty if there is no file, or none that can be read."""
    return {
        collection: {source: float(time) for source, time in sources.items() if isinstance(time, int | float)}
        for collection, sources in _load(store).items()
        if isinstance(sources, dict) and collection != _READERS
    }


def load_readers(store: Path, collection: str) -> Mapping[str, str]:
    """The version of the readers by source, for sources that were read since readers have versions."""
    readers = _load(store).get(_READERS)
    found = readers.get(collection) if isinstance(readers, dict) else None
    return found if isinstance(found, dict) else {}


def _load(store: Path) -> dict[str, Any]:
    try:
        with (store / FILE_NAME).open("rb") as file:
            stored = orjson.loads(unseal(file.read(MAX_FILE_BYTES)))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def oldest_read_times(store: Path) -> dict[str, float]:
    """The time of the least recently read source, by collection."""
    return {name: min(sources.values()) for name, sources in load_read_times(store).items() if sources}


def save_read_times(store: Path, collection: str, read: Iterable[str], known: Iterable[str], now: float) -> None:
    """Record that the sources `read` were read at `now`. Of the others, those that are not `known` are forgotten."""
    try:
        with locked_folder(store):
            remove_temporaries(store / FILE_NAME)
            known, read = list(known), list(read)
            stored = _load(store)
            versions = load_readers(store, collection)
            former = load_read_times(store).get(collection, {})
            stored[collection] = {name: former[name] for name in known if name in former} | dict.fromkeys(read, now)
            readers = {name: versions[name] for name in known if name in versions}
            own = stored.get(_READERS) if isinstance(stored.get(_READERS), dict) else {}
            stored[_READERS] = {**(own or {}), collection: readers | dict.fromkeys(read, READER_VERSION)}
            content = orjson.dumps(stored, option=orjson.OPT_SORT_KEYS)
            replace_file(store / FILE_NAME, seal(content))
    except (OSError, StorageFailed) as error:
        logger.warning("the times when sources were read could not be saved: %s", error)
