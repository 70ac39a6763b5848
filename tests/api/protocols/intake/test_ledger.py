"""Offers and binds on disk: what survives, what is encrypted, what is deleted, and what many askers at once get."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from aidre.api.cli.main import run
from aidre.api.config.intake import Intake
from aidre.api.config.settings import load_settings
from aidre.api.protocols.intake.bind_key import BindKey, find_bind_key
from aidre.api.protocols.intake.ledger import EXPIRED_OFFER_SECONDS, LEDGER_FILE, Ledger, StoredOffer
from aidre.engine.errors import ConfigurationError, StorageFailed
from tests.support.clients import BASE, serving
from tests.support.intake_agent import JSON
from tests.support.intakes import (
    CONFIGURATION,
    PERSON,
    SESSION,
    a_bind,
    a_submission,
    bind,
    offered,
    refused,
    submit,
)

CANARIES = ("canaryneed", "canarycity", "canarymail", "canaryname", "canarystreet")
DATA = {"need": "leaking pipe canaryneed", "place": {"city": "canarycity"}}
CANARY = {
    "email": "canarymail@example.com",
    "full_name": "canaryname",
    "address": {"street": "canarystreet"},
}


def leaks(folder: Path) -> list[str]:
    """The files in which a canary stands in the clear, in any case, in UTF-8 or UTF-16."""
    found = []
    for path in folder.rglob("*"):
        content = path.read_bytes().lower() if path.is_file() else b""
        if any(word.encode(coding) in content for word in CANARIES for coding in ("utf-8", "utf-16-le")):
            found.append(str(path))
    return found


def an_offer(id: str, expires: float) -> StoredOffer:
    return StoredOffer(id, SESSION, "i", ("email",), expires, 5.0)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert run(["binds", "--json", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_bind_survives_the_process_that_took_it(store: Path) -> None:
    with serving(store, CONFIGURATION) as first:
        offer = offered(first)
        kept = offered(first)
        answer = bind(first, a_bind(offer["id"])).content
    with serving(store, CONFIGURATION) as second:
        assert bind(second, a_bind(offer["id"])).content == answer
        assert bind(second, a_bind(kept["id"])).status_code == 200


def test_every_commit_is_written_through(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path)) as ledger:
        pragmas = [
            ledger._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ]
        assert pragmas == ["wal", 2]
    assert stat.S_IMODE((tmp_path / LEDGER_FILE).stat().st_mode) == 0o600


def test_two_hundred_identical_binds_at_once_are_one(store: Path) -> None:
    with serving(store, CONFIGURATION) as client, serving(store, CONFIGURATION) as other:
        offer = offered(client)

        async def at_once() -> list[httpx.Response]:
            transports = [httpx.ASGITransport(one.app) for one in (client, other)]
            callers = [httpx.AsyncClient(transport=transport, base_url=BASE) for transport in transports]
            posts = [
                callers[n % 2].post("/intakes/bind", json=a_bind(offer["id"]), headers={"content-type": JSON})
                for n in range(200)
            ]
            return await asyncio.gather(*posts)

        answers = asyncio.run(at_once())
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
    with closing(Ledger(store / ".log")) as ledger:
        assert len(list(ledger.binds())) == 1


def test_of_different_binds_at_once_one_wins(store: Path) -> None:
    with serving(store, CONFIGURATION) as client, serving(store, CONFIGURATION) as other:
        offer = offered(client)

        async def at_once() -> list[httpx.Response]:
            transports = [httpx.ASGITransport(one.app) for one in (client, other)]
            callers = [httpx.AsyncClient(transport=transport, base_url=BASE) for transport in transports]
            bodies = [a_bind(offer["id"], bind_data={**PERSON, "phone": str(n)}) for n in range(40)]
            return await asyncio.gather(
                *(callers[n % 2].post("/intakes/bind", json=body) for n, body in enumerate(bodies))
            )

        statuses = sorted(answer.status_code for answer in asyncio.run(at_once()))
        assert statuses == [200] + [409] * 39


PROGRAM = """
import sys
from pathlib import Path
from aidre.api.protocols.intake.ledger import Ledger, StoredOffer
ledger = Ledger(Path(sys.argv[1]))
for number in range(100_000):
    ledger.add_offer(StoredOffer(f"offer-{number}", "s", "i", ("email",), 2e9, 1.0), b"me", 1_000_000, 0.0)
    print(number, flush=True)
