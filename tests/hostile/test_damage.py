"""Flipped bits and files that are cut off are found, or harmless."""

from __future__ import annotations

import random

from tests.hostile.damage import KINDS, prepared, run
from tests.hostile.report import Report


def test_damage_to_every_kind_of_file_is_found_or_harmless(report: Report, chance: random.Random) -> None:
    store = prepared(report.place("store"), listed=chance.random() < 0.5)
    run(report, len(KINDS), chance, [store], flip=True)
    run(report, len(KINDS) // 2, chance, [store], flip=False)
