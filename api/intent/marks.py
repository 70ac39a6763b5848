"""Checksums of the event log, in the ledger: a mark for every part of a segment that has come to the disk.

By them the check of a store finds what was altered in the log, or cut off.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from aidre.api.intent.log import content_mark, has_segment, newest_segment

MARKS = """
CREATE TABLE IF NOT EXISTS marks (
    segment INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (segment, first)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS marks_checked ON marks (segment, first, checksum(last, content));
"""


def add_marks(connection: sqlite3.Connection, folder: Path, untrusted: int) -> None:
    """Mark what the log has got since the last mark, which must be on disk; nothing of the segment `untrusted`.

    The log of an earlier release is marked from its newest segment on. StorageFailed, sqlite3.Error.
    """
    newest = newest_segment(folder)
    last = connection.execute("SELECT segment, last FROM marks ORDER BY segment DESC, first DESC LIMIT 1").fetchone()
    segment, first = last or (newest, 0)
    for number in range(segment, newest + 1):
        begin = first if number == segment else 0
        if number != untrusted and has_segment(folder, number):
            end, content = content_mark(folder, number, begin)
            if end > begin:
                mark = (number, begin, end, content)
                connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)", mark)


def altered_segments(ledger: Path, folder: Path) -> Iterator[int]:
    """The segments that are not what was marked; one that is gone is none. StorageFailed, sqlite3.Error."""
    if not ledger.exists():
        return
    with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'marks'").fetchone() is None:
            return
        marks = connection.execute("SELECT segment, first, last, content FROM marks").fetchall()
    for number in sorted({segment for segment, *_ in marks if has_segment(folder, segment)}):
        parts = [part for segment, *part in marks if segment == number]
        if any(content_mark(folder, number, first, last) != (last, content) for first, last, content in parts):
            yield number
