"""The events for `aidre events`: read in order, filtered, and exported as JSON Lines or Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from aidre.api.protocols.intent import LEDGER_FILE, read_events
from aidre.engine.errors import ConfigurationError
from aidre.engine.index.fields import parse_instant
from aidre.engine.storage import sync_file, sync_folder, write_errors

if TYPE_CHECKING:
    import pyarrow as pa

Event: TypeAlias = dict[str, Any]

BATCH_ROWS = 4_096
"""Rows of a Parquet row group."""

SUFFIXES = (".jsonl", ".parquet")
PRIVATE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class EventFilter:
    """None admits any value. Times are microseconds since 1970, `since` inclusive, `until` exclusive."""

    type: str | None = None
    platform: str | None = None
    request: str | None = None
    since: int | None = None
    until: int | None = None

    def matches(self, event: Event) -> bool:
        if self.type not in {None, event.get("event_type")} or self.request not in {None, event.get("request_id")}:
            return False
        if self.platform not in {None, (event.get("platform") or {}).get("id")}:
            return False
        if self.since is None and self.until is None:
            return True
        time = parse_instant(str(event.get("timestamp"))) or 0
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)


def parse_time(text: str | None, option: str) -> int | None:
    """Microseconds since 1970 of a time on the command line. Raises ConfigurationError."""
    time = None if text is None else parse_instant(text)
    if text is not None and time is None:
        raise ConfigurationError(f"{option} must be a date or a time such as 2026-04-01T10:00:00Z, not {text!r}")
    return time


def read_filtered(folder: Path, filter: EventFilter) -> Iterator[Event]:
    """Events in the folder of receipts, in the order in which they were written. Raises StorageFailed, after those
    that can be read."""
    return (event for event in read_events(folder / LEDGER_FILE) if filter.matches(event))


def export(events: Iterable[Event], path: Path) -> int:
    """Write events into a file that only its owner can read, as a whole or not at all; returns their number.

    Raises ConfigurationError for a suffix that is not in `SUFFIXES`.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigurationError(f"--export {path.name}: name a file that ends in {' or '.join(SUFFIXES)}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with write_errors(path):
        try:
            temporary.unlink(missing_ok=True)  # of a process with the same number, before a power cut
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_MODE))
            count = _write_parquet(events, temporary) if path.suffix == ".parquet" else _write_lines(events, temporary)
            sync_file(temporary)
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    return count


def _write_lines(events: Iterable[Event], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for event in events:
            file.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")
            count += 1
    return count


def _write_parquet(events: Iterable[Event], path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, count, remaining = _schema(), 0, iter(events)
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(remaining, BATCH_ROWS)):
            writer.write_table(pa.Table.from_pylist([_row(event) for event in batch], schema))
            count += len(batch)
    return count


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, number, time = pa.string(), pa.int64(), pa.timestamp("us", "UTC")
    return pa.schema(
        [
            ("aip_version", text),
            ("event_id", text),
            ("event_type", text),
            ("timestamp", time),
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
    """One line of text for an event."""
    head = f"{event['timestamp']}  {event['event_type']:<8}  {event['platform']['id']}  {event['request_id']}"
    access, citation = event.get("access"), event.get("citation")
    if access:
        return f"{head}  {access['chunks_returned']} chunks, {access['token_count']:,} tokens"
    if citation:
        return f"{head}  {citation['source_url']} on {citation['display_surface']}: {', '.join(citation['chunk_ids'])}"
    return head
