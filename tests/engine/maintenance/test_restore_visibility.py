"""`restore --replace` never makes a private collection public."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import Visibility
from tests.support.stores import NAME, everything, write


def restored(tmp_path: Path, saved: Visibility, stored: Visibility) -> Store:
    """A store whose collection was saved with one visibility, then changed to another, and replaced by the backup."""
    store = Store(tmp_path / "store")
    write(store.path, ["a"], visibility=saved)
    back_up(store, [NAME], tmp_path / "backup.tar")
    write(store.path, ["b"], visibility=stored)
    restore_archive(store, tmp_path / "backup.tar", replace_stored=True)
    return store


@pytest.mark.parametrize(
    ("saved", "stored", "expected"),
    [
        ("public", "public", "public"),
        ("public", "private", "private"),
        ("private", "public", "private"),
        ("private", "private", "private"),
    ],
)
def test_the_stricter_visibility_holds(
    saved: Visibility, stored: Visibility, expected: Visibility, tmp_path: Path
) -> None:
    snapshot = restored(tmp_path, saved, stored).open(NAME)
    assert snapshot.collection.visibility == expected
    assert everything(snapshot) == ["a"]
    assert all(report.ok for report in verify(Store(tmp_path / "store")))


def test_past_a_damaged_manifest_any_readable_one_decides(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    write(store.path, ["a"])
    back_up(store, [NAME], tmp_path / "backup.tar")
    write(store.path, ["b"], visibility="private")
    newest = write(store.path, ["c"])
    path = store.path / NAME / "manifests" / f"{newest:06d}.json"
    path.unlink()
    path.write_bytes(b"{")
    restore_archive(store, tmp_path / "backup.tar", replace_stored=True)
    assert store.open(NAME).collection.visibility == "private"
