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
from aidre.api.protocols.intent import LEDGER_FILE, log_faults
from aidre.engine.maintenance import Problem

_DATABASES = {LEDGER_FILE: False, "intake.sqlite": False, "nlweb-promises.sqlite": True}
"""By file name: whether its loss does no harm. Promises are valid for minutes."""


def log_problems(store: Path, folder: Path | None = None) -> Iterator[Problem]:
    """Damage in the folder of receipts, offers, binds and promises, by default that in the store."""
    folder = store / LOG_FOLDER if folder is None else folder
    for name, is_expendable in _DATABASES.items():
        if (folder / name).exists():
            fault = find_damage(folder / name)
            if fault is not None:
                yield Problem(f"{LOG_FOLDER}/{name}", fault, is_expendable)
    for path, fault, is_derived in _log_faults(folder):
        yield Problem(f"{LOG_FOLDER}/{path.relative_to(folder).as_posix()}", fault, is_derived)


def _log_faults(folder: Path) -> list[tuple[Path, str, bool]]:
    try:
        with closing(connect_read_only(folder / LEDGER_FILE)) as connection:
            return list(log_faults(folder, connection))
    except sqlite3.Error:  # without its ledger, whose damage was reported above
        return list(log_faults(folder, None))
