"""`aidre verify` checks what the protocols write down row by row and byte by byte, `api/cli/backup.py`."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from pathlib import Path

import orjson
import pytest

from aidre.api.cli.backup import log_problems
from aidre.api.cli.main import run
from aidre.api.http import digest_of
from aidre.engine.maintenance.verify import StoreProblem
from tests.hostile import receipts
from tests.hostile.older_receipts import older_receipts
from tests.support.clients import a_document, fill

TURNS = 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Receipts and binds; read only."""
    store = tmp_path_factory.mktemp("whole")
    names = [f"turn {number}" for number in range(TURNS)]

    async def answer_and_cite() -> None:
        opened = receipts.receipts_in(store)
        await opened.open()
        for name in names:
            await receipts.retrieve(opened, name)
            await receipts.cite(opened, name)
        opened.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aidre.api.protocols.intent.event_ledger.SETTLE_ROWS", receipts.SETTLED_ROWS)
        asyncio.run(answer_and_cite())
    for name in names:
        receipts.one_bind(store, name)
    return store


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """The same for one test."""
    shutil.copytree(whole, tmp_path / "store")
    return tmp_path / "store"


def problems(store: Path) -> list[StoreProblem]:
    return list(log_problems(store))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_sound_log_has_no_problems(whole: Path) -> None:
    assert problems(whole) == []


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


def test_an_altered_event_is_found(store: Path) -> None:
    path = store / ".log" / "intent.sqlite"
    whole, chance = path.read_bytes(), random.Random(1)
    events = [match.span() for match in re.finditer(rb'{"event_id":"[^}]*}', whole)]
    assert len(events) >= 2 * TURNS
    for begin, end in chance.sample(events, 10):
        flip(path, chance.randrange(begin, end))
        assert [(problem.file, problem.derived) for problem in problems(store)] == [(".log/intent.sqlite", False)]
        path.write_bytes(whole)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Receipts of an older release that were not taken over."""
    older_receipts(tmp_path / "older" / ".log", [f"turn {number}" for number in range(TURNS)], torn=False)
    return tmp_path / "older"


def test_events_of_an_older_release_that_were_altered_or_cut_off_are_found(older: Path) -> None:
    assert problems(older) == []
    segments = sorted((older / ".log" / "events").glob("*.jsonl"))
    assert len(segments) > 1
    chance = random.Random(1)
    for path in segments:
        whole = path.read_bytes()
        path.chmod(0o600)
        for place in chance.sample(range(len(whole)), min(10, len(whole))):
            flip(path, place)
            assert [(problem.file, problem.derived) for problem in problems(older)] == [
                (f".log/events/{path.name}", False)
            ]
            path.write_bytes(whole[:place])
            assert [problem.file for problem in problems(older)] == [f".log/events/{path.name}"]
            path.write_bytes(whole)


def test_the_command_says_what_is_damaged_and_that_it_is_not_ok(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, "docs", [a_document("d", "alpha")])
    assert run(["verify", "--store", str(store), "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["problems"] == []
    path = store / ".log" / "intent.sqlite"
    flip(path, path.read_bytes().index(b'{"event_id":"access turn 9"'))
    assert run(["verify", "--store", str(store), "--json"]) == 1
    (problem,) = orjson.loads(capsys.readouterr().out)["problems"]
    assert (problem["collection"], problem["file"]) == (None, ".log/intent.sqlite")


def test_lines_that_an_older_ledger_does_not_cover_are_checked_one_by_one(older: Path) -> None:
    path = older / ".log" / "events" / "000999.jsonl"
    path.write_bytes(b'{"event_id": "a"}\n[]\n{"event_id"')
    assert problems(older) == [
        StoreProblem(
            ".log/events/000999.jsonl",
            "has no event in line 2: damage, or the remains of a writer that was killed",
            derived=True,
        )
    ]
