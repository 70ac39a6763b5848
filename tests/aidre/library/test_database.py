"""Opening, listing, dropping, saving and closing a store."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import aidre
from aidre.engine import open_source
from aidre.engine.maintenance import restore_archive
from tests.aidre.library.conftest import SMALL, letters


def test_opening_writes_nothing_and_the_first_document_makes_the_store(tmp_path: Path) -> None:
    with aidre.open(tmp_path / "new" / "store") as db:
        docs = db.collection("docs", space=SMALL, embed=letters)
        assert (db.collections(), len(docs), docs.generation, docs.search("x")) == ([], 0, 0, [])
        assert not (tmp_path / "new").exists()
        docs.add("hello")
        assert db.collections() == ["docs"]


def test_importing_aidre_loads_nothing_heavy() -> None:
    script = "import sys, aidre; aidre.open; print([m for m in ('torch', 'faiss', 'onnxruntime') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.needs("segments")
def test_what_one_program_wrote_another_one_reads(tmp_path: Path, docs: aidre.Collection, db: aidre.Database) -> None:
    docs.add({"id": "a", "text": "lentil soup"})
    with aidre.open(db.path) as other:
        assert other.collection("docs", embed=letters).search("lentil")[0].text == "lentil soup"


def test_a_collection_sees_the_commits_of_others(db: aidre.Database, docs: aidre.Collection) -> None:
    other = db.collection("docs", space=SMALL, embed=letters)
    docs.add({"id": "a", "text": "one"})
    assert "a" in other
    docs.add({"id": "a", "text": "two"})
    assert other["a"].text == "two"


def test_a_dropped_collection_is_gone_and_can_be_made_anew(db: aidre.Database, docs: aidre.Collection) -> None:
    docs.add({"id": "a", "text": "one"})
    before = docs.reader
    db.drop("docs")
    assert db.collections() == []
    assert (len(docs), docs.search("one")) == (0, [])
    assert before is not None
    assert before.documents == 1
    docs.add({"id": "b", "text": "two"})
    assert [document.id for document in docs.scan()] == ["b"]


def test_dropping_what_does_not_exist_names_it(db: aidre.Database) -> None:
    with pytest.raises(aidre.CollectionMissing, match="'other'"):
        db.drop("other")


@pytest.mark.needs("segments")
def test_a_backup_can_be_restored(db: aidre.Database, docs: aidre.Collection, tmp_path: Path) -> None:
    docs.add({"id": "a", "text": "one"})
    db.backup(tmp_path / "b.tar")
    restore_archive(open_source(tmp_path / "second"), tmp_path / "b.tar")
    with aidre.open(tmp_path / "second") as second:
        assert second.collection("docs", embed=letters)["a"].text == "one"


def test_a_backup_of_nothing_is_refused(db: aidre.Database, tmp_path: Path) -> None:
    with pytest.raises(aidre.InvalidInput, match="nothing to back up"):
        db.backup(tmp_path / "b.tar")


def test_a_closed_database_says_so_on_every_verb(db: aidre.Database, docs: aidre.Collection) -> None:
    docs.add("one")
    db.close()
    for verb in (
        lambda: docs.search("x"),
        lambda: docs.add("x"),
        lambda: docs.delete(["a"]),
        docs.count,
        lambda: len(docs),
        lambda: docs.at(1),
        docs.writer,
        db.collections,
        lambda: db.collection("docs"),
        lambda: db.drop("docs"),
    ):
        with pytest.raises(aidre.Closed, match="open it again") as caught:
            verb()
        assert caught.value.code == "closed"


@pytest.mark.parametrize("name", ["", "..", "A", "a/b", ".hidden"])
def test_a_name_that_is_none_is_refused(db: aidre.Database, name: str) -> None:
    with pytest.raises(aidre.AidreError, match="collection"):
        db.collection(name)


# -- the working folder, and other processes -------------------------------------------------------------------------


def test_a_store_that_was_opened_by_a_relative_path_stays_that_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    (tmp_path / "link").symlink_to("first")
    monkeypatch.chdir(tmp_path)
    db, later = aidre.open("link/store"), aidre.open_async("link/store")
    docs = db.collection("docs", space=SMALL, embed=letters)
    docs.add({"id": "a", "text": "one"})
    monkeypatch.chdir(tmp_path / "second")
    docs.add({"id": "b", "text": "two"})
    assert len(docs) == 2
    assert {one.path for one in (db, later.database)} == {tmp_path / "link" / "store"}, "links stay as given"
    assert list((tmp_path / "second").iterdir()) == []


def test_the_folder_beside_another_engine_stays_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    db = aidre.open("store", uri="postgresql://nobody@127.0.0.1:1/none")
    assert pickle.loads(pickle.dumps(db)).path == db.path == tmp_path / "store"


def test_a_relative_path_in_a_folder_that_is_gone_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(aidre.InvalidInput, match="the store is below the working folder, which is gone"):
        aidre.open("store")
    assert aidre.open(tmp_path / "store").collections() == []


def test_handles_can_be_sent_to_another_process(db: aidre.Database, docs: aidre.Collection) -> None:
    docs.add({"id": "a", "text": "lentil soup"})
    assert len(docs) == 1, "it was read"
    sent_db, sent = pickle.loads(pickle.dumps((db, docs)))
    assert (len(sent), sent_db.collections(), sent_db.path) == (1, ["docs"], db.path)
    assert sent.search("lentil")[0].text == "lentil soup"
    assert sent.add({"id": "b", "text": "two"}) == ["b"]
    assert len(docs) == 2
    db.close()
    with pytest.raises(aidre.Closed):
        len(pickle.loads(pickle.dumps(docs)))
