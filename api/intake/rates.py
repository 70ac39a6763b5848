"""How often a caller may submit to an intake: counters of fixed windows, in a file that all workers share.

Callers stand there as digests under a key of the day that is nowhere else, and only as long as their window. A counter
that is lost costs nothing but a limit, so nothing is synced. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from aidre.api.database import connect
from aidre.api.intake.settings import RATE_MEMBERS

logger = logging.getLogger("aidre")

RATES = "intake-rates.sqlite"
TABLES = (
    "CREATE TABLE IF NOT EXISTS salts (day INTEGER PRIMARY KEY, salt BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS counts (who BLOB, seconds INTEGER, ends INTEGER, count INTEGER NOT NULL,"
    " PRIMARY KEY (who, seconds, ends)) WITHOUT ROWID",
)
DAY = 86_400


class Rates:
    """One connection, for one thread at a time; in memory where the file cannot be written."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(exist_ok=True)
            self._connection = _with_tables(connect(folder / RATES, synchronous="OFF"))
        except (OSError, sqlite3.Error) as error:
            logger.warning("rates of intakes are counted by every worker alone: %s", error)
            self._connection = _with_tables(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))

    def take(self, intake: str, caller: str, limits: Mapping[str, int], now: float) -> float:
        """Counts one request; gives back 0, or in how many seconds to come again where it is one too many.

        What cannot be counted is let through: a limit is a courtesy that a full disk must not turn into an outage.
        """
        try:
            return self._taken(intake, caller, limits, now)
        except sqlite3.Error as error:
            logger.warning("a submission could not be counted: %s", error)
            return 0.0

    def _taken(self, intake: str, caller: str, limits: Mapping[str, int], now: float) -> float:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            who = self._digest(f"{intake}\n{caller}", int(now) // DAY)
            connection.execute("DELETE FROM counts WHERE ends <= ?", (int(now),))
            wait = 0.0
            for member, most in limits.items():
                seconds = RATE_MEMBERS[member]
                ends = (int(now) // seconds + 1) * seconds
                [count] = connection.execute(
                    "INSERT INTO counts VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1"
                    " RETURNING count",
                    (who, seconds, ends),
                ).fetchone()
                if count > most:
                    wait = max(wait, ends - now)
            connection.execute("ROLLBACK" if wait else "COMMIT")  # what was refused does not count
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return wait

    def _digest(self, who: str, day: int) -> bytes:
        self._connection.execute("INSERT OR IGNORE INTO salts VALUES (?, ?)", (day, secrets.token_bytes(16)))
        self._connection.execute("DELETE FROM salts WHERE day < ?", (day,))
        [salt] = self._connection.execute("SELECT salt FROM salts WHERE day = ?", (day,)).fetchone()
        return hashlib.blake2b(who.encode("utf-8", "replace"), key=salt, digest_size=16).digest()

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
