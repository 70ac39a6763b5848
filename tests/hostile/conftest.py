"""What the quick forms share: files that are synced, a report in a folder of its own, and chance."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.report import Report, seed_of_run


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> None:
    """Here files are synced: what is durable is the question."""


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(tmp_path)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{seed_of_run()} {request.node.name}")
