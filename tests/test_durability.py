"""What was acknowledged survives: writers killed at random moments, and power cuts.

A power cut is an ext4 file system in an image: stop the writer, copy the image, mount the copy. What the kernel
had not been asked to write is not in it. `AIDRE_KILLS` and `AIDRE_POWER_CUTS` set the number of rounds.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from building import NAME, ask, normal
from killed_writer import DOCUMENTS, GROUP, SPACE, groups, wanted

from aidre.engine.errors import AidreError
from aidre.engine.store import Store
from aidre.engine.verify import verify

KILLS = int(os.environ.get("AIDRE_KILLS", "3"))
POWER_CUTS = int(os.environ.get("AIDRE_POWER_CUTS", "1"))
SEED = int(os.environ.get("AIDRE_SEED", "0")) or random.randrange(1 << 32)


@contextmanager
def writing(store: Path, epoch: int, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """A writer in a process of its own, killed at the latest when the test leaves it."""
    command = [sys.executable, str(Path(__file__).with_name("killed_writer.py")), str(store), str(epoch), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(process: subprocess.Popen[bytes], chance: random.Random, stop: signal.Signals) -> list[str]:
    """Ids that were acknowledged until the writer was stopped, at a random moment of its run."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(chance.randint(1, len(groups())))]
    time.sleep(chance.uniform(0.0, 0.02))
    os.kill(process.pid, stop)
    os.waitpid(process.pid, os.WUNTRACED)
    while select.select([process.stdout], [], [], 0)[0] and (part := process.stdout.read(1 << 20)):
        lines.append(part)
    return [one for one in b"".join(lines).decode().split() if one != "done"]


def run_to_its_end(store: Path, epoch: int) -> None:
    with writing(store, epoch) as process:
        assert process.stdout is not None
        assert process.stdout.read().split()[-1:] == [b"done"]
        assert process.wait() == 0


def texts(store: Path) -> dict[str, str]:
    """What the store holds; fails where it does not open, is damaged, or holds a document twice."""
    (report,) = verify(Store(store))
    assert report.problems == ()
    snapshot = Store(store).open(NAME)
    assert snapshot.warnings == ()
    ids = ask(snapshot, normal(1, SPACE.dimensions)[0], 10 * DOCUMENTS)
    assert len(ids) == len(set(ids)) == snapshot.documents == snapshot.chunks == report.documents
    found = {}
    for one in ids:
        chunk = snapshot.get(f"{one}#chunk_1")
        assert chunk is not None
        found[one] = chunk.text
    return found


def as_of(document_id: str, epoch: int) -> str | None:
    record = wanted(document_id, epoch) if epoch else None
    return record.document.text if record else None


def check(store: Path, epoch: int, acks: list[str]) -> None:
    """Everything acknowledged is as of `epoch`; one commit may be either; the rest is as of the epoch before."""
    found = texts(store)
    done = len(acks) // GROUP
    every = groups()
    assert acks == [one for group in every[:done] for one in group]
    for number, group in enumerate(every):
        new = {one: as_of(one, epoch) for one in group}
        old = {one: as_of(one, epoch - 1) for one in group}
        stored = {one: found.get(one) for one in group}
        allowed = [new] if number < done else [new, old] if number == done else [old]
        assert stored in allowed, f"commit {number} of epoch {epoch}, {done} acknowledged, seed {SEED}"


def test_what_was_acknowledged_survives_kills_and_the_next_run_completes(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    for epoch in range(1, KILLS + 1):
        with writing(tmp_path, epoch) as process:
            acks = acknowledged(process, chance, signal.SIGKILL)
        assert acks
        check(tmp_path, epoch, acks)
        run_to_its_end(tmp_path, epoch)
        assert texts(tmp_path) == {one: text for group in groups() for one in group if (text := as_of(one, epoch))}


# -- power cuts --------------------------------------------------------------------------------------------


def call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """The file system in an image; skips the test where this machine cannot mount one."""
    place.mkdir()
    try:
        call("mount", "-o", "loop", str(image), str(place))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs a loop device to mount an image: {error}")
    try:
        yield place
    finally:
        call("umount", str(place))


def new_image(path: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount an image")
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("needs mkfs.ext4")
    with path.open("wb") as file:
        file.truncate(96 << 20)
    call("mkfs.ext4", "-q", "-F", str(path))
    return path


@contextmanager
def after_power_cut(folder: Path, chance: random.Random, *flags: str) -> Iterator[tuple[Path, list[str]]]:
    """What a disk holds when the power goes while a writer writes, and what the writer had acknowledged."""
    image = new_image(folder / "image")
    with mounted(image, folder / "disk") as disk, writing(disk / "store", 1, *flags) as process:
        acks = acknowledged(process, chance, signal.SIGSTOP)
        call("cp", "--sparse=always", str(image), str(folder / "copy"))
        process.kill()
        process.wait()
    with mounted(folder / "copy", folder / "restored") as restored:
        yield restored / "store", acks


@pytest.mark.parametrize("cut", range(POWER_CUTS))
def test_what_was_acknowledged_survives_a_power_cut(cut: int, tmp_path: Path) -> None:
    with after_power_cut(tmp_path, random.Random(SEED + cut)) as (store, acks):
        assert acks
        check(store, 1, acks)
        run_to_its_end(store, 1)
        assert len(texts(store)) == sum(as_of(one, 1) is not None for group in groups() for one in group)


def test_a_power_cut_takes_what_was_never_synced(tmp_path: Path) -> None:
    """The control: without fsync the same cut loses what was acknowledged, so the test above can fail."""
    with after_power_cut(tmp_path, random.Random(SEED), "unsynced") as (store, acks):
        assert acks
        with pytest.raises((AssertionError, AidreError, ValueError)):
            check(store, 1, acks)
