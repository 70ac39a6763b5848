"""The quick form of the chaos, and that it finds out who loses something."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.hostile import chaos, client
from tests.hostile.answers import History, Readers
from tests.hostile.chaos import Chaos
from tests.hostile.client import Answer
from tests.hostile.clocks import Clock
from tests.hostile.moves import CLOSED, IDS, OPEN, TROUBLES, UNTROUBLED, WEIGHTS, Move, planned
from tests.hostile.nursery import Say
from tests.hostile.report import Report
from tests.hostile.server import environment

STEPS = 50


def test_two_collections_and_their_readers_live_through_chaos(report: Report, chance: random.Random) -> None:
    chaos.run(report, STEPS, chance)


def test_the_same_seed_gives_the_same_steps_of_every_kind() -> None:
    moves = planned(STEPS, random.Random("a seed"))
    assert moves == planned(STEPS, random.Random("a seed")) != planned(STEPS, random.Random("another"))
    met = {(move.kind, move.trouble) for move in moves}
    assert met == {(kind, one) for kind in WEIGHTS for one in TROUBLES if one == "none" or kind not in UNTROUBLED}


def forgetful(say: Say, words: Sequence[str], store: Path, offset: float, at: int) -> None:
    """Says that it was done, and did nothing."""
    say("0 ")


def test_a_command_that_did_not_do_what_it_said_is_found_out(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: the proof can fail."""
    life = Chaos(report.folder, Clock(report.folder / "clock"))
    life.prepare()
    life.step(Move("delete", OPEN, "none", tuple(IDS[OPEN][:2]), 2, 0.0, 0, 0.0))
    monkeypatch.setattr(chaos, "command", forgetful)
    with pytest.raises(AssertionError, match="in none of the allowed states"):
        life.step(Move("delete", OPEN, "none", tuple(IDS[OPEN][2:4]), 3, 0.0, 0, 0.0))


@pytest.mark.parametrize(("version", "problems"), [(1, 0), (2, 1)])
def test_an_answer_that_is_of_no_state_is_found_out(
    monkeypatch: pytest.MonkeyPatch, version: int, problems: int
) -> None:
    """A control of the readers: two documents of different commits make no state."""
    history = History()
    for state in ({"d00000": 1, "d00001": 1}, {"d00000": 2, "d00001": 2}):
        history.add(state)
    texts = [{"text": f"d00000 as of {version}: rain"}, {"text": "d00001 as of 1: rain"}]
    answer = Answer(200, {}, json.dumps({"results": texts}).encode())

    async def answered(*_: object) -> Answer:
        return answer

    monkeypatch.setattr(client.Connection, "ask", answered)
    readers = Readers(0, {OPEN: history, CLOSED: history}, random.Random(1))
    asyncio.run(readers._whole(client.Connection(0), OPEN, could_break=False))
    assert len(readers.problems) == problems


def test_a_process_that_is_started_with_a_wrong_clock_has_it(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    clock.set(86_400.0)
    command = [sys.executable, "-c", "import time; print(time.time())"]
    said = subprocess.check_output(command, env={**environment(), **clock.variables()}, text=True)
    assert 80_000 < float(said) - time.time() < 90_000
