"""What `aidre events` shows: the event log read in order, filtered, and written out as JSON Lines or Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from aidre.api.intent.ledger import FILE, read_noted
from aidre.api.intent.log import FOLDER, PRIVATE, read_events
from aidre.engine.durable import storage_errors, sync_file, sync_folder
from aidre.engine.errors import ConfigurationError, StorageFailed
from aidre.engine.filters import parse_instant

if TYPE_CHECKING:
    import pyarrow as pa

Event: TypeAlias = dict[str, Any]

BATCH = 4_096
SUFFIXES = (".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events; None means any. `since` counts, `until` does not; both are microseconds since 1970."""

    type: str | None = None
    platform: str | None = None
    request: str | None = None
    since: int | None = None
    until: int | None = None

    def admits(self, event: Event) -> bool:
        if self.type not in {None, event.get("event_type")} or self.request not in {None, event.get("request_id")}:
            return False
        if self.platform not in {None, (event.get("platform") or {}).get("id")}:
            return False
        if self.since is None and self.until is None:
            return True
        at = parse_instant(str(event.get("timestamp"))) or 0
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


def instant(text: str | None, option: str) -> int | None:
    """A time on the command line; raises ConfigurationError."""
    found = None if text is None else parse_instant(text)
    if text is not None and found is None:
        raise ConfigurationError(f"{option} must be a date or a time such as 2026-04-01T10:00:00Z, not {text!r}")
    return found


def events(store: Path, wanted: Wanted) -> Iterator[Event]:
    """In the order in which they were written, with those that a power cut took from the log. StorageFailed, behind
    those of the log where only the ledger cannot be read."""
    noted: list[bytes] = []
    failure: StorageFailed | None = None
    try:
        noted = read_noted(store / ".log" / FILE)
    except StorageFailed as error:
        failure = error
    yield from (event for event in read_events(store / ".log" / FOLDER, noted) if wanted.admits(event))
    if failure is not None:
        raise failure


def check_export(path: Path) -> None:
    """Raises ConfigurationError."""
    if path.suffix not in SUFFIXES:
        raise ConfigurationError(f"--export {path.name}: name a file that ends in {' or '.join(SUFFIXES)}")


def export(found: Iterable[Event], path: Path) -> int:
    """Writes them into a file for its owner alone, there as a whole or not at all; gives back how many."""
    check_export(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storage_errors(path):
        try:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
            count = _write_parquet(found, temporary) if path.suffix == ".parquet" else _write_lines(found, temporary)
            sync_file(temporary)
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    return count


def _write_lines(found: Iterable[Event], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for event in found:
            file.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")
            count += 1
    return count


def _write_parquet(found: Iterable[Event], path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, count, rest = _columns(), 0, iter(found)
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rest, BATCH)):
            writer.write_table(pa.Table.from_pylist([_row(event) for event in batch], schema))
            count += len(batch)
    return count


def _columns() -> pa.Schema:
    import pyarrow as pa

    text, number, instant_type = pa.string(), pa.int64(), pa.timestamp("us", "UTC")
    return pa.schema(
        [
            ("aip_version", text),
            ("event_id", text),
            ("event_type", text),
            ("timestamp", instant_type),
            ("request_id", text),
            ("publisher", pa.struct([("id", text), ("domain", text)])),
            ("platform", pa.struct([("id", text)])),
            ("access", pa.struct([("chunks_returned", number), ("token_count", number), ("retrieval_mode", text)])),
            (
                "citation",
                pa.struct([("source_url", text), ("chunk_ids", pa.list_(text)), ("display_surface", text)]),
            ),
        ]
    )


def _row(event: Event) -> Event:
    return {**event, "timestamp": parse_instant(str(event.get("timestamp")))}


def event_line(event: Event) -> str:
    """An event in one line for a person."""
    head = f"{event['timestamp']}  {event['event_type']:<8}  {event['platform']['id']}  {event['request_id']}"
    access, citation = event.get("access"), event.get("citation")
    if access:
        return f"{head}  {access['chunks_returned']} chunks, {access['token_count']:,} tokens"
    if citation:
        return f"{head}  {citation['source_url']} on {citation['display_surface']}: {', '.join(citation['chunk_ids'])}"
    return head
