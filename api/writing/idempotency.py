"""Answers by Idempotency-Key (draft-ietf-httpapi-idempotency-key-header-07), so that a repeated request acts once.

All workers share one SQLite file. A key belongs to the caller that sent it, and is known for a day.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aidre.api.http import (
    ConflictingRequest,
    RateLimited,
    Unavailable,
    Unprocessable,
    connect,
    create_tables,
    digest_of,
    transaction,
)

KEY_SECONDS = 24 * 3600.0
CLAIM_SECONDS = 60.0
"""How long a request without an answer occupies its key, unless it is renewed."""
MAX_KEYS = 400_000
ACCOUNT_SHARE = 4
"""One account has at most `MAX_KEYS / ACCOUNT_SHARE` keys."""
SCHEMA_VERSION = 1
FILE = "writes.sqlite"
TABLES = """
CREATE TABLE IF NOT EXISTS writes (
    key BLOB PRIMARY KEY,
    account BLOB NOT NULL,
    request BLOB NOT NULL,
    since REAL NOT NULL,
    answer BLOB
);
CREATE INDEX IF NOT EXISTS writes_by_account ON writes (account, since);
CREATE INDEX IF NOT EXISTS writes_by_age ON writes (since)
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The body that was answered with 200."""

    body: bytes


class IdempotencyKeys:
    """The methods block: call them with `run`, in a thread of their own. Unavailable if the file fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="idempotency")

    async def run(self, method: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, method, *arguments)

    def claim(self, account: str, key: str, request: bytes, now: float) -> StoredAnswer | None:
        """The answer to this request if it was answered before; else the key is claimed, and None returned.

        `request` is a digest of the whole request. Unprocessable where the key came with another request,
        ConflictingRequest where its request is still running, RateLimited where the caller has too many keys.
        """
        owner, hashed = digest_of(account), digest_of(account, key)
        with _storage_errors(), transaction(self._open()) as connection:
            connection.execute("DELETE FROM writes WHERE since <= ?", (now - KEY_SECONDS,))
            row = connection.execute("SELECT request, since, answer FROM writes WHERE key = ?", (hashed,)).fetchone()
            if row is None:
                count = connection.execute("SELECT count(*) FROM writes WHERE account = ?", (owner,)).fetchone()[0]
                if count >= MAX_KEYS // ACCOUNT_SHARE:
                    raise RateLimited("too many values of Idempotency-Key in a day", {"Retry-After": "3600"})
                connection.execute("INSERT INTO writes VALUES (?, ?, ?, ?, NULL)", (hashed, owner, request, now))
                return None
            stored, since, answer = row
            if stored != request:
                raise Unprocessable("this Idempotency-Key came with another request: send a new one with each request")
            if answer is not None:
                return StoredAnswer(answer)
            if since > now - CLAIM_SECONDS:
                raise ConflictingRequest("the request with this Idempotency-Key is still running", {"Retry-After": "1"})
            connection.execute("UPDATE writes SET since = ? WHERE key = ?", (now, hashed))
            return None

    def renew(self, account: str, key: str, now: float) -> None:
        """Claim a claimed key for longer: its request still runs."""
        with _storage_errors():
            self._open().execute(
                "UPDATE writes SET since = ? WHERE key = ? AND answer IS NULL", (now, digest_of(account, key))
            )

    def keep(self, account: str, key: str, answer: bytes) -> None:
        """Keep the answer of a claimed key."""
        with _storage_errors():
            self._open().execute("UPDATE writes SET answer = ? WHERE key = ?", (answer, digest_of(account, key)))

    def release(self, account: str, key: str) -> None:
        """Forget a claimed key, whose request failed."""
        with _storage_errors():
            self._open().execute("DELETE FROM writes WHERE key = ? AND answer IS NULL", (digest_of(account, key),))

    def close(self) -> None:
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = connect(self._folder / FILE, synchronous="FULL")
            self._connection = create_tables(connection, TABLES, SCHEMA_VERSION)
        return self._connection


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise Unavailable("the file of Idempotency-Keys cannot be written: nothing was done", retry=30) from error
