"""Names, ids and texts that mean something in SQL and in expressions: a short form of the proof "engines"."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.engines import attack_engine, attacks
from tests.support.engines import WRITABLE

COUNT = 40


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("engine", WRITABLE)
def test_hostile_names_ids_and_texts_are_values_and_nothing_else(
    engine: str, tmp_path: Path, chance: random.Random
) -> None:
    attack_engine(engine, tmp_path, list(attacks(chance, COUNT)))
