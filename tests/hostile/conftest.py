"""What the quick forms share: files that are synced, a report in a folder of its own, and chance whose seed a failure
shows."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.hostile.report import Report


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> None:
    """Here files are synced: what is durable is the question."""


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(tmp_path)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """`AIDRE_SEED` repeats a run; what is printed here pytest shows with a failure."""
    seed = int(os.environ.get("AIDRE_SEED", "0")) or random.randrange(1 << 32)
    print(f"AIDRE_SEED={seed}")  # noqa: T201 - where a test writes
    return random.Random(f"{seed} {request.node.name}")
