"""The file that workers share, `api/http/shared_file.py`: its lock, its rights, and what spoils it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aidre.api.access.limits.token_bucket import NAME, TokenBuckets
from aidre.api.config.toml import Rate


def test_the_lock_is_held_for_one_request_only(tmp_path: Path) -> None:
    one, other = TokenBuckets([tmp_path], lambda: 0), TokenBuckets([tmp_path], lambda: 0)
    for admitted in (True, False):
        assert one.take("a", Rate(1, 60)).admitted is admitted
        assert other._file.lock()
        assert not one._file.lock()
        other._file.unlock()
    one.close()
    other.close()


def test_the_file_is_for_the_owner_alone_and_names_nobody(tmp_path: Path) -> None:
    buckets = TokenBuckets([tmp_path / "log"])
    buckets.take("address 203.0.113.7", Rate(10, 60))
    buckets.close()
    [file] = (tmp_path / "log").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"203.0.113" not in file.read_bytes()
    assert file.stat().st_blocks * 512 >= file.stat().st_size, "a hole: a full disk would end the process"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"x" * path.stat().st_size),
        lambda path: os.truncate(path, 100),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_file_that_is_none_of_ours_is_made_anew_or_left_alone(spoil: object, tmp_path: Path) -> None:
    TokenBuckets([tmp_path]).close()
    assert callable(spoil)
    spoil(tmp_path / NAME)
    buckets = TokenBuckets([tmp_path])
    assert buckets.take("a", Rate(3, 60)).remaining == 2
    buckets.close()


def test_where_nothing_can_be_written_each_worker_counts_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    buckets = TokenBuckets([tmp_path / "file", tmp_path / "missing" / "folder"])
    assert buckets.take("a", Rate(1, 60)).admitted
    assert not buckets.take("a", Rate(1, 60)).admitted
    buckets.close()


@pytest.mark.process
def test_a_worker_that_was_stopped_or_killed_with_the_lock_holds_up_nobody(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom aidre.api.access.limits.token_bucket import TokenBuckets\n"
        "assert TokenBuckets([Path(sys.argv[1])])._file.lock()\nprint('held', flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        buckets = TokenBuckets([tmp_path], lambda: 0)
        assert not buckets._file.lock()
        assert [buckets.take("a", Rate(5, 60)).remaining for _ in range(5)] == [4, 3, 2, 1, 0]
        holder.kill()
        holder.wait()
        assert buckets._file.lock()
        buckets._file.unlock()
        buckets.close()
