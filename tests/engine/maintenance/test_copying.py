"""A collection under another name: the same documents, a life of its own, and the old name free afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aidre
from aidre.engine.collection import Store
from aidre.engine.maintenance import copying
from aidre.engine.maintenance.verify import verify_collection
from tests.aidre.library.conftest import SMALL, letters


@pytest.fixture
def db(tmp_path: Path) -> aidre.Database:
    return aidre.open(tmp_path / "store")


@pytest.fixture
def docs(db: aidre.Database) -> aidre.Collection:
    docs = db.collection("docs", space=SMALL, embed=letters, dates=["when"])
    docs.add([{"id": name, "text": f"a banana {name}", "when": "2026-04-01"} for name in "abcd"])
    docs.delete(["b"])
    return docs


def told(collection: aidre.Collection) -> list[Any]:
    return [
        (one.id, one.text, one.metadata, (one.vectors or {})["small"].tolist()) for one in collection.scan(vectors=True)
    ]


def test_a_copy_has_the_same_documents_and_a_life_of_its_own(db: aidre.Database, docs: aidre.Collection) -> None:
    before = told(docs)
    other = docs.copy("other")
    assert (other.name, told(other), db.collections()) == ("other", before, ["docs", "other"])
    assert [hit.id for hit in other.search("banana")] == [hit.id for hit in docs.search("banana")]
    assert other.reader is not None and docs.reader is not None
    assert (other.reader.collection.name, other.reader.dates) == ("other", ("when",))
    assert other.reader.lineage != docs.reader.lineage
    other.add({"id": "e", "text": "more"})
    other.delete(["a"])
    docs.delete(["c"])
    assert ([one.id for one in docs.scan()], [one.id for one in other.scan()]) == (["a", "d"], ["c", "d", "e"])
    db.drop("docs", purge=True)
    assert [one.id for one in other.scan()] == ["c", "d", "e"]
    assert not verify_collection(Store(db.path), "other").problems


def test_a_renamed_collection_is_the_same_under_another_name(db: aidre.Database, docs: aidre.Collection) -> None:
    before = told(docs)
    docs.rename("other")
    assert (docs.name, told(docs), db.collections()) == ("other", before, ["other"])
    docs.add({"id": "e", "text": "more"})
    assert len(db.collection("other")) == 4
    assert len(db.collection("docs")) == 0
    docs.rename("docs")
    assert (len(docs), db.collections()) == (4, ["docs"])
    assert not verify_collection(Store(db.path), "docs").problems


def test_a_name_that_is_taken_or_none_is_refused(db: aidre.Database, docs: aidre.Collection) -> None:
    db.collection("taken", space=SMALL, embed=letters).add("x")
    for verb in (docs.copy, docs.rename):
        for name, kind in (("taken", aidre.Conflict), ("docs", aidre.InvalidInput), ("../x", aidre.InvalidInput)):
            with pytest.raises(kind):
                verb(name)
        with pytest.raises(aidre.CollectionMissing):
            getattr(db.collection("none"), verb.__name__)("new")
    assert db.collections() == ["docs", "taken"]
    assert (len(docs), len(db.collection("taken"))) == (3, 1)
    assert not (db.path / "new").exists()


def test_without_links_the_files_are_copied(docs: aidre.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("os.link", refuse)
    before = told(docs)
    assert told(docs.copy("other")) == before


def test_an_interruption_leaves_the_collection_as_it_was(
    db: aidre.Database, docs: aidre.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError

    before = told(docs)
    with monkeypatch.context() as patched:
        patched.setattr(copying, "write_current", refuse)
        with pytest.raises(RuntimeError):
            docs.rename("other")
    assert (told(docs), db.collections()) == (before, ["docs"])


def test_a_writer_is_waited_for(db: aidre.Database, docs: aidre.Collection) -> None:
    hasty = db.collection("docs", space=SMALL, embed=letters, wait=0)
    with docs.writer(), pytest.raises(aidre.StoreLocked):
        hasty.rename("other")
    assert db.collections() == ["docs"]
