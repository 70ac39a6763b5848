"""Rate limits of intakes: fixed-window counters per caller, in a SQLite file that all workers share.

Callers are stored as digests keyed by a salt of the day, and deleted with their window. Losing a counter only relaxes a
limit, so nothing is synced. Every function here blocks.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from aidre.api.config import RATE_PERIODS
from aidre.api.http import connect

logger = logging.getLogger("aidre")

RATES_FILE = "intake-rates.sqlite"
TABLES = (
    "CREATE TABLE IF NOT EXISTS salts (day INTEGER PRIMARY KEY, salt BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS counts (who BLOB, seconds INTEGER, ends INTEGER, count INTEGER NOT NULL,"
    " PRIMARY KEY (who, seconds, ends)) WITHOUT ROWID",
)
DAY_SECONDS = 86_400


class RateLimiter:
    """One connection, for one thread at a time; counts in memory if the file cannot be written."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(exist_ok=True)
            self._connection = _with_tables(connect(folder / RATES_FILE, synchronous="OFF"))
        except (OSError, sqlite3.Error) as error:
            logger.warning("rate limits of intakes are counted by each worker alone: %s", error)
            self._connection = _with_tables(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))

    def count(self, intake: str, caller: str, limits: Mapping[str, int], now: float) -> float:
        """Count one request; returns 0, or the seconds to wait if it exceeds a limit.

        A request that cannot be counted is admitted: a full disk must not turn a limit into an outage.
        """
        try:
            return self._count(intake, caller, limits, now)
        except sqlite3.Error as error:
            logger.warning("a submission could not be counted: %s", error)
            return 0.0

    def _count(self, intake: str, caller: str, limits: Mapping[str, int], now: float) -> float:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            digest = self._digest(f"{intake}\n{caller}", int(now) // DAY_SECONDS)
            connection.execute("DELETE FROM counts WHERE ends <= ?", (int(now),))
            wait = 0.0
            for member, limit in limits.items():
                seconds = RATE_PERIODS[member]
                ends = (int(now) // seconds + 1) * seconds
                [count] = connection.execute(
                    "INSERT INTO counts VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1"
                    " RETURNING count",
                    (digest, seconds, ends),
                ).fetchone()
                if count > limit:
                    wait = max(wait, ends - now)
            connection.execute("ROLLBACK" if wait else "COMMIT")  # a rejected request does not count
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return wait

    def _digest(self, caller: str, day: int) -> bytes:
        self._connection.execute("INSERT OR IGNORE INTO salts VALUES (?, ?)", (day, secrets.token_bytes(16)))
        self._connection.execute("DELETE FROM salts WHERE day < ?", (day,))
        [salt] = self._connection.execute("SELECT salt FROM salts WHERE day = ?", (day,)).fetchone()
        return hashlib.blake2b(caller.encode("utf-8", "replace"), key=salt, digest_size=16).digest()

    def close(self) -> None:
        self._connection.close()


def _with_tables(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        for statement in TABLES:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
