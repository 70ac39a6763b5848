"""Upgrades that are killed: the old store is read in full afterwards, and the next attempt succeeds.

SIGKILL comes before a call by which the process touches the store, or before a statement of SQLite.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

from aidre.api.cli.main import run as run_command
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, read_events
from aidre.engine.collection.store import Store
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import Query
from tests.hostile.injection import Calls, die
from tests.hostile.nursery import Say, asked, started, waiting
from tests.hostile.older_receipts import taking_over
from tests.hostile.report import Report
from tests.support.stores import copied
from tests.upgrade import corpus, questions
from tests.upgrade.make import ANSWERS, ARCHIVE, RELEASE

NEVER = 1 << 30
FEW = 10
"""Rounds of the quick form."""
WORK = {
    "ingest": ["ingest", "table/rows.jsonl", "--collection", "rows", "--config", "aidre.toml"],
    "compact": ["compact", "--collection", "rows"],
    "purge": ["delete", "nothing", "--purge", "--collection", "rows"],
}
"""The first ingest writes every row once more, since fingerprints are others; the answers stay the same."""


def unpack(folder: Path) -> Path:
    """What the old release left: `store`, `backup.tar`, `aidre.toml` and keys."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    shutil.copy(RELEASE / "aidre.toml", folder)
    return folder


def old_answers() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return found


def work(folder: Path, name: str, at: int = NEVER) -> int:
    """Do it in this process, and be killed before the n-th call; the number of all calls."""
    os.chdir(folder)
    calls = Calls(folder / "store", at, die)
    calls.install()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        assert run_command([*WORK[name], "--store", "store"]) == 0, said.getvalue()
    return len(calls.names)


def killed_work(say: Say, folder: Path, name: str, at: int) -> None:
    work(folder, name, at)
    say("done")


def check_rows(folder: Path, where: str) -> None:
    """The rows are found as the old release found them, and every byte is sound."""
    snapshot, searches = Store(folder / "store").open("rows"), old_answers()["searches"]
    assert snapshot.documents == len(corpus.live_rows()), where
    for space in (corpus.COSINE, corpus.DOT):
        for row, vector in enumerate(corpus.queries(space)):
            hits = snapshot.search(Query(vector.astype("float32"), space, 10))
            questions.check([[hit.chunk.id, hit.score] for hit in hits], searches[f"{space} {row}.0"], where)
    assert all(report.ok for report in verify(Store(folder / "store"))), where


def kill_work(report: Report, rounds: int, chance: random.Random) -> None:
    """The first write, compaction and purge, each killed at so many points."""
    old, died = unpack(report.place("old")), Counter[str]()
    corpus.write_rows(old / "table" / "rows.jsonl", corpus.live_rows())
    for name in WORK:
        calls = asked(work, copied(old, report.folder / f"{name}-counted"), name)
        for number in range(rounds):
            at = chance.randint(1, calls)
            folder = copied(old, report.folder / f"{name}-{number}")
            with started(killed_work, folder, name, at) as child:
                died[name] += child.killed_by() is not None
            check_rows(folder, f"{name}, killed before call {at} of {calls}")
            asked(work, folder, name)
            check_rows(folder, f"{name}, after the second attempt")
            shutil.rmtree(folder)
    assert died.total() * 2 > rounds * len(WORK), f"threads may make a call less, but not many: {died}"
    report.figure("kills, first work of an upgrade", f"{dict(died)}; between 0, lost 0")


def kill_take_over(report: Report, step: int, chance: random.Random) -> None:
    """The take-over of the event log, killed before statements of SQLite, up to `step` apart."""
    old, events = unpack(report.place("log")), old_answers()["events"]
    statements, is_done = 1, False
    while not is_done:
        store = copied(old / "store", report.folder / f"statement-{statements}")
        with waiting(taking_over, store, statements) as child:
            child.go()
            is_done = child.killed_by() is None
        assert events_in(store) == events, f"killed before statement {statements}"
        with started(taking_over, store, NEVER) as child:
            assert child.hear() == "done"
        assert events_in(store) == events, f"after the second attempt, killed before statement {statements}"
        assert not (store / ".log/events").exists()
        shutil.rmtree(store)
        statements += chance.randint(1, step)
    assert statements > FEW, "there is nothing to be killed in"
    report.figure("kills, take-over of the log of 0.1.0", f"before statement 1 to {statements}; lost 0, twice 0")


def events_in(store: Path) -> list[str]:
    return [str(event["event_id"]) for event in read_events(store / ".log" / LEDGER_FILE)]


def run(report: Report, rounds: int, chance: random.Random) -> None:
    kill_work(report, rounds, chance)
    kill_take_over(report, 1 if rounds > FEW else 12, chance)
