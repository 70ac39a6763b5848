"""Opening a file beneath a folder: a link or a pipe that took the place of a file is not read."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidre.ingest.records.source_items import Rejected
from aidre.ingest.sources.folder import FileSource, read_source
from tests.support.folders import RULES, documents, write
from tests.support.rows import documents as documents_of

SECRET: dict[str, str | bytes] = {
    "md": "secret", "txt": "secret", "html": "<p>secret", "jsonl": '{"text": "secret"}', "json": '[{"text": "secret"}]',
    "csv": "text\nsecret\n", "xml": "<rss version='2.0'><channel><item><title>secret</title></item></channel></rss>",
}  # fmt: skip


@pytest.mark.parametrize("kind", [*SECRET, "parquet"])
@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_what_becomes_a_link_out_of_the_folder_after_it_was_looked_at_is_not_read(
    tmp_path: Path, kind: str, swapped: str
) -> None:
    outside, root = tmp_path / "outside", tmp_path / "docs"
    write(root / "a.md")
    for folder in (outside, root / "b"):
        write(folder / f"b.{kind}", SECRET.get(kind, ""))
        if kind == "parquet":
            pq.write_table(pa.table({"text": ["secret"]}), folder / f"b.{kind}")
    assert len(documents(root)) == 2
    if swapped == "file":
        (root / "b" / "a.md").write_text("text")
    source = FileSource("docs", root)
    stream = read_source(source, RULES, lambda _: None)
    assert len(documents_of([next(stream)])) == 1
    if swapped == "file":
        assert len(documents_of([next(stream)])) == 1
        (root / "b" / f"b.{kind}").unlink()
        (root / "b" / f"b.{kind}").symlink_to(outside / f"b.{kind}")
    else:
        (root / "b").rename(root / "c")
        (root / "b").symlink_to(outside)
    rest = list(stream)
    reasons = [each.reason for each in rest if isinstance(each, Rejected)]
    assert len(reasons) == len(rest) == (kind != "xml")  # of which only feeds are read
    assert all("cannot be read: a link that leads out of the folder" in reason for reason in reasons)


def test_what_becomes_a_pipe_after_it_was_looked_at_does_not_block(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.md")
    write(tmp_path / "docs" / "b.md")
    stream = read_source(FileSource("docs", tmp_path / "docs"), RULES, lambda _: None)
    next(stream)
    (tmp_path / "docs" / "b.md").unlink()
    os.mkfifo(tmp_path / "docs" / "b.md")
    [rejected] = stream
    assert isinstance(rejected, Rejected) and rejected.reason == "cannot be read: not a file any more"
