"""Receipts as older releases wrote them: a ledger of version 1 to 4 with a journal, and an event log beside it."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import orjson
import xxhash

from aidre.api.http import digest_of
from aidre.api.http.sqlite import connect, create_tables, register_checksum
from aidre.api.protocols.intent import event_ledger as ledger_module
from aidre.api.protocols.intent.event_ledger import RecordedExchange, piece_of, pseudonym_of
from aidre.api.protocols.intent.receipts import Nonce
from tests.hostile.nursery import Say, asked, waiting
from tests.hostile.receipts import KEY, LOG, NOW, URL, Kept, access, check, citation, receipts_in
from tests.hostile.report import Report

SEGMENT_LINES = 6
JOURNALED = 3
"""So many names are in the journal alone; of their lines the last are missing in the log, and one is torn."""
SINCE: dict[int, str] = {
    1: """
CREATE TABLE nonces (digest BLOB PRIMARY KEY, expires REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX nonces_by_expiry ON nonces (expires);
CREATE TABLE returned (
    id INTEGER PRIMARY KEY,
    request BLOB NOT NULL,
    answer BLOB NOT NULL,
    session BLOB NOT NULL,
    document BLOB NOT NULL,
    piece BLOB NOT NULL,
    chunk TEXT NOT NULL,
    url TEXT,
    at REAL NOT NULL
);
CREATE INDEX returned_by_request ON returned (request);
CREATE INDEX returned_by_session ON returned (session, document, piece);
CREATE TABLE cited (
    event BLOB PRIMARY KEY,
    facts BLOB NOT NULL,
    segment INTEGER NOT NULL,
    at REAL NOT NULL,
    kept INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX cited_by_time ON cited (at);
""",
    2: """
CREATE TABLE notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    segment INTEGER NOT NULL,
    lines BLOB NOT NULL,
    entries BLOB NOT NULL
);
""",
    3: """
CREATE INDEX nonces_checked ON nonces (digest, checksum(expires));
CREATE INDEX returned_checked
    ON returned (id, checksum(request, answer, session, document, piece, chunk, url, at));
CREATE INDEX cited_checked ON cited (event, checksum(facts, segment, at, kept));
CREATE TABLE marks (
    segment INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (segment, first)
) WITHOUT ROWID;
CREATE INDEX marks_checked ON marks (segment, first, checksum(last, content));
""",
    4: """
CREATE TABLE given (
    account BLOB NOT NULL,
    document BLOB NOT NULL,
    piece BLOB NOT NULL,
    answer BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (account, document, piece)
) WITHOUT ROWID;
CREATE INDEX given_checked ON given (account, document, piece, checksum(answer, at));
""",
}
"""The tables of each version, beside those of the versions before."""


def older_receipts(log: Path, names: Sequence[str], version: int = 4, *, torn: bool = True) -> list[str]:
    """Writes an answer and a citation of each name; returns their event ids in order. `torn`: a line is cut off."""
    log.mkdir(parents=True, exist_ok=True)
    settled = len(names) - (JOURNALED if version > 1 else 0)
    lines = [line for name in names for line in lines_of(name)]
    in_log = lines if version == 1 else lines[: 2 * settled + 3]
    segments = [b"".join(in_log[start : start + SEGMENT_LINES]) for start in range(0, len(in_log), SEGMENT_LINES)]
    sizes = [len(segment) for segment in segments]
    if torn:
        segments[-1] += lines[len(in_log) % len(lines)][:20]
    (log / "events").mkdir()
    (log / "events" / "LOCK").touch(0o600)
    for number, content in enumerate(segments, 1):
        path = log / "events" / f"{number:06d}.jsonl"
        path.write_bytes(content)
        path.chmod(0o600 if number == len(segments) else 0o400)
    with closing(sqlite3.connect(log / "intent.sqlite", isolation_level=None)) as connection:
        register_checksum(connection)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        create_tables(connection, "".join(SINCE[number] for number in range(1, version + 1)), version)
        for name in names[:settled]:
            _settle(connection, name, version)
        if version > 1:
            for name in names[settled:]:
                entry = len(segments), b"".join(lines_of(name)), orjson.dumps(list(_records(name, version)))
                connection.execute("INSERT INTO notes (segment, lines, entries) VALUES (?, ?, ?)", entry)
                connection.execute("INSERT INTO cited VALUES (?, ?, 0, ?, 1)", (*_cited(name), NOW))
        if version > 2:
            for number, size in enumerate(sizes, 1):
                digest = xxhash.xxh3_128_digest(segments[number - 1][:size])
                connection.execute("INSERT INTO marks VALUES (?, 0, ?, ?)", (number, size, digest))
    return [orjson.loads(line)["event_id"] for line in lines]


def lines_of(name: str) -> list[bytes]:
    cited = {**citation(name).event, "platform": {"id": KEY}}
    return [orjson.dumps(event) + b"\n" for event in (access(name), cited)]


def _settle(connection: sqlite3.Connection, name: str, version: int) -> None:
    exchange, (document, piece, chunk, url) = _exchange(name), _chunk(name)
    connection.executemany("INSERT INTO nonces VALUES (?, ?)", [(nonce, NOW + 900.0) for nonce in _nonces(name)])
    columns = exchange.request, exchange.answer, exchange.session, document, piece, chunk, url, NOW
    names = "request, answer, session, document, piece, chunk, url, at"
    connection.execute(f"INSERT INTO returned ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", columns)
    connection.execute("INSERT INTO cited VALUES (?, ?, 0, ?, 1)", (*_cited(name), NOW))
    if version > 3:
        row = exchange.account, document, piece, exchange.answer, NOW
        connection.execute("INSERT INTO given VALUES (?, ?, ?, ?, ?)", row)


def _records(name: str, version: int) -> list[list[Any]]:
    """The entries of a journal, with one that was given back."""
    exchange, (document, piece, chunk, url) = _exchange(name), _chunk(name)
    account = [exchange.account.hex()] if version > 3 else []
    row = [document.hex(), piece.hex(), chunk, url]
    ids = exchange.request.hex(), exchange.session.hex()
    return [
        *(["spent", nonce.hex(), NOW + 900.0] for nonce in _nonces(name)),
        ["taken", *ids, exchange.answer.hex(), NOW, [row], *account],
        ["taken", *ids, "00" * 8, NOW, [[row[0], "00" * 16, pseudonym_of("unsent"), url]], *account],
        ["given back", ids[0], "00" * 8, *account],
    ]


def _nonces(name: str) -> list[bytes]:
    return [Nonce.of(KEY, f"{kind} {name}").digest for kind in ("access", "citation")]


def _exchange(name: str) -> RecordedExchange:
    return RecordedExchange.of(KEY, name, f"session {name}")


def _chunk(name: str) -> tuple[bytes, bytes, str, str]:
    chunk = f"{name}#chunk_1"
    return digest_of(name), piece_of(chunk, b"digest"), pseudonym_of(chunk), pseudonym_of(URL)


def _cited(name: str) -> tuple[bytes, bytes]:
    """The digests of the event id and of its facts."""
    cited = citation(name)
    facts = digest_of(cited.request_id, cited.source_url, cited.display_surface, *cited.chunk_ids)
    return digest_of("event", KEY, cited.event_id), facts


# -- kills -----------------------------------------------------------------------------------------------------------

NAMES = [f"turn {number}" for number in range(6)]
FEW = 10
"""Rounds of the quick form."""


def taking_over(say: Say, store: Path, statements: int) -> None:
    """Open an older store as a worker does, and be killed before so many statements of SQLite are done."""
    left = statements

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def traced(path: Path, *, synchronous: Literal["NORMAL"]) -> sqlite3.Connection:
        connection = connect(path, synchronous=synchronous)
        connection.set_trace_callback(count)
        return connection

    vars(ledger_module)["connect"] = traced
    _open(say, store)


def _open(say: Say, store: Path) -> None:
    async def opened() -> None:
        receipts = receipts_in(store)
        await receipts.open()
        receipts.close()

    asyncio.run(opened())
    say("done")


def every_statement(report: Report, step: int) -> int:
    """A take-over killed before each of its statements, or each few; the number of them."""
    for statements in itertools.count(1, step):
        store, kept = _older_store(report.place(f"statement-{statements}"))
        with waiting(taking_over, store, statements) as child:
            child.go()
            is_done = child.killed_by() is None
        asked(check, store, kept)
        if is_done:
            return statements
    raise AssertionError("unreachable")


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """Kills before each statement, and of two workers that take over at once."""
    statements = every_statement(report, 1 if rounds > FEW else 7)
    for number in range(rounds):
        store, kept = _older_store(report.place(f"two-{number}"))
        with waiting(_open, store) as one, waiting(_open, store) as other:
            one.go()
            other.go()
            time.sleep(chance.uniform(0, 0.03))
            one.kill()
            if chance.random() < 0.5:
                other.kill()
        asked(check, store, kept)
    report.figure("kills, take-over", f"before {statements} statements, {rounds} of two workers; lost 0, twice 0")


def _older_store(place: Path) -> tuple[Path, Kept]:
    older_receipts(place / LOG, NAMES)
    kept = Kept()
    kept.hear([f"{kind} {name}" for name in NAMES for kind in ("access", "citation")])
    return place, kept
