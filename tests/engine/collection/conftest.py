"""Fixtures of the collection's tests: commits in a thread, and the collection of texts that a space joins."""

from __future__ import annotations

import pytest

from aidre.engine.collection import commit
from tests.support.backfills import bench
from tests.support.calibrations import quick_calibration


@pytest.fixture
def in_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit of a first bulk load runs in a thread, with workers that have no process."""
    monkeypatch.setattr(commit, "MIN_BACKGROUND_ROWS", 1)
    monkeypatch.setattr(commit, "MIN_WORKER_ROWS", 1)
    monkeypatch.setattr(commit, "MAX_WORKERS", 0)
    monkeypatch.setattr(commit, "available_cores", lambda: 2)


@pytest.fixture
def worker_processes(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit of a first bulk load runs in a thread, and two processes build what is derived."""
    monkeypatch.setattr(commit, "MAX_WORKERS", 2)
