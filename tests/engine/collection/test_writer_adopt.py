"""Adoption: segments that other processes wrote become one generation, as if their documents had been upserted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.collection.writer import Writer
from aidre.engine.errors import InvalidInput, StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import Record
from aidre.engine.segment.pending import PendingCommit
from aidre.engine.segment.records import to_columns
from aidre.engine.segment.segment_writer import Staging, write_pending
from aidre.engine.storage import durable
from aidre.engine.storage.manifest import SegmentEntry
from tests.support.stores import NAME, TIME, normal, put, record, space_of

SPACE = space_of("cosine")


def staged(writer: Writer, staging: Path, records: Sequence[Record], mark: str = "") -> SegmentEntry:
    pending = PendingCommit()
    vectors = writer.encode(SPACE.id, normal(sum(len(one.chunks) for one in records), SPACE.dimensions, 7))
    pending.rows.add(to_columns(records), {SPACE.id: vectors}, {}, TIME)
    mark = mark or ",".join(one.document.id for one in records)
    return write_pending(staging, pending.rows, list(writer.spaces.values()), (), staging=Staging(staging, mark))


def texts(path: Path) -> dict[str, str]:
    return {chunk.id.partition("#")[0]: chunk.text for chunk in Store(path).open(NAME).scan()}


def version(document_id: str, text: str, **members: Any) -> Record:
    return record(document_id, [text], **members)


def assert_sound(path: Path) -> None:
    assert not [problem for report in verify(Store(path)) for problem in report.problems]


def test_the_later_of_two_segments_wins_and_stored_documents_are_replaced(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [version("a", "stored"), version("b", "stored")], normal(2, SPACE.dimensions))
        writer.commit()
        staging = writer.stage()
        first = staged(writer, staging, [version("a", "first"), version("c", "first")])
        second = staged(writer, staging, [version("c", "second"), version("d", "second")])
        writer.set_source_root("s", "/somewhere")
        result = writer.adopt(staging, [first, second])
        assert result is not None and (result.generation, result.documents, result.chunks) == (2, 4, 4)
        assert writer.source_roots() == {"s": "/somewhere"}
    assert texts(tmp_path) == {"a": "first", "b": "stored", "c": "second", "d": "second"}
    assert_sound(tmp_path)


def test_the_change_feed_has_one_change_for_each_document(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [version("a", "stored"), version("b", "stored")], normal(2, SPACE.dimensions))
        writer.commit()
        snapshot: Snapshot | None = writer.snapshot
        assert snapshot is not None
        cursor = snapshot.changes(None, 100).cursor
        staging = writer.stage()
        first = staged(writer, staging, [version("a", "first"), version("c", "first")])
        writer.adopt(staging, [first, staged(writer, staging, [version("c", "second")])])
    page = Store(tmp_path).open(NAME).changes(cursor, 100)
    assert sorted((one.op, one.id) for one in page.changes) == [("add", "c#chunk_1"), ("change", "a#chunk_1")]


def test_withdrawn_documents_keep_their_stored_version(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [version("a", "stored")], normal(1, SPACE.dimensions))
        writer.commit()
        staging = writer.stage()
        writer.adopt(staging, [staged(writer, staging, [version("a", "older"), version("b", "new")])], ["a"])
    assert texts(tmp_path) == {"a": "stored", "b": "new"}
    assert_sound(tmp_path)


def test_a_later_row_of_one_segment_wins(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        staging = writer.stage()
        entry = staged(writer, staging, [version("a", "first"), version("b", "b"), version("a", "second")])
        result = writer.adopt(staging, [entry])
        assert result is not None and result.documents == 2
    assert texts(tmp_path) == {"a": "second", "b": "b"}


def test_the_same_rows_have_the_same_name_and_other_marks_another(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        staging = writer.stage()
        entries = [staged(writer, staging, [version("a", "text")], mark) for mark in ("1", "1", "2")]
        assert entries[0] == entries[1] and entries[0].id != entries[2].id
        assert {path.name for path in staging.iterdir()} == {entries[0].id, entries[2].id}


def test_an_altered_file_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        staging = writer.stage()
        entry = staged(writer, staging, [version("a", "text")])
        for name in entry.files:
            path = staging / entry.id / name
            sound = path.read_bytes()
            path.chmod(0o600)
            path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
            with pytest.raises(StorageFailed, match=f"{name} does not have the checksum.*run the ingest again"):
                writer.adopt(staging, [entry])
            path.write_bytes(sound)
        assert writer.snapshot is None
        assert writer.adopt(staging, [entry]) is not None
    assert texts(tmp_path) == {"a": "text"}


def test_an_adoption_that_failed_can_be_repeated(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        staging = writer.stage()
        entry = staged(writer, staging, [version("a", "text")])
        with (
            mock.patch.object(durable, "replace_file", side_effect=StorageFailed("no space")),
            pytest.raises(StorageFailed),
        ):
            writer.adopt(staging, [entry])
        assert not list(staging.iterdir())
        assert writer.adopt(staging, [entry]) is not None
    assert texts(tmp_path) == {"a": "text"}
    assert_sound(tmp_path)


def test_a_segment_is_adopted_once(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        staging = writer.stage()
        entry = staged(writer, staging, [version("a", "text")])
        writer.adopt(staging, [entry])
        with pytest.raises(InvalidInput, match="adopt each once"):
            writer.adopt(staging, [entry])
        again = staged(writer, writer.stage(), [version("a", "text")])
        assert again.id != entry.id


def test_pending_documents_are_committed_first(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        staging = writer.stage()
        entry = staged(writer, staging, [version("a", "text")])
        put(writer, [version("b", "text")], normal(1, SPACE.dimensions))
        with pytest.raises(InvalidInput, match="commit them first"):
            writer.adopt(staging, [entry])


def test_a_folder_of_stages_goes_with_its_writer_or_with_the_next_one(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        staging = writer.stage()
        staged(writer, staging, [version("a", "text")])
    assert not staging.exists()
    staging.mkdir()  # as if the process had ended before
    with Store(tmp_path).writer(NAME, spaces=[SPACE]):
        assert not staging.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_adoption_that_ends_in_any_error_leaves_no_segment(error: type[BaseException], tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [version("b", "stored")], normal(1, SPACE.dimensions))
        writer.commit()
    before = sorted((tmp_path / NAME / "segments").iterdir())
    with pytest.raises(error), Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        staging = writer.stage()
        entry = staged(writer, staging, [version("a", "text")])
        with mock.patch.object(writer.generations, "publish", side_effect=error):
            writer.adopt(staging, [entry])
    assert sorted((tmp_path / NAME / "segments").iterdir()) == before
