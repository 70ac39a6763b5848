"""Whether what the protocols write down is whole: each database by the checksums of its rows and SQLite's own check,
the event log by what the ledger knows of it, and line by line where that is not known yet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import orjson

from aidre.api.backup import LOG
from aidre.api.database import fault_in
from aidre.api.intent.ledger import FILE
from aidre.api.intent.log import FOLDER
from aidre.api.intent.marks import altered_segments
from aidre.engine.errors import StorageFailed
from aidre.engine.verify import Problem

_DATABASES = {FILE: False, "intake.sqlite": False, "nlweb-promises.sqlite": True}
"""By name, and whether it is lost without harm: promises are out for minutes."""
_EVENTS = f"{FOLDER}/*.jsonl"


def log_problems(store: Path) -> Iterator[Problem]:
    """What is damaged in the folder of receipts, offers, binds and promises."""
    folder = store / LOG
    for name, lost_without_harm in _DATABASES.items():
        if (folder / name).exists():
            what = fault_in(folder / name)
            if what is not None:
                yield Problem(f"{LOG}/{name}", what, lost_without_harm)
    altered = _altered(folder)
    for path in sorted(folder.glob(_EVENTS)):
        if path.stem in altered:
            yield Problem(path.relative_to(store).as_posix(), "was altered, or cut off", False)
        elif torn := _torn_lines(path):
            what = f"has no event in line {torn[0]}: damage, or what a writer left that was killed"
            yield Problem(path.relative_to(store).as_posix(), what, True)


def _altered(folder: Path) -> set[str]:
    try:
        return {f"{number:06d}" for number in altered_segments(folder / FILE, folder / FOLDER)}
    except (StorageFailed, sqlite3.Error):  # the ledger itself is damaged, which is said already
        return set()


def _torn_lines(path: Path) -> list[int]:
    """Numbers of whole lines that are no event."""
    with path.open("rb") as file:
        return [number for number, line in enumerate(file, 1) if not _is_event(line) and line.endswith(b"\n")]


def _is_event(line: bytes) -> bool:
    try:
        return type(orjson.loads(line)) is dict
    except orjson.JSONDecodeError:
        return False
