"""The quick form of the kills."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from tests.hostile import bulk, http_writes, kills, older_receipts, receipts
from tests.hostile.kills import live_through
from tests.hostile.nursery import Say
from tests.hostile.report import Report
from tests.hostile.steps import INDEXED, SMALL, Shape, Step, do
from tests.support.stores import NAME


def test_a_collection_lives_through_kills(report: Report, chance: random.Random) -> None:
    live_through(report, 4, SMALL, chance)


def test_a_collection_with_an_index_lives_through_kills(report: Report, chance: random.Random) -> None:
    live_through(report, 1, INDEXED, chance)


def test_a_bulk_load_that_was_killed_is_completed(report: Report, chance: random.Random) -> None:
    bulk.run(report, 1, chance)


def test_receipts_and_binds_live_through_kills(report: Report, chance: random.Random) -> None:
    receipts.run(report, 4, chance)


def test_what_was_written_over_http_lives_through_kills(report: Report, chance: random.Random) -> None:
    http_writes.run(report, 3, chance)


def test_older_receipts_are_taken_over_once_whoever_is_killed(report: Report, chance: random.Random) -> None:
    older_receipts.run(report, 4, chance)


def hasty(say: Say, store: Path, shape: Shape, steps: Sequence[Step]) -> None:
    """A writer that acknowledges what it is about to do."""
    with Store(store).writer(NAME, spaces=[shape.space]) as writer:
        for number, step in enumerate(steps):
            say(str(number))
            do(writer, shape, step)


def test_a_writer_that_acknowledges_too_early_is_found_out(
    report: Report, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the proof can fail."""
    monkeypatch.setattr(kills, "write", hasty)
    with pytest.raises(AssertionError, match=r"allowed states|left traces"):
        kills.live_through(report, 10, SMALL, chance)
