"""What a commit makes of its pending rows: those that were replaced or taken back before it, and declared dates."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.segment import PendingCommit
from tests.support.stores import NAME, ROWS, SPACE, everything, put, record


def test_rows_that_were_replaced_or_taken_back_are_deleted_in_their_own_segment(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [record("a", ["one", "two", "three"]), record("b", ["one", "two"]), record("c")], ROWS[:6])
        put(writer, [record("a", ["new"])], ROWS[6:7])
        assert writer.delete(["b"]) == 1
        result = writer.commit()
        assert result is not None and (result.documents, result.chunks) == (2, 2)
    snapshot = Store(tmp_path).open(NAME)
    [entry] = snapshot.manifest.segments
    assert (entry.documents, entry.chunks, entry.deleted_documents, entry.deleted_chunks) == (4, 7, 2, 5)
    assert everything(snapshot) == ["a", "c"]
    assert [chunk.text for chunk in snapshot.document("a")] == ["new"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_a_commit_that_drops_nothing_writes_no_tombstones(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a", "b"], ROWS[:2])
        writer.commit()
    manifest = Store(tmp_path).open(NAME).manifest
    assert [entry.deletes for entry in manifest.segments] == [None]
    assert manifest.deletes == {} and not (tmp_path / NAME / "deletes").exists()


def test_every_segment_stores_the_dates_that_are_declared(tmp_path: Path) -> None:
    for number, dates in enumerate((["published"], ["published"], [])):
        with Store(tmp_path).writer(NAME, spaces=[SPACE], dates=dates) as writer:
            put(writer, [record(f"d{number}", metadata={"published": "2026-04-01"})], ROWS[number : number + 1])
            writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert snapshot.manifest.dates == ("published",)
    fields = [set(view.segment.fields.stored()) for view in snapshot.segments]
    assert [("published", "date") in stored for stored in fields] == [True] * 3


def test_documents_stay_deleted_when_others_of_their_segment_are(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a", "b", "c", "d"], ROWS[:4])
        writer.commit()
        for document_id in ("a", "c"):
            assert writer.delete([document_id]) == 1
            assert writer.delete([document_id]) == 0
            writer.commit()
            assert writer.delete([document_id]) == 0
    snapshot = Store(tmp_path).open(NAME)
    assert everything(snapshot) == ["b", "d"]
    assert [entry.deleted_documents for entry in snapshot.manifest.segments] == [2]


def test_only_those_wait_who_ask_for_a_document_of_the_commit_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[str] = []
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        in_flight = PendingCommit()
        in_flight.register(["a"])
        with monkeypatch.context() as patched:
            patched.setattr(writer._committer, "in_flight", in_flight)
            for document_id in ("a", "b"):
                patched.setattr(writer._committer, "wait", lambda name=document_id: waits.append(name))
                writer.delete([document_id])
                writer.updated_at([document_id])
    assert waits == ["a", "a"]


def test_a_commit_first_raises_the_error_of_the_one_in_flight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise StorageFailed("the disk is full")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        with monkeypatch.context() as patched:
            patched.setattr(writer._committer, "take_result", fail)
            with pytest.raises(StorageFailed, match="the disk is full"):
                writer.commit()
        assert writer.snapshot is None
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == ["a"]
