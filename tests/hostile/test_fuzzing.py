"""Mutated input brings only typed errors out of any parser."""

from __future__ import annotations

import random

import pytest

from tests.hostile.fuzzing import NAMES, mutate
from tests.hostile.parsers import PARSERS
from tests.hostile.report import Report


@pytest.mark.parametrize("name", NAMES)
def test_mutated_input_brings_only_typed_errors_out_of(name: str, report: Report, chance: random.Random) -> None:
    mutate(report, name, 150, chance)


def test_every_parser_is_fuzzed() -> None:
    assert sorted(NAMES) == sorted(PARSERS)
