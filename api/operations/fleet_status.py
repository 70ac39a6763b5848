"""What the process that publishes or pulls tells those that answer GET /metrics: a small file in the store.

Moments are seconds of the machine's clock since it was started, which nobody sets; after another start an age is at
least the time since then. The file is not synced: it describes a process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

PUBLISHES, PULLS = ".publish.state", ".replica.state"
"""Files in a store, and in the cache of a replica."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Publishing:
    """Of a home node. `succeeded` is the moment of the last publication, or sign of life, that the bucket took, and
    `succeeded_at` its Unix time, `boot` the start of the machine that the moment belongs to; `published` the generation
    of each collection there, `only` the one that is followed, None: all."""

    boot: str
    succeeded: float | None
    succeeded_at: float
    failures: int
    published: Mapping[str, int]
    only: str | None = None


@dataclass(frozen=True, slots=True)
class PullStatus:
    """Of a replica. `pulled` is the moment of the last complete pull, `heard` that of the last sign of life of the
    publisher, None where it gives none; `behind` since when the replica lacks a generation of `committed`, which the
    publisher named, None: it lacks none."""

    boot: str
    pulled: float
    heard: float | None
    behind: float | None
    committed: Mapping[str, int]


def moment() -> float:
    """Seconds since the machine was started, also those that it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot() -> str:
    """Which start of the machine this is."""
    with suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return ""


def age(state: Publishing | PullStatus, since: float) -> float:
    """Seconds since a moment of a state."""
    return max(0.0, moment() - since) if state.boot == boot() else moment()


def write_state(folder: Path, name: str, state: Publishing | PullStatus) -> None:
    """What cannot be written is not told."""
    temporary = folder / f"{name}.{os.getpid()}.tmp"
    with suppress(OSError):
        temporary.write_bytes(msgspec.json.encode(state))
        temporary.replace(folder / name)


def read_state(folder: Path, name: str, kind: type[_T]) -> _T | None:
    with suppress(OSError, ValueError):
        return msgspec.json.decode((folder / name).read_bytes(), type=kind)
    return None