"""


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(50)]
        writer.kill()
        said += writer.stdout.readlines()
    whole = [line for line in said if line.endswith("\n")]
    with closing(Ledger(tmp_path)) as ledger:
        for line in whole:
            assert ledger.offer(f"offer-{int(line)}") is not None


def test_no_word_of_the_data_or_of_the_person_is_in_any_file_or_log(
    store: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "config").mkdir()
    configuration = tmp_path / "config" / "aidre.toml"
    configuration.write_text(CONFIGURATION.replace('bind_key = "a bind key that the tests know"', ""))
    settings = load_settings(configuration)
    with serving(store, settings) as client:
        offer = offered(client, data=DATA)
        assert "canaryneed" in offer["summary"]
        assert bind(client, a_bind(offer["id"], bind_data=CANARY)).status_code == 200
        assert bind(client, a_bind(offer["id"], bind_data={**CANARY, "phone": "1"})).status_code == 409
        refused(
            bind(client, a_bind(offered(client)["id"], bind_data={**CANARY, "email": CANARIES[2]})),
            400,
            "INVALID_INPUT",
        )
        refused(submit(client, a_submission({**DATA, "canaryneed": 1})), 400, "SCHEMA_MISMATCH")
        assert leaks(tmp_path) == []  # while the log of SQLite is still there
        client.get("/metrics")
    assert leaks(tmp_path) == []
    out, err = capfd.readouterr()
    assert not any(word in (out + err + caplog.text).lower() for word in CANARIES)


def test_the_search_for_leaks_finds_one(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x CanaryName x")
    assert leaks(tmp_path) == [str(tmp_path / "log")]


def test_a_key_is_made_once_beside_the_configuration(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration = tmp_path / "aidre.toml"
    configuration.write_text(CONFIGURATION.replace('bind_key = "a bind key that the tests know"', ""))
    for _ in range(2):
        with serving(store, load_settings(configuration)) as client:
            assert bind(client, a_bind(offered(client)["id"], bind_data=CANARY)).status_code == 200
    made = tmp_path / "aidre.bind-key"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    found = printed(capsys, "--store", str(store), "--config", str(configuration))
    assert [set(one) for one in found] == [{"offer_id", "bound_at", "bind_data"}] * 2
    assert [one["bind_data"] for one in found] == [CANARY, CANARY]
    assert not any(made.read_bytes().strip() in path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_the_key_never_stands_in_the_store(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for inside in (store / "sub" / "bind-key", store / ".." / store.name / "bind-key"):
        with pytest.raises(ConfigurationError, match=r"intake\.key_file .* is in the store"):
            find_bind_key(Intake(key_file=str(inside)), store)
    assert not (store / "sub").exists()
    key = find_bind_key(Intake(), store)
    assert find_bind_key(Intake(), store).id == key.id
    assert (tmp_path / "home" / "aidre" / "bind-key").exists()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(store))
    with pytest.raises(ConfigurationError, match=r"intake\.bind_key"):
        find_bind_key(Intake(), store)


def test_who_begins_at_once_takes_one_key(store: Path, tmp_path: Path) -> None:
    settings = Intake(key_file=str(tmp_path / "deep" / "key"))
    with ThreadPoolExecutor(8) as threads:
        keys = list(threads.map(lambda _: find_bind_key(settings, store).id, range(8)))
    assert len(set(keys)) == 1
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["key"]


def test_a_key_file_that_is_not_whole_is_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("short")
    with pytest.raises(ConfigurationError, match="incomplete"):
        find_bind_key(Intake(key_file=str(tmp_path / "key")), store)


def test_what_is_sealed_opens_with_its_key_for_its_purpose_alone() -> None:
    key = BindKey("one secret")
    sealed = key.seal(b"content", "offer")
    assert key.open(sealed, "offer") == b"content"
    assert key.open(sealed, "another") is None
    assert BindKey("other secret").open(sealed, "offer") is None
    assert key.open(sealed[:-1], "offer") is None
    assert key.open(b"", "offer") is None
    assert key.seal(b"content", "offer") != sealed


def test_another_key_neither_lists_nor_compares(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    other.write_text(CONFIGURATION.replace("a bind key that the tests know", "another bind key"))
    with serving(store, CONFIGURATION) as client:
        offer = offered(client)
        bind(client, a_bind(offer["id"]))
    with serving(store, load_settings(other)) as client:
        refused(bind(client, a_bind(offer["id"])), 503, "SERVICE_UNAVAILABLE")
    assert run(["binds", "--store", str(store), "--config", str(other), "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "another bind key" in said.err


def test_binds_are_listed_for_people_and_none_where_there_is_nothing(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration = tmp_path / "aidre.toml"
    configuration.write_text(CONFIGURATION)
    arguments = ["--store", str(store), "--config", str(configuration)]
    assert printed(capsys, *arguments) == []
    assert not (store / ".log" / LEDGER_FILE).exists()
    with serving(store, CONFIGURATION) as client:
        offer = offered(client)
        bind(client, a_bind(offer["id"], bind_data={**PERSON, "full_name": "\x1b[31mJane"}))
    assert run(["binds", *arguments]) == 0
    shown = capsys.readouterr().out
    assert offer["id"] in shown
    assert "\x1b" not in shown


def moved(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = time.time() + seconds
    monkeypatch.setattr(time, "time", lambda: now)


@pytest.fixture
def retained() -> Iterator[str]:
    yield CONFIGURATION.replace('{ data_retention = "none" }', '{ data_retention = "session" }')


def test_bound_data_are_deleted_after_the_declared_retention_and_the_bind_is_still_known(
    store: Path, tmp_path: Path, retained: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ "session" lasts as long as an offer: an hour here."""
    configuration = tmp_path / "aidre.toml"
    configuration.write_text(retained)
    arguments = ("--store", str(store), "--config", str(configuration))
    with serving(store, retained) as client:
        offer = offered(client)
        answer = bind(client, a_bind(offer["id"])).content
        moved(monkeypatch, 3_590)
        with closing(Ledger(store / ".log")) as ledger:
            ledger.delete_expired(time.time())
        assert printed(capsys, *arguments)[0]["bind_data"] == PERSON
        moved(monkeypatch, 20)
        assert printed(capsys, *arguments)[0]["bind_data"] is None  # also before anything is swept
        with closing(Ledger(store / ".log")) as ledger:
            ledger.delete_expired(time.time())
            [kept] = ledger.binds()
        assert kept.sealed is None
        assert printed(capsys, *arguments)[0]["bind_data"] is None
        assert bind(client, a_bind(offer["id"])).content == answer
        refused(bind(client, a_bind(offer["id"], bind_data={**PERSON, "phone": "1"})), 409, "OFFER_ALREADY_BOUND")


