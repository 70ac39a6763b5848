"""The quick form of the requests made from /openapi.json."""

from __future__ import annotations

import random

import pytest

from tests.hostile.publisher import publish
from tests.hostile.report import Report

PATHS = "^/(search|collections|chunks|ask|intakes|mcp)"


def test_the_application_and_its_description_agree(report: Report, chance: random.Random) -> None:
    pytest.importorskip("schemathesis")
    from tests.hostile.schema import Tally, in_process

    store, configuration = publish(report.place("publisher"))
    tally = Tally()
    in_process(tally, store, configuration, chance, 2, credential=None, coverage=False, only=PATHS)
    assert not tally.failures, tally.failures
    assert tally.asked > 20
    assert tally.chained > 4
    assert tally.statuses[200] > 4
    assert max(tally.statuses) < 500
