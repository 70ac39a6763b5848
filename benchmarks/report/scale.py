"""The tables of docs/scale.md, from `report.capacity`, `report.simulation` and benchmarks/REPORT.md.

    python -m benchmarks.report.scale [--rows N ...] [--dimensions D] [--text-bytes B] [--rate R ...] [--write]

Prints them as Markdown, for your own sizes and rates; `--write` puts those of the page between its marks.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.report import capacity as model
from benchmarks.report.capacity import GB, Assumed, Data, Fleet, Listed, Measured
from benchmarks.report.pages import HEADING, sections
from benchmarks.report.simulation import Publication, Service, simulate
from benchmarks.report.tables import Table, table_of

ROWS: Final = (10_000_000, 100_000_000, 1_000_000_000)
RATES: Final = (10.0, 100.0, 1_000.0)
PART: Final = 10_000_000
"""Rows of a collection where the data are divided."""

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "scale.md"
REPORT: Final = ROOT / "benchmarks" / "REPORT.md"
SHOWN: Final = {"writer": "writer of the library", "ingest": "`aidre ingest`", "compact": "`aidre compact`"}
SERVER_FACTS: Final = {
    "MB on disk": "disk, MB",
    "ready, processor s": "start until all are open, s of a core",
    "anonymous MB, ready": "memory of each worker (anonymous) after the start, MB",
    "anonymous MB, asked": "and after a question to each collection, or to 200, MB",
    "open files": "open files",
    "memory maps": "memory maps",
    "idle, ms of a core a second": "looks for new generations, ms of a core a second",
}
REPLICA_FACTS: Final = {
    "first pull, requests": "requests of a replica's first pull",
    "idle poll, requests": "requests of a poll",
    "idle replica, dollars a month": "polls each second at S3, $ a month",
}
"""Of `bench_collections`, and how the page calls them; times of day are left out, which depend on what else runs."""
REPLICAS: Final = (1, 2, 4, 8)
LOADS: Final = (50, 100, 200, 400, 800, 1_600)
"""Requests a second."""

SERVICE: Final = Service(model.NEW_TEXT.value, model.NEW_TEXT_P99.value, model.NEW_TEXT_P999.value)
COLD_QUERIES: Final = 20


def write(page: Path = PAGE) -> None:
    page.write_text(with_tables(page.read_text("utf-8")), "utf-8")


def with_tables(text: str) -> str:
    """The page with each table in place of what is between its marks."""
    for name, table in tables([Data(rows) for rows in ROWS], RATES).items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, found = marked.subn(lambda match, table=table: f"{match[1]}\n{table}\n\n{match[2]}", text)  # type: ignore[misc]
        if found != 1:
            raise ValueError(f"the page has {found} places for the table {name}")
    return text


def tables(sizes: Sequence[Data], rates: Sequence[float]) -> dict[str, str]:
    made: Mapping[str, Callable[[], Iterable[Sequence[str]]]] = {
        "memory": _memory,
        "collections": _collections,
        "bytes": partial(_bytes, sizes),
        "machine": partial(_machine, sizes),
        "parts": partial(_parts, sizes, rates),
        "replicas": partial(_replicas, sizes, rates),
        "bucket": partial(_bucket, sizes),
        "engines": partial(_engines, sizes),
        "embedding": partial(_embedding, sizes),
        "simulation": _simulation,
        "publication": _publication,
        "inputs": _inputs,
    }
    return {name: _table(rows()) for name, rows in made.items()}


def _table(rows: Iterable[Sequence[str]]) -> str:
    head, *body = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body))


def number(value: float) -> str:
    """Two digits that count: nothing here is known better."""
    if value == 0:
        return "0"
    digits = 1 - int(f"{abs(value):e}".partition("e")[2])
    return f"{round(value, digits):,.{max(0, digits)}f}"


def _fleet(fleet: Fleet | None) -> str:
    return "none is large enough" if fleet is None else f"{fleet}: {number(fleet.dollars)} $"


def _memory() -> Iterable[Sequence[str]]:
    """The peaks of anonymous memory, by the rows of one commit."""
    found = _reported("bench_memory", "peaks in one process, and what is left on disk")
    kinds = list(dict.fromkeys(name.rpartition(", ")[2] for name in found))
    yield "MB at the peak", *(SHOWN.get(kind, kind) for kind in kinds)
    for size in dict.fromkeys(name.rpartition(", ")[0] for name in found):
        yield size, *(found.get(f"{size}, {kind}", {}).get("anonymous mb", "") for kind in kinds)


def _collections() -> Iterable[Sequence[str]]:
    """What a server and a replica take by the number of collections, which are the columns here."""
    server, replica = (_reported("bench_collections", title) for title in ("a server of one worker", "a replica"))
    yield "", *server
    for table, facts in ((server, SERVER_FACTS), (replica, REPLICA_FACTS)):
        for fact, shown in facts.items():
            yield shown, *(cells[fact] for cells in table.values())


def _reported(section: str, title: str) -> Table:
    return table_of(sections(REPORT.read_text("utf-8"))[f"{HEADING}`{section}`"], title)


def _bytes(sizes: Sequence[Data]) -> Iterable[Sequence[str]]:
    yield "kind of file", "bytes a chunk", *(f"GB, {size.rows:,}" for size in sizes)
    found = [model.chunk_bytes(size) for size in sizes]
    for kind in found[0]:
        yield (
            kind,
            f"{found[0][kind]:,.0f}",
            *(number(size.rows * each[kind] / GB) for size, each in zip(sizes, found, strict=True)),
        )
    yield "all", f"{sum(found[0].values()):,.0f}", *(number(model.store_bytes(size) / GB) for size in sizes)


def _machine(sizes: Sequence[Data]) -> Iterable[Sequence[str]]:
    yield "one collection on one machine", *(f"{size.rows:,} chunks" for size in sizes)
    lines: tuple[tuple[str, Callable[[Data], float]], ...] = (
        ("disk, GB", lambda size: model.COPIES.value * model.store_bytes(size) / GB),
        ("memory that all workers share, GB", lambda size: model.hot_bytes(size) / GB),
        ("memory of each worker (codes), GB", lambda size: model.worker_bytes(size) / GB),
        ("query by vector, ms of a core", lambda size: 1e3 * model.vector_seconds(size)),
        ("codes read by 10 queries a second, GB/s", lambda size: 10 * model.read_bytes(size) / GB),
        ("query by text, ms of a core", lambda size: 1e3 * model.text_seconds(size)),
        ("more while the candidates are on disk, ms", lambda size: 1e3 * model.cold_seconds(size)),
        ("query by vector with the codes on disk, s", model.swept_seconds),
        ("write and index, without embedding, hours", model.build_hours),
    )
    for name, value in lines:
        yield name, *(number(value(size)) for size in sizes)
    yield "smallest machine", *(_fleet(model.replicas(size, 1)) for size in sizes)


def _parts(sizes: Sequence[Data], rates: Sequence[float]) -> Iterable[Sequence[str]]:
    def fleet(size: Data, rate: float, text: bool) -> Fleet:
        part = replace(size, rows=min(PART, size.rows))
        return model.partitions(size, part.rows, model.cores(part, rate, text=text))

    return _fleets(sizes, rates, fleet)


def _replicas(sizes: Sequence[Data], rates: Sequence[float]) -> Iterable[Sequence[str]]:
    return _fleets(sizes, rates, lambda size, rate, text: model.replicas(size, model.cores(size, rate, text=text)))


def _fleets(
    sizes: Sequence[Data], rates: Sequence[float], fleet: Callable[[Data, float, bool], Fleet | None]
) -> Iterable[Sequence[str]]:
    yield "requests a second", *(f"{size.rows:,} chunks, $ a month" for size in sizes)
    for rate in rates:
        for text in (False, True):
            kind = "text" if text else "vector"
            yield f"{rate:,.0f} by {kind}", *(_fleet(fleet(size, rate, text)) for size in sizes)


def _bucket(sizes: Sequence[Data]) -> Iterable[Sequence[str]]:
    yield "the bucket", *(f"{size.rows:,} chunks" for size in sizes)
    yield "first publication, and first pull, hours", *(number(model.transfer_hours(size)) for size in sizes)
    yield "sent by a commit of 50 documents, kB", *(number(model.COMMIT_BYTES.value / 1e3) for _ in sizes)
    yield "storage, $ a month", *(number(model.bucket_dollars(size)) for size in sizes)
    for count in (2, 8):
        dollars = number(model.request_dollars(count))
        yield f"requests of {count} replicas, $ a month", *(dollars for _ in sizes)
    yield "disk of one replica, $ a month", *(number(model.disk_dollars(size)) for size in sizes)


def _engines(sizes: Sequence[Data]) -> Iterable[Sequence[str]]:
    yield "engine", *(f"{size.rows:,} chunks" for size in sizes)
    yield "PostgreSQL: table and index, GB", *(number(model.postgres_bytes(size)[0] / GB) for size in sizes)
    yield (
        "PostgreSQL: index, which should be in memory, GB",
        *(number(model.postgres_bytes(size)[1] / GB) for size in sizes),
    )
    yield "PostgreSQL: query by vector, ms", *(number(1e3 * model.postgres_seconds(size)) for size in sizes)
    yield (
        "PostgreSQL: to build the index, core hours",
        *(number(model.postgres_build_core_hours(size)) for size in sizes),
    )
    yield "PostgreSQL: machine", *(_fleet(model.holding(model.postgres_bytes(size)[1])) for size in sizes)
    yield "Milvus: memory of the query nodes, GB", *(number(model.milvus_bytes(size) / GB) for size in sizes)
    yield "Milvus: query nodes", *(_fleet(model.milvus_fleet(size)) for size in sizes)
    yield (
        "Milvus: its other nodes",
        *(
            f"{vcpu:.0f} vCPU: {number(vcpu * model.VCPU.value * model.HOURS_A_MONTH)} $"
            for vcpu in map(model.milvus_other_vcpu, sizes)
        ),
    )


def _embedding(sizes: Sequence[Data]) -> Iterable[Sequence[str]]:
    yield "embedding", *(f"{size.rows:,} chunks" for size in sizes)
    yield "core hours", *(number(model.embedding_core_hours(size)) for size in sizes)
    for count in (16, 64, 256):
        yield f"days on {count} cores", *(number(model.embedding_core_hours(size) / count / 24) for size in sizes)
    yield "$, however many", *(number(model.embedding_core_hours(size) * model.VCPU_EMBED.value) for size in sizes)


def _simulation() -> Iterable[Sequence[str]]:
    yield "requests a second", *(f"{count} replica{'s' * (count > 1)}" for count in REPLICAS)
    for rate in LOADS:
        yield f"{rate:,}", *(_latency(count, rate) for count in REPLICAS)


def _latency(count: int, rate: float) -> str:
    if rate * SERVICE.mean / count >= 1:
        return "too many"
    found = simulate(SERVICE, count, rate)
    return f"{number(found.p50)} / {number(found.p99)}"


def _publication() -> Iterable[Sequence[str]]:
    yield "replicas", "requests a second", "no publication", "files in memory", "files on disk"
    extra = [max(0.0, first.value - model.WARM.value) for first in (model.OPENED, model.EVICTED)]
    for count in REPLICAS:
        rate = round(0.5 * count / SERVICE.mean)
        before = simulate(SERVICE, count, rate)
        during = [simulate(SERVICE, count, rate, Publication(2 * each, COLD_QUERIES)) for each in extra]
        yield str(count), f"{rate:,}", *(f"{number(each.p50)} / {number(each.p99)}" for each in (before, *during))


def _inputs() -> Iterable[Sequence[str]]:
    yield "constant of `benchmarks/report/capacity.py`", "value", "source"
    for name, value in vars(model).items():
        one = dict.fromkeys([value]) if isinstance(value, Measured | Listed | Assumed) else None
        many = [*value.items()] if isinstance(value, Mapping) and name in ("SCAN", "TEXT", "KINDS") else []
        for part, constant in [("", each) for each in one or ()] or many:
            shown = f"{name} {part:,}" if isinstance(part, int) else f"{name} {part}".strip()
            yield shown, f"{constant.value:,.6g}", _source(constant)


def _source(constant: Measured | Listed | Assumed) -> str:
    if isinstance(constant, Measured):
        return f"measured: {constant.section}"
    return f"list: {constant.source}" if isinstance(constant, Listed) else f"assumed: {constant.reason}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="chunks")
    parser.add_argument("--dimensions", type=int, default=model.DIMENSIONS)
    parser.add_argument("--text-bytes", type=float, default=model.TEXT_BYTES.value, help="mean length of a text")
    parser.add_argument("--width", type=int, default=2, choices=(2, 4), help="bytes of a stored number")
    parser.add_argument("--rate", type=float, nargs="+", default=RATES, help="requests a second")
    parser.add_argument("--write", action="store_true", help="write the tables of docs/scale.md, with the defaults")
    options = parser.parse_args(argv)
    if options.write:
        write()
        return 0
    sizes = [Data(rows, options.dimensions, options.text_bytes, options.width) for rows in options.rows]
    print("\n\n".join(tables(sizes, options.rate).values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
