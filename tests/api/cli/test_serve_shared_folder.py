"""The folder that workers share, `api/cli/serve.py`: removed at the end, and by the next server where its owner
was killed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aidre.api.cli import serve
from aidre.api.cli.serve import GRACE_SECONDS, OWNER_FILE, PREFIX, remove_abandoned

HOLD = """
import sys, time
from pathlib import Path
from aidre.api.cli import serve
serve.MEMORY_FOLDER = Path(sys.argv[1])
with serve.shared_folder() as folder:
    (folder / "counts").write_bytes(b"1")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(serve, "MEMORY_FOLDER", tmp_path)
    return tmp_path


def test_a_folder_is_there_as_long_as_it_is_used(place: Path) -> None:
    with serve.shared_folder() as folder:
        assert folder.parent == place
        assert folder.stat().st_mode & 0o077 == 0
        remove_abandoned(place)
        assert folder.is_dir()
    assert list(place.iterdir()) == []


def test_a_server_that_starts_in_the_same_moment_removes_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock
    others: list[int] = []

    def late(descriptor: int, how: int) -> None:
        if not others:
            others.append(descriptor)
            remove_abandoned(place)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with serve.shared_folder() as folder:
        assert (folder / OWNER_FILE).exists()
        remove_abandoned(place)
        assert [path.name for path in folder.iterdir()] == [OWNER_FILE]


@pytest.mark.process
def test_what_a_killed_server_left_is_removed_by_the_next_one(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with serve.shared_folder() as folder:
            assert left.is_dir(), "its owner lives"
            assert folder != left
        process.kill()
        process.wait()
        assert left.is_dir()
        with serve.shared_folder() as folder:
            assert list(place.iterdir()) == [folder]


def test_nothing_else_is_removed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / OWNER_FILE).write_bytes(b"")
    (place / f"{PREFIX}link").symlink_to(elsewhere)
    (place / "aidre-other").mkdir()
    young, old = place / f"{PREFIX}young", place / f"{PREFIX}old"
    for folder in (young, old):
        folder.mkdir()
    os.utime(old, (0, old.stat().st_mtime - 2 * GRACE_SECONDS))
    remove_abandoned(place)
    assert sorted(path.name for path in place.iterdir()) == ["aidre-other", f"{PREFIX}link", f"{PREFIX}young"]
    assert (elsewhere / OWNER_FILE).exists()
