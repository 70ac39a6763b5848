"""Verifies the logs of the protocols: databases by row checksums and SQLite's own check.

The event log of an older release, as long as it is not taken over, is checked by the checksums in its ledger and line
by line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from aidre.api.cli.backup import LOG_FOLDER
from aidre.api.http import connect_read_only, find_damage
from aidre.api.protocols.intent import LEDGER_FILE, altered_segments, event_lines, log_segments
from aidre.engine.maintenance import Problem

_DATABASES = {LEDGER_FILE: False, "intake.sqlite": False, "nlweb-promises.sqlite": True}
"""By file name: whether its loss does no harm. Promises are valid for minutes."""


def log_problems(store: Path) -> Iterator[Problem]:
    """Damage in the folder of receipts, offers, binds and promises."""
    folder = store / LOG_FOLDER
    for name, is_expendable in _DATABASES.items():
        if (folder / name).exists():
            fault = find_damage(folder / name)
            if fault is not None:
                yield Problem(f"{LOG_FOLDER}/{name}", fault, is_expendable)
    altered = _altered(folder)
    for path in log_segments(folder):
        if path.name in altered:
            yield Problem(path.relative_to(store).as_posix(), "was altered, or cut off", False)
        elif torn := _torn_lines(path):
            fault = f"has no event in line {torn[0]}: damage, or the remains of a writer that was killed"
            yield Problem(path.relative_to(store).as_posix(), fault, True)


def _altered(folder: Path) -> list[str]:
    try:
        with closing(connect_read_only(folder / LEDGER_FILE)) as connection:
            return altered_segments(folder, connection)
    except (OSError, sqlite3.Error):  # the ledger itself is damaged, which is reported as a fault of its database
        return []


def _torn_lines(path: Path) -> list[int]:
    """Numbers of complete lines that are not an event, from 1."""
    torn: list[int] = []
    with path.open("rb") as file:
        for _ in event_lines([file], (), torn.append):
            pass
    return torn
