"""Disks that can lose their power or fill up: file systems in images, mounted by loop devices. They need root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IMAGE_BYTES = 384 << 20


def call(*command: str | Path) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise OSError(f"{command[0]}: {error.stderr.decode(errors='replace').strip()}") from error


def why_not(folder: Path) -> str | None:
    """Why this machine cannot cut the power of a disk, None where it can."""
    if os.geteuid() != 0:
        return "needs root to mount an image"
    if shutil.which("mkfs.ext4") is None:
        return "mkfs.ext4 is not installed"
    image, place = folder / "trial-image", folder / "trial-disk"
    try:
        with mounted(new_image(image, 1 << 20), place):
            return None
    except OSError as error:
        return f"needs a loop device to mount an image: {error}"
    finally:
        image.unlink(missing_ok=True)


def new_image(path: Path, size: int = IMAGE_BYTES) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    call("mkfs.ext4", "-q", "-F", path)
    return path


def as_it_lies(image: Path, copy: Path) -> Path:
    """What the disk holds at this moment: what the kernel was not asked to write is not in it."""
    call("cp", "--sparse=always", image, copy)
    return copy


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """The file system of an image, its journal replayed."""
    with _mounted(place, "-o", "loop", image):
        yield place


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system in memory that is full after so many bytes."""
    with _mounted(place, "-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
        yield place


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """A mounted file system that cannot be written meanwhile."""
    call("mount", "-o", "remount,ro", place)
    try:
        yield
    finally:
        call("mount", "-o", "remount,rw", place)


@contextmanager
def _mounted(place: Path, *what: str | Path) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    call("mount", *what, place)
    try:
        yield
    finally:
        call("umount", place)
        place.rmdir()


def room(disk: Path) -> float:
    """The share of a disk that is free."""
    told = os.statvfs(disk)
    return told.f_bavail / told.f_blocks
