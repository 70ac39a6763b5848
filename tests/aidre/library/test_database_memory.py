"""A store in memory: it is whole while it is open, leaves nothing, and no folder of its name is made."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
from pathlib import Path

import pytest

import aidre
from aidre.library import database
from tests.aidre.library.conftest import SMALL, letters
from tests.support.clocks import WAIT_SECONDS


def test_a_store_in_memory_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with aidre.open(":memory:") as db:
        docs, folder = db.collection("docs", space=SMALL, embed=letters), db.path
        docs.add(["a banana", "a text"])
        assert (len(docs.search("banana")), folder.is_dir(), repr(db)) == (2, True, "<Database in memory>")
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(aidre.Closed):
        len(docs)


def test_two_stores_in_memory_are_two() -> None:
    with aidre.open(":memory:") as one, aidre.open(":memory:") as other:
        one.collection("docs", space=SMALL, embed=letters).add("a text")
        assert (one.collections(), other.collections()) == (["docs"], [])


def test_a_collection_keeps_its_store_in_memory() -> None:
    docs = aidre.open(":memory:").collection("docs", space=SMALL, embed=letters)
    docs.add("a text")
    gc.collect()
    assert len(docs) == 1
    folder = docs._source.path
    view = docs.at(1)
    del docs
    gc.collect()
    assert len(view.search("text", mode="lexical")) == 1
    del view
    gc.collect()
    assert not folder.exists()


def test_an_asynchronous_store_may_be_in_memory() -> None:
    async def folder() -> Path:
        async with aidre.open_async(":memory:") as store:
            await store.collection("docs", space=SMALL, embed=letters).add("a text")
            return store.database.path

    assert not asyncio.run(folder()).exists()


def test_without_shared_memory_the_folder_is_a_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(database, "_SHARED_MEMORY", tmp_path / "none")
    with aidre.open(":memory:") as db:
        assert db.path.parent == tmp_path
    monkeypatch.setattr(database, "_SHARED_MEMORY", Path("/"))
    monkeypatch.setattr(database, "_LEAST_MEMORY", 1 << 62)
    with aidre.open(":memory:") as db:
        assert db.path.parent == tmp_path


def test_a_fork_that_closes_its_copy_leaves_the_store() -> None:
    with aidre.open(":memory:") as db:
        docs = db.collection("docs", space=SMALL, embed=letters)
        docs.add("a text")
        child = os.fork()
        if child == 0:
            db.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert len(docs) == 1


def _count(sent: bytes) -> int:
    return len(pickle.loads(sent))


@pytest.mark.process
def test_another_process_reads_a_store_in_memory_by_its_handle() -> None:
    with aidre.open(":memory:") as db:
        docs = db.collection("docs", space=SMALL, embed=letters)
        docs.add("a text")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply_async(_count, [pickle.dumps(docs)]).get(WAIT_SECONDS) == 1
        assert len(docs) == 1