def test_deleted_data_leave_the_files_of_the_store(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path)) as ledger:
        _bound(ledger, b"x" * 50 + b"SEALEDMARK" + b"x" * 50, forget=100.0)
        assert any(b"SEALEDMARK" in path.read_bytes() for path in tmp_path.iterdir())
        assert ledger.delete_expired(101.0) == []
        assert not any(b"SEALEDMARK" in path.read_bytes() for path in tmp_path.iterdir())


def _bound(ledger: Ledger, sealed: bytes, forget: float) -> None:
    from aidre.api.protocols.intake.ledger import StoredBind

    bound = StoredBind("offer", SESSION, "i", 1.0, b"{}", b"key", b"digest", sealed, forget)
    assert ledger.add_bind(bound, deliver=False) == bound


def test_an_offer_that_nobody_bound_is_forgotten_in_the_end(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path)) as ledger:
        assert ledger.add_offer(an_offer("a", 100.0), b"me", 10, 50.0) == "added"
        ledger.delete_expired(100.0 + EXPIRED_OFFER_SECONDS - 1)
        assert ledger.offer("a") is not None
        ledger.delete_expired(100.0 + EXPIRED_OFFER_SECONDS)
        assert ledger.offer("a") is None


def test_of_offers_there_are_only_so_many(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path)) as ledger:
        assert ledger.add_offer(an_offer("early", 100.0), b"me", 2, 50.0) == "added"
        assert ledger.add_offer(an_offer("late", 900.0), b"you", 2, 50.0) == "added"
        assert ledger.add_offer(an_offer("more", 900.0), b"me", 2, 99.0) == "full"
        assert ledger.offer("early") is not None
        # What expired makes room before its time.
        assert ledger.add_offer(an_offer("more", 900.0), b"me", 2, 100.0) == "added"
        assert [ledger.offer(name) is None for name in ("early", "late", "more")] == [True, False, False]


def test_too_many_offers_are_refused_as_what_passes(store: Path) -> None:
    with serving(store, CONFIGURATION.replace("[intake]", "[intake]\nmax_offers = 2")) as client:
        first = offered(client)
        offered(client)
        response = submit(client, a_submission())
        refused(response, 503, "SERVICE_UNAVAILABLE")
        assert int(response.headers["retry-after"]) > 0
        assert bind(client, a_bind(first["id"])).status_code == 200


def test_a_store_that_cannot_be_written_refuses_offers_that_bind_and_goes_on_with_the_others(store: Path) -> None:
    (store / ".log").mkdir()
    (store / ".log" / LEDGER_FILE).mkdir()  # where a file has to be
    with serving(store, CONFIGURATION) as client:
        response = submit(client, a_submission())
        assert str(store) not in refused(response, 503, "SERVICE_UNAVAILABLE")
        refused(bind(client, a_bind("x")), 503, "SERVICE_UNAVAILABLE")
        assert submit(client, a_submission({"query": "quiet"}), "search").status_code == 200
        assert client.search({"query": "pipe", "collection": "trades"}).status_code == 200
        (store / ".log" / LEDGER_FILE).rmdir()
        assert offered(client)["id"]


def test_files_of_a_newer_release_are_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / LEDGER_FILE)) as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(StorageFailed, match="newer release"):
        Ledger(tmp_path)
