"""Names of collections that move in one step: what they mean, what is refused, and a file that is damaged."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import AidreError, CollectionMissing, Conflict, InvalidInput, Missing, StoreDamaged
from aidre.engine.maintenance import back_up, copy_collection, restore_archive
from aidre.engine.storage.aliases import FILE, FORMER_SECONDS
from tests.support.clients import TEXT, a_document, fill


@pytest.fixture
def store(tmp_path: Path) -> Store:
    for name, text in (("old", "alpha"), ("new", "beta")):
        fill(tmp_path / "store", name, [a_document(name, text)])
    return Store(tmp_path / "store")


def meant(store: Store, name: str) -> str:
    return store.open(name).collection.name


def test_an_alias_moves_for_readers_of_any_process(store: Store) -> None:
    reader = Store(store.path)
    store.point_alias("docs", "old")
    first = reader.mark("docs")
    assert (meant(reader, "docs"), reader.current("docs")) == ("old", store.current("old"))
    store.point_alias("docs", "new")
    assert meant(reader, "docs") == "new"
    assert reader.mark("docs") not in (None, first)
    assert reader.collections() == ["new", "old"]
    store.remove_alias("docs")
    with pytest.raises(CollectionMissing):
        reader.open("docs")


def test_an_alias_is_written_to(store: Store) -> None:
    store.point_alias("docs", "old")
    with store.writer("docs", spaces=None) as writer:
        writer.delete(["old"])
        writer.commit()
    assert store.open("old").documents == 0


def test_the_collections_before_are_known_as_long_as_a_cursor_lives(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    for name in ("old", "new", "old"):
        store.point_alias("docs", name)
        now[0] += 1
    assert store.aliases()["docs"].former == (("new", 1_002.0),)  # not the one that it means again
    now[0] += FORMER_SECONDS
    store.point_alias("docs", "new")
    assert store.aliases()["docs"].former == (("old", now[0]),)


@pytest.mark.parametrize(
    ("name", "collection", "error", "message"),
    [
        ("new", "old", Conflict, "there is a collection 'new': rename it"),
        ("docs", "absent", CollectionMissing, "absent"),
        ("Docs", "old", InvalidInput, "collection name 'Docs' is not valid"),
        ("other", "docs", InvalidInput, "'docs' is an alias itself: name the collection 'old'"),
        ("docs", "docs", InvalidInput, "'docs' is an alias itself"),
    ],
)
def test_what_no_alias_can_be_is_refused(
    store: Store, name: str, collection: str, error: type[AidreError], message: str
) -> None:
    store.point_alias("docs", "old")
    with pytest.raises(error, match=message):
        store.point_alias(name, collection)
    assert {alias: one.collection for alias, one in store.aliases().items()} == {"docs": "old"}


def test_what_an_alias_means_is_not_dropped(store: Store) -> None:
    store.point_alias("docs", "old")
    with pytest.raises(Conflict, match="'old' has the alias 'docs'"):
        store.drop("old")
    with pytest.raises(Conflict, match="'docs' is an alias of 'old'"):
        store.drop("docs")
    store.point_alias("docs", "new")
    store.drop("old")
    assert (store.collections(), meant(store, "docs")) == (["new"], "new")


def test_the_name_of_a_dropped_collection_can_be_an_alias(store: Store) -> None:
    store.drop("old")
    store.point_alias("old", "new")
    assert (store.collections(), meant(store, "old")) == (["new"], "new")


def test_a_drop_is_known_when_an_alias_has_the_name(store: Store) -> None:
    """So that it is published, and forgotten after a month."""
    copy_collection(store, "old", "older", move=True)
    store.point_alias("old", "older")
    assert store.is_dropped("old")
    assert not store.is_dropped("older")
    assert store.current_of("old") > store.open("older").generation


def test_a_purge_leaves_no_trace_in_the_aliases(store: Store) -> None:
    for name in ("old", "new"):
        store.point_alias("docs", name)
    store.drop("old", purge=True)
    assert store.aliases()["docs"].former == ()
    assert b"old" not in (store.path / FILE).read_bytes()


def test_an_alias_moves_with_a_collection_that_is_renamed(store: Store) -> None:
    store.point_alias("docs", "old")
    copy_collection(store, "docs", "older", move=True)
    assert (store.collections(), meant(store, "docs")) == (["new", "older"], "older")
    with pytest.raises(Conflict, match="'docs' is an alias of 'older'"):
        copy_collection(store, "new", "docs")


def test_a_removed_alias_must_be_there(store: Store) -> None:
    with pytest.raises(Missing, match="there is no alias 'docs'"):
        store.remove_alias("docs")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format":2,"aliases":{}}', b'{"format":1,"aliases":{"docs":1}}'])
def test_a_damaged_file_hides_the_aliases_and_no_collection(store: Store, content: bytes) -> None:
    store.point_alias("docs", "old")
    assert meant(store, "docs") == "old"
    os.chmod(store.path / FILE, 0o600)  # noqa: PTH101
    (store.path / FILE).write_bytes(content)
    assert meant(store, "old") == "old"
    with pytest.raises(CollectionMissing):
        store.open("docs")
    changes = (
        store.aliases,
        lambda: store.point_alias("docs", "new"),
        lambda: store.drop("old"),
        lambda: store.writer("docs", spaces=(TEXT,)),
    )
    for act in changes:
        with pytest.raises(StoreDamaged, match=r"\.aliases\.json is damaged: restore it from a backup"):
            act()


def test_nothing_is_restored_that_an_alias_would_hide(store: Store, tmp_path: Path) -> None:
    back_up(store, ["new"], tmp_path / "backup.tar")
    store.drop("new", purge=True)
    store.point_alias("new", "old")
    for replace_stored in (False, True):
        with pytest.raises(Conflict, match="'new' is an alias of 'old'"):
            restore_archive(store, tmp_path / "backup.tar", replace_stored=replace_stored)
    assert store.collections() == ["old"]


def test_a_backup_has_the_aliases_of_its_collections(store: Store, tmp_path: Path) -> None:
    store.point_alias("docs", "old")
    store.point_alias("fresh", "new")
    back_up(store, ["old"], tmp_path / "backup.tar")
    restored = Store(tmp_path / "restored")
    restore_archive(restored, tmp_path / "backup.tar")
    assert {name: one.collection for name, one in restored.aliases().items()} == {"docs": "old"}
    assert meant(restored, "docs") == "old"
