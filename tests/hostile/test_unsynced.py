"""The quick form of the replays; every sync of the product is dropped in it, as in the long form."""

from __future__ import annotations

import random

import pytest

from tests.hostile import unsynced
from tests.hostile.nursery import asked
from tests.hostile.report import Report, seed_of_run
from tests.hostile.unsynced import Outcome

SOME = 6
"""Losses of each kind that are tried in each scene, beside the worst."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return asked(unsynced.examine, Report(tmp_path_factory.mktemp("replay")), SOME, random.Random(seed_of_run()), False)


def test_what_was_acknowledged_survives_the_loss_of_all_that_was_not_synced(outcome: Outcome) -> None:
    outcome.check_scenes()


def test_without_any_one_sync_something_acknowledged_is_lost(outcome: Outcome) -> None:
    assert outcome.syncs > 40
    outcome.check_syncs()
