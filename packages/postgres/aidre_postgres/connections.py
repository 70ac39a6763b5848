"""Connections to PostgreSQL: a pool that threads share, sessions set up for searches, and one error for all faults.

A message names the host, the port and the database, and never the password.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, LiteralString, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from aidre.engine.errors import AidreError, BackendUnavailable, ConfigurationError

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

MOST_IDLE: Final = 8
"""Connections that are kept open while no thread uses them."""

_CONNECT_SECONDS: Final = 5
_UNANSWERED_MILLISECONDS: Final = 10_000
"""Until a connection counts as broken whose server does not confirm what was sent."""

_SCHEMA: Final = "aidre"
_MOST_SCHEMA_BYTES: Final = 63

# In the order `strict`, pgvector drops candidates that it finds late, however near they are: with a filter far from the
# query that was one in fifteen. In `relaxed` order they come, and the reader sorts.
_SESSION: Final[LiteralString] = """
select set_config('search_path', concat_ws(', ', 'pg_catalog', quote_ident(
         (select nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where extname = 'vector'))),
         false),
       set_config('hnsw.iterative_scan', 'relaxed_order', false), set_config('hnsw.ef_search', %(ef)s, false),
       set_config('jit', 'off', false), set_config('plan_cache_mode', 'force_custom_plan', false)
"""
_CLASSES_OF_LOSS: Final = {"08", "28", "3D", "53", "57"}
"""Of SQLSTATE: no connection, no access, no such database, no resources, the operator intervened."""
EF_SEARCH: Final = 200
"""Candidates that a search in the graph keeps, unless it asks for more."""


class PostgresDatabase:
    """A server and the schema of a store in it. Makes connections, and keeps idle ones for the next call."""

    def __init__(self, uri: str) -> None:
        self._parameters, self.schema = _parse(uri)
        self._secret = str(self._parameters.get("password") or "")
        self._idle: list[Connection] = []
        self._lock, self._pid = threading.Lock(), os.getpid()
        weakref.finalize(self, _close, self._idle)

    @property
    def address(self) -> str:
        """Where it is, for messages."""
        named = self._parameters
        place = f"{named.get('host', 'its default host')}:{named.get('port', 5432)}"
        return f"{place}/{named.get('dbname', named.get('user', 'its default database'))}"

    def name(self, table: str) -> sql.Identifier:
        """A table of the schema."""
        return sql.Identifier(self.schema, table)

    def connect(self) -> Connection:
        """A new connection, which the caller closes. BackendUnavailable."""
        with self.faults():
            # One line of information for operators, and for a writer that finds the collection locked.
            label = f"aidre {os.getpid()} {socket.gethostname()}"[:_MOST_SCHEMA_BYTES]
            connection = psycopg.connect(
                **self._parameters, autocommit=True, application_name=label, prepare_threshold=None
            )
            try:
                self.set_up(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def set_up(self, connection: Connection) -> None:
        """Settings of the session; the types of the extension are found where it was made."""
        connection.execute(_SESSION, {"ef": str(EF_SEARCH)})

    def read(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, which reads."""

        def done() -> T:
            with self.borrowed() as connection:
                return work(connection)

        return again_if_lost(done)

    @contextmanager
    def borrowed(self) -> Iterator[Connection]:
        """A connection for one call. What goes wrong on it is BackendUnavailable; then it is not used again, and where
        it was lost, no idle one either, as all of them may be."""
        connection = self._take() or self.connect()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        try:
            with self.faults():
                yield connection
        except BaseException as error:
            with suppress(psycopg.Error):
                connection.close()
            is_lost = isinstance(error, BackendUnavailable) and error.details["reason"] == "lost"
            with self._lock:
                while self._idle and is_lost:
                    self._idle.pop().close()
            raise
        with self._lock:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _take(self) -> Connection | None:
        """An idle connection that still answers: the server may have been started again since."""
        with self._lock:
            if self._pid != os.getpid():  # after a fork the sockets belong to the parent
                _forgotten.extend(self._idle)
                self._idle.clear()
                self._pid = os.getpid()
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not _has_ended(connection):
                return connection
            connection.close()

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Errors of the driver as BackendUnavailable."""
        try:
            yield
        except AidreError:
            raise
        except psycopg.Error as error:
            first = (error.diag.message_primary or str(error) or type(error).__name__).strip().splitlines()[0]
            shown = first.replace(self._secret, "***") if self._secret else first
            kind = (error.sqlstate or "08")[:2]
            fault = "does not answer" if kind in _CLASSES_OF_LOSS else "failed"
            reason = "lost" if kind in {"08", "57"} else "refused"
            message = f"PostgreSQL at {self.address} {fault}: {shown}"
            raise BackendUnavailable(message, backend="postgres", address=self.address, reason=reason) from None


def again_if_lost(work: Callable[[], T]) -> T:
    """The result of `work`, which reads; it is done again where an idle connection turns out to be lost."""
    try:
        return work()
    except BackendUnavailable as error:
        if error.details["reason"] != "lost":
            raise
    return work()


def fetch(connection: Connection, statement: sql.Composable, parameters: Any = None) -> list[tuple[Any, ...]]:
    """The rows of a statement, whose values the server sends in binary form."""
    rows: list[tuple[Any, ...]] = connection.cursor(binary=True).execute(statement, parameters).fetchall()
    return rows


_forgotten: Final[list[Connection]] = []
"""Connections of the process that this one was forked from: to close one would end the session of the parent."""


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


def _has_ended(connection: Connection) -> bool:
    """Whether the server has ended an idle connection: then there is something to read."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _parse(uri: str) -> tuple[dict[str, Any], str]:
    """The parameters of a connection, and the schema, which the URI may name as `?schema=NAME`."""
    schema = _SCHEMA
    try:
        if "://" in uri:
            parts = urlsplit(uri)
            query = parse_qsl(parts.query, keep_blank_values=True)
            schema = next((value for name, value in query if name == "schema"), schema)
            remaining = urlencode([pair for pair in query if pair[0] != "schema"])
            uri = urlunsplit(parts._replace(query=remaining))
        parameters = dict(conninfo_to_dict(uri))
    except (ValueError, psycopg.Error):
        raise ConfigurationError(
            "store.uri is not an address of PostgreSQL: write it like postgresql://user@host:5432/database"
        ) from None
    if not 0 < len(schema.encode()) <= _MOST_SCHEMA_BYTES or "\0" in schema or schema.startswith("pg_"):
        raise ConfigurationError(
            f"store.uri: schema must be a name of 1 to {_MOST_SCHEMA_BYTES} bytes that does not begin with pg_"
        )
    parameters.setdefault("connect_timeout", _CONNECT_SECONDS)
    parameters.setdefault("tcp_user_timeout", _UNANSWERED_MILLISECONDS)
    return parameters, schema
