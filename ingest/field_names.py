"""How many names of fields a collection can have: each costs every segment that has it a row, and whoever asks a read.

Counted are the fields of the newest generation and of what a run puts in. Knows no file format.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from aidre.engine.errors import in_one_line

MOST_FIELDS: Final = 10_000
"""As many as a table of Parquet may have columns."""


class FieldNames:
    """`stored` is asked once, before the first name is taken."""

    def __init__(self, stored: Callable[[], Set[str]]) -> None:
        self._stored = stored
        self._known: set[str] | None = None

    def take(self, names: Set[str]) -> str | None:
        """Why what has these fields is not stored; None where it is, and its names are known from then on."""
        if self._known is None:
            self._known = set(self._stored())
        fresh = names - self._known
        if fresh and len(self._known) + len(fresh) > MOST_FIELDS:
            beyond = sorted(fresh)[max(0, MOST_FIELDS - len(self._known))]
            return (
                f"field {in_one_line(beyond)} is one more than the {MOST_FIELDS:,} different fields that a "
                'collection can have: make the name a value ({"name": ..., "value": ...}), '
                "or move what nobody filters by into semantic_payload"
            )
        self._known |= fresh
        return None
