"""Upkeep: what follows a commit. It never decides what the write answers, whose documents are stored already.

A merge that finds the disk full, or fails by a defect, leaves the segments as they are; the next commit tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aidre.engine.errors import AidreError

log = logging.getLogger(__name__)

_failing: dict[tuple[str, str], str] = {}
"""By collection and kind of work, the cause of the last warning: a disk that stays full is logged once."""


@contextmanager
def upkeep(collection: Path | str, undone: str) -> Iterator[None]:
    """Log an error of the work inside as a warning, once until the work succeeds or fails by another cause.

    `collection` is its folder, or its name and where it is; `undone` says what is not done, as in "segments were not
    merged". An interrupt is raised.
    """
    key = str(collection), undone
    try:
        yield
    except Exception as error:  # by a defect, too, a stored document must not be reported as not stored
        text = str(error) if isinstance(error, AidreError | OSError) else f"{type(error).__name__}: {error}"
        cause = str(error.details.get("reason", text)) if isinstance(error, AidreError) else text
        if _failing.get(key) != cause:
            _failing[key] = cause
            text = " ".join(text.split())
            log.warning("%s: %s: %s; what is stored stays, and the next commit tries again", *key, text)
            log.debug("%s: %s", *key, exc_info=error)
    else:
        _failing.pop(key, None)
