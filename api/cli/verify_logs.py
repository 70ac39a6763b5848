"""Verifies the logs of the protocols: databases by row checksums and SQLite's own check, the event log by the ledger.

Segments of the event log that the ledger does not cover yet are checked line by line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import orjson

from aidre.api.cli.backup import LOG_FOLDER
from aidre.api.http import find_damage
from aidre.api.protocols.intent import EVENTS_FOLDER, LEDGER_FILE, altered_segments
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance import Problem

_DATABASES = {LEDGER_FILE: False, "intake.sqlite": False, "nlweb-promises.sqlite": True}
"""By file name: whether its loss does no harm. Promises are valid for minutes."""

_EVENTS = f"{EVENTS_FOLDER}/*.jsonl"


def log_problems(store: Path) -> Iterator[Problem]:
    """Damage in the folder of receipts, offers, binds and promises."""
    folder = store / LOG_FOLDER
    for name, is_expendable in _DATABASES.items():
        if (folder / name).exists():
            fault = find_damage(folder / name)
            if fault is not None:
                yield Problem(f"{LOG_FOLDER}/{name}", fault, is_expendable)
    altered = _altered(folder)
    for path in sorted(folder.glob(_EVENTS)):
        if path.stem in altered:
            yield Problem(path.relative_to(store).as_posix(), "was altered, or cut off", False)
        elif torn := _torn_lines(path):
            fault = f"has no event in line {torn[0]}: damage, or the remains of a writer that was killed"
            yield Problem(path.relative_to(store).as_posix(), fault, True)


def _altered(folder: Path) -> set[str]:
    """Names of event log segments whose bytes are not those that the ledger recorded."""
    try:
        return {f"{number:06d}" for number in altered_segments(folder / LEDGER_FILE, folder / EVENTS_FOLDER)}
    except (StorageFailed, sqlite3.Error):  # the ledger itself is damaged, which is reported as a fault of its database
        return set()


def _torn_lines(path: Path) -> list[int]:
    """Numbers of complete lines that are not an event, from 1."""
    with path.open("rb") as file:
        return [number for number, line in enumerate(file, 1) if not _is_event(line) and line.endswith(b"\n")]


def _is_event(line: bytes) -> bool:
    try:
        return type(orjson.loads(line)) is dict
    except orjson.JSONDecodeError:
        return False
