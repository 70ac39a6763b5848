"""What the protocols write down is checked row by row and byte by byte."""

from __future__ import annotations

import random
from pathlib import Path

import orjson
import pytest

from aidre.api.cli.main import run
from aidre.api.cli.verify_logs import log_problems
from aidre.api.protocols.intent.ledger import digest_of
from aidre.engine.maintenance.verify import Problem
from tests.hostile import receipts
from tests.support.clients import a_document, fill


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for number in range(40):
        receipts.one_turn(tmp_path, f"turn {number}")
    return tmp_path


def problems(store: Path) -> list[Problem]:
    return list(log_problems(store))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_sound_log_has_no_problems(store: Path) -> None:
    assert problems(store) == []


def test_a_store_that_serves_no_such_protocol_has_none(tmp_path: Path) -> None:
    assert problems(tmp_path) == []


def test_an_altered_value_of_a_row_is_found(store: Path) -> None:
    known = digest_of("request", receipts.KEY, "turn 17")
    for name, word in (("intent.sqlite", known), ("intake.sqlite", b"turn 17")):
        path = store / ".log" / name
        whole = path.read_bytes()
        places = [place for place in range(len(whole)) if whole.startswith(word, place)]
        assert places
        for place in places[:3]:
            flip(path, place + 3)
            assert [problem.file for problem in problems(store)] == [f".log/{name}"]
            assert not problems(store)[0].derived
            path.write_bytes(whole)


def test_events_that_were_altered_or_cut_off_are_found(store: Path) -> None:
    segments = sorted((store / ".log" / "events").glob("*.jsonl"))
    chance = random.Random(1)
    for path in segments:
        whole = path.read_bytes()
        path.chmod(0o600)
        for place in chance.sample(range(len(whole)), min(10, len(whole))):
            flip(path, place)
            assert [(problem.file, problem.derived) for problem in problems(store)] == [
                (f".log/events/{path.name}", False)
            ]
            path.write_bytes(whole[:place])
            assert [problem.file for problem in problems(store)] == [f".log/events/{path.name}"]
            path.write_bytes(whole)


def test_the_command_says_what_is_damaged_and_that_it_is_not_ok(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, "docs", [a_document("d", "alpha")])
    assert run(["verify", "--store", str(store), "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["problems"] == []
    (path, *_) = sorted((store / ".log" / "events").glob("*.jsonl"))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    assert run(["verify", "--store", str(store), "--json"]) == 1
    (problem,) = orjson.loads(capsys.readouterr().out)["problems"]
    assert (problem["collection"], problem["file"]) == (None, f".log/events/{path.name}")
