"""Backups that are not whole, altered, of a newer release or made to do harm: nothing of them is restored."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import AidreError, FormatTooNew, InvalidInput, Missing, StoreDamaged
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from tests.support.stores import NAME

File = tuple[tarfile.TarInfo, bytes]
"""A member of a backup and its content."""


def a_file(name: str, content: bytes) -> File:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def a_link(name: str, target: str) -> File:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member, b""


def made(path: Path, collections: Sequence[str], *files: File, version: int = 1) -> Path:
    """A backup with a right header of these collections and files."""
    header = orjson.dumps({"aidre_backup": version, "created_at": "", "collections": collections})
    with tarfile.open(path, "w") as tar:
        for member, content in (a_file("backup.json", header), *files):
            tar.addfile(member, io.BytesIO(content))
    return path


def members(backup: Path) -> list[File]:
    """What a backup holds of its collections."""
    with tarfile.open(backup) as tar:
        files = [(member, tar.extractfile(member)) for member in tar.getmembers() if "/" in member.name]
        return [(member, file.read()) for member, file in files if file is not None]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_part_of_a_backup_is_refused(tmp_path: Path, backup: Path, share: float) -> None:
    content = backup.read_bytes()
    part = tmp_path / "part.tar"
    part.write_bytes(content[: int(len(content.rstrip(b"\0")) * share)])
    new = Store(tmp_path / "new")
    with pytest.raises((InvalidInput, StoreDamaged)):
        restore_archive(new, part)
    assert list(new.path.iterdir()) == []


def test_an_altered_backup_is_refused_wherever_it_was_altered(tmp_path: Path, store: Store) -> None:
    target, receipts = tmp_path / "backup.tar", tmp_path / "receipts"
    receipts.write_bytes(b"of what nothing else knows the checksum")
    back_up(store, [NAME], target, [(".log/receipts", receipts)])
    content, rng = target.read_bytes(), np.random.default_rng(1)
    last = len(content.rstrip(b"\0"))
    places = [*rng.integers(last, size=40).tolist(), content.index(b"nothing else"), last + 1, len(content) - 1]
    new = Store(tmp_path / "new")
    for place in places:
        altered = bytearray(content)
        altered[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "altered.tar").write_bytes(altered)
        with pytest.raises(AidreError):
            restore_archive(new, tmp_path / "altered.tar", beside=".log")
        assert list(new.path.iterdir()) == []
    for other in (content + b"\0" * 512, content[:-512], content[: last - 700]):
        (tmp_path / "altered.tar").write_bytes(other)
        with pytest.raises(AidreError):
            restore_archive(new, tmp_path / "altered.tar", beside=".log")
        assert list(new.path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/tmp/evil",
        "docs/../../evil",
        "docs/segments/../../../evil",
        "docs/segments/a/..",
        "docs/segments/a//b",
        "docs/segments/.hidden/b",
        "docs/CURRENT",
        "docs/other/a",
        "docs/manifests/deep/a.json",
        "other/manifests/000001.json",
        ".log/a/b/c",
        ".ssh/a",
        "docs",
        "docs/segments/" + "a" * 300 + "/b",
    ],
)
def test_a_member_that_no_backup_has_is_refused(tmp_path: Path, name: str) -> None:
    hostile = made(tmp_path / "evil.tar", [NAME], a_file(name, b"evil"))
    new = Store(tmp_path / "deep" / "new")
    with pytest.raises(InvalidInput, match="nothing was restored"):
        restore_archive(new, hostile, beside=".log")
    assert list(new.path.iterdir()) == []
    assert {one.name for one in tmp_path.iterdir()} == {"evil.tar", "deep"}


def test_links_and_doubles_are_refused(tmp_path: Path) -> None:
    new = Store(tmp_path / "new")
    link, double = a_link("docs/manifests/000001.json", "/etc/passwd"), a_file("docs/manifests/000001.json", b"{}")
    with pytest.raises(InvalidInput):
        restore_archive(new, made(tmp_path / "a.tar", [NAME], link))
    with pytest.raises(InvalidInput, match="twice"):
        restore_archive(new, made(tmp_path / "b.tar", [NAME], double, double))
    with pytest.raises(InvalidInput, match="one generation"):
        restore_archive(new, made(tmp_path / "c.tar", [NAME]))
    with pytest.raises(StoreDamaged):
        restore_archive(new, made(tmp_path / "d.tar", [NAME], double))
    assert list(new.path.iterdir()) == []


@pytest.mark.parametrize("write_file", [lambda path: path.write_bytes(b"x" * 5_000), lambda path: path.touch()])
def test_what_is_no_backup_is_refused(tmp_path: Path, write_file: Callable[[Path], object]) -> None:
    other = tmp_path / "other.tar"
    write_file(other)
    with pytest.raises(InvalidInput, match="not a"):
        restore_archive(Store(tmp_path / "new"), other)
    with pytest.raises(Missing):
        restore_archive(Store(tmp_path / "new"), tmp_path / "none.tar")


def test_a_backup_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "new.tar", [], version=2)
    with pytest.raises(FormatTooNew, match="upgrade"):
        restore_archive(Store(tmp_path / "new"), path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_header_that_is_no_file_is_no_header(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("backup.json")
    member.type, member.linkname = kind, "/etc/passwd"
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        tar.addfile(member)
    with pytest.raises(InvalidInput, match="not a backup"):
        restore_archive(Store(tmp_path / "new"), tmp_path / "evil.tar")


def test_a_file_of_more_zeros_than_the_backup_holds_is_refused_unwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 200 << 20
    sparse = tarfile.TarInfo(f"{NAME}/segments/a/b")
    names = {"major": "1", "minor": "0", "name": sparse.name, "realsize": str(size)}
    sparse.pax_headers = {f"GNU.sparse.{name}": value for name, value in names.items()}
    content = b"1\n%d\n0\n".ljust(512, b"\0") % size
    sparse.size = len(content)
    evil = made(tmp_path / "evil.tar", [NAME], (sparse, content))
    assert evil.stat().st_size < 20_000
    monkeypatch.setattr(shutil, "copyfileobj", pytest.fail)
    with pytest.raises(InvalidInput, match="nothing was restored"):
        restore_archive(Store(tmp_path / "new"), evil)


def test_a_backup_that_names_a_collection_twice_restores_nothing(tmp_path: Path, backup: Path) -> None:
    twice = made(tmp_path / "twice.tar", [NAME, NAME], *members(backup))
    with pytest.raises(InvalidInput, match="twice"):
        restore_archive(Store(tmp_path / "new"), twice)
    assert Store(tmp_path / "new").collections() == []
