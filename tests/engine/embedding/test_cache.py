"""The cache folder: where it is, and folders that are published in it whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from aidre.engine.embedding.cache import cache_folder, publish, staging, write_file
from aidre.engine.errors import StorageFailed


def holds(content: str) -> Callable[[Path], bool]:
    """Whether a published folder holds this content."""
    return lambda folder: (folder / "file").read_text() == content


def test_the_cache_is_the_folder_that_is_named_or_the_one_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AIDRE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / "home" / ".cache" / "aidre"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "aidre"
    monkeypatch.setenv("AIDRE_CACHE", "~/named")
    assert cache_folder() == tmp_path / "home" / "named"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIDRE_CACHE", "relative")
    assert cache_folder() == tmp_path / "relative"
    assert cache_folder().is_dir()


def test_a_cache_that_cannot_be_written_is_replaced_by_a_private_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    private = tmp_path / f"aidre-{os.getuid()}"
    assert cache_folder() == cache_folder() == private
    assert private.stat().st_mode & 0o077 == 0
    private.chmod(0o777)
    other = cache_folder()
    assert other != private and other.parent == tmp_path
    assert other.stat().st_mode & 0o077 == 0


def test_a_staged_folder_that_is_not_published_is_removed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), staging(tmp_path / "models") as folder:
        (folder / "file").write_text("half")
        raise ZeroDivisionError
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize(("stored", "wanted"), [(None, "new"), ("damaged", "new"), ("sound", "sound")])
def test_of_what_is_published_twice_the_first_sound_one_stays(stored: str | None, wanted: str, tmp_path: Path) -> None:
    target = tmp_path / "models" / "key"
    if stored is not None:
        target.mkdir(parents=True)
        (target / "file").write_text(stored)
    with staging(target.parent) as folder:
        (folder / "file").write_text("new")
        publish(folder, target, lambda path: not holds("damaged")(path))
    assert (target / "file").read_text() == wanted
    assert list(target.parent.iterdir()) == [target]


def test_publishing_where_others_always_come_first_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "models" / "key"

    def refuse(path: Path, to: Path) -> None:
        raise FileNotFoundError(to)

    with staging(target.parent) as folder:
        monkeypatch.setattr(Path, "rename", refuse)
        with pytest.raises(StorageFailed, match="AIDRE_CACHE"):
            publish(folder, target, lambda _: False)


def test_a_small_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        write_file(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
