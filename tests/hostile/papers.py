"""What lies beside the collections of a store, and what damage to it comes to: receipts, binds, counts, keys, a backup.

Everything here runs in a child, like victim.py.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from aidre.api.access.limits.chunk_budget import ChunkBudget
from aidre.api.access.limits.token_bucket import TokenBuckets
from aidre.api.cli.backup import log_problems
from aidre.api.config.toml import Rate
from aidre.api.http.http_errors import BadRequest
from aidre.api.protocols.intake.bind_key import BindKey
from aidre.api.protocols.intake.offer_ledger import OfferLedger as Binds
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE as INTENT, read_events
from aidre.api.protocols.nlweb.promise_table import PromiseTable
from aidre.api.protocols.provenance.keys import read_keys
from aidre.api.retrieval.cursor import Cursors, SearchCursor, store_secret
from aidre.engine.collection.store import Store
from aidre.engine.errors import AidreError
from aidre.engine.maintenance.restore import restore_archive
from aidre.ingest.pipeline.last_read import load_read_times
from tests.hostile import receipts
from tests.hostile.victim import BACKUP, LOG, OTHER, SIGNING, THEN, peak_memory
from tests.support.stores import NAME

BINDS, PROMISES = "intake.sqlite", "nlweb-promises.sqlite"
DATABASES = (INTENT, BINDS, PROMISES)
ACCOUNT = "key reader"
RATE = Rate(600, 60)
PLACE = SearchCursor(4, 10, 20, int(THEN), b"lineage!")


@dataclass(frozen=True, slots=True)
class Read:
    """What came of reading a file: what it says, or the typed error; whether the check of the store names it."""

    said: str
    error: str | None
    named: bool
    peak: int


def write(folder: Path) -> None:
    """What a running server leaves beside receipts and binds."""
    store = folder / "store"
    log = store / LOG
    with closing(PromiseTable(log / PROMISES)) as promises:
        for number in range(4):
            promises.add(bytes([number]) * 16, b"owner", b"account", THEN, THEN * 2)
            promises.finish(bytes([number]) * 16, b'{"results":[%d]}' % number, THEN * 2)
    buckets, budget = TokenBuckets([log]), ChunkBudget([log], 100, lambda: THEN)
    buckets.take(ACCOUNT, RATE)
    budget.give(ACCOUNT, NAME, ["a", "b"])
    buckets.close()
    budget.close()
    store_secret(log)
    for path in (log / INTENT, log / BINDS, log / PROMISES):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def read(folder: Path, kind: str) -> Read:
    """Use a file as a server does; only errors of a known kind may come out of it."""
    named = any(True for _ in log_problems(folder / "store"))
    said, error = "", None
    try:
        said = KINDS[kind](folder)
    except AidreError as caught:
        error = f"{type(caught).__name__}: {caught}"
    return Read(said, error, named, peak_memory())


def _intent(folder: Path) -> str:
    """Everything that stands in the ledger; and a server goes on with it."""
    store = folder / "store"
    said = _dumped(store / LOG / INTENT)
    with suppress(AidreError):
        list(read_events(store / LOG / INTENT))
    _copied(store, lambda copy: asyncio.run(_turn(copy)))
    return said


async def _turn(store: Path) -> None:
    opened = receipts.receipts_in(store)
    await opened.open()
    await receipts.retrieve(opened, "next")
    opened.close()


def _binds(folder: Path) -> str:
    store = folder / "store"
    said = _dumped(store / LOG / BINDS)

    def go_on(copy: Path) -> None:
        with closing(Binds(copy / LOG)) as binds:
            binds.delete_expired(1.0)
            list(binds.binds())
            binds.add_offer(receipts.an_offer("next"), b"me", 1 << 40, 0.0)
            binds.add_bind(receipts.a_bind("next", BindKey("k" * 32)), deliver=True)

    _copied(store, go_on)
    return said


def _promises(folder: Path) -> str:
    """A damaged table is made anew: promises last for minutes."""
    found: list[object] = []

    def go_on(copy: Path) -> None:
        with closing(PromiseTable(copy / LOG / PROMISES)) as promises:
            found.extend(promises.read(bytes([number]) * 16, b"owner", THEN) for number in range(4))

    _copied(folder / "store", go_on)
    return repr(found)


def _dumped(path: Path) -> str:
    """All rows of a database; nothing where SQLite cannot read it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
            kept = [
                name for name, sql in tables if sql and sql.startswith("CREATE TABLE") and name != "sqlite_sequence"
            ]
            return repr([tables, *(connection.execute(f"SELECT * FROM {name}").fetchall() for name in kept)])
    except sqlite3.Error:
        return "unreadable"


def _copied(store: Path, use: Callable[[Path], None]) -> None:
    """What writes does so in a copy, so that the next look finds what this one found."""
    copy = store.with_name("copy")
    try:
        shutil.copytree(store / LOG, copy / LOG)
        use(copy)
    except sqlite3.Error as error:  # the protocols say "cannot be stored" to this
        raise AidreError(f"SQLite: {error}") from error
    finally:
        shutil.rmtree(copy)


def _counts(folder: Path) -> str:
    """Counts may be lost, a server not."""
    log = folder / "store" / LOG
    buckets, budget = TokenBuckets([log]), ChunkBudget([log], 100, lambda: THEN)
    try:
        buckets.take(ACCOUNT, RATE)
        budget.give(ACCOUNT, NAME, ["a", "c"])
        budget.count(ACCOUNT)
    finally:
        buckets.close()
        budget.close()
    return "counts"


def _secret(folder: Path) -> str:
    """A cursor of the secret that was there; with another one it opens nothing."""
    written = Cursors((folder / "secret").read_bytes()).write(PLACE, b"binding")
    try:
        return repr(Cursors(store_secret(folder / "store" / ".log")).read(written, b"binding"))
    except BadRequest as error:
        return f"refused: {error}"


def _signing(folder: Path) -> str:
    keys = read_keys(folder / SIGNING)
    return repr([keys.signing.public.id, [key.id for key in keys.published]])


def _checks(folder: Path) -> str:
    return repr(load_read_times(folder / "store"))


def _backup(folder: Path) -> str:
    new = Store(folder / "restored")
    try:
        restore_archive(new, folder / BACKUP, beside=LOG)
        return repr([new.open(name).documents for name in (NAME, OTHER)])
    finally:
        left = sorted(path.name for path in new.path.iterdir())
        shutil.rmtree(new.path)
        assert left in ([], sorted([LOG, NAME, OTHER])), f"a part was restored: {left}"


KINDS: dict[str, Callable[[Path], str]] = {
    "intent ledger": _intent,
    "binds": _binds,
    "promises": _promises,
    "counts": _counts,
    "cursor secret": _secret,
    "signing keys": _signing,
    "checks": _checks,
    "backup": _backup,
}
