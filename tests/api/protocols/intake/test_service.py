"""Offers and binds of a running service: kept, listed, encrypted, deleted in time, and one of many at once."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from aidre.api.cli.main import run
from aidre.api.config.settings import load_settings
from aidre.api.protocols.intake import offer_ledger
from aidre.api.protocols.intake.offer_ledger import LEDGER_FILE, OfferLedger
from tests.support.clients import BASE, serving
from tests.support.intake_agent import JSON
from tests.support.intakes import CONFIGURATION, PERSON, a_bind, a_submission, bind, offered, refused, submit

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


def test_many_identical_binds_at_once_are_one(store: Path) -> None:
    with serving(store, CONFIGURATION) as client, serving(store, CONFIGURATION) as other:
        offer = offered(client)

        async def at_once() -> list[httpx.Response]:
            transports = [httpx.ASGITransport(one.app) for one in (client, other)]
            callers = [httpx.AsyncClient(transport=transport, base_url=BASE) for transport in transports]
            posts = [
                callers[n % 2].post("/intakes/bind", json=a_bind(offer["id"]), headers={"content-type": JSON})
                for n in range(60)
            ]
            return await asyncio.gather(*posts)

        answers = asyncio.run(at_once())
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
    with closing(OfferLedger(store / ".log")) as ledger:
        assert len(list(ledger.binds())) == 1


def test_of_different_binds_at_once_one_wins(store: Path) -> None:
    with serving(store, CONFIGURATION) as client, serving(store, CONFIGURATION) as other:
        offer = offered(client)

        async def at_once() -> list[httpx.Response]:
            transports = [httpx.ASGITransport(one.app) for one in (client, other)]
            callers = [httpx.AsyncClient(transport=transport, base_url=BASE) for transport in transports]
            bodies = [a_bind(offer["id"], bind_data={**PERSON, "phone": str(n)}) for n in range(20)]
            return await asyncio.gather(
                *(callers[n % 2].post("/intakes/bind", json=body) for n, body in enumerate(bodies))
            )

        statuses = sorted(answer.status_code for answer in asyncio.run(at_once()))
        assert statuses == [200] + [409] * 19


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


def test_no_word_of_them_is_in_a_backup_or_a_report(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key is in the configuration, which is not backed up: who has the backup alone has no data of anybody."""
    settings = tmp_path / "config" / "aidre.toml"
    settings.parent.mkdir()
    settings.write_text(CONFIGURATION, encoding="utf-8")
    with serving(store, load_settings(settings)) as client:
        offer = offered(client, data=DATA)
        assert bind(client, a_bind(offer["id"], bind_data=CANARY)).status_code == 200
    at, file = ["--store", str(store), "--config", str(settings)], tmp_path / "backup.tar"
    assert run(["backup", str(file), *at]) == 0
    assert run(["restore", str(file), "--store", str(tmp_path / "restored")]) == 0
    assert (tmp_path / "restored" / ".log" / LEDGER_FILE).exists()
    assert run(["report", *at, "--out", str(tmp_path / "report.html")]) == 0
    assert run(["report", *at, "--json"]) == 0
    assert leaks(tmp_path) == []
    told = capsys.readouterr()
    assert not any(word in (told.out + told.err).lower() for word in CANARIES)


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
        with closing(OfferLedger(store / ".log")) as ledger:
            ledger.delete_expired(time.time())
        assert printed(capsys, *arguments)[0]["bind_data"] == PERSON
        moved(monkeypatch, 20)
        assert printed(capsys, *arguments)[0]["bind_data"] is None  # also before anything is swept
        with closing(OfferLedger(store / ".log")) as ledger:
            ledger.delete_expired(time.time())
            [kept] = ledger.binds()
        assert kept.sealed is None
        assert printed(capsys, *arguments)[0]["bind_data"] is None
        assert bind(client, a_bind(offer["id"])).content == answer
        refused(bind(client, a_bind(offer["id"], bind_data={**PERSON, "phone": "1"})), 409, "OFFER_ALREADY_BOUND")


def test_too_many_offers_are_refused_as_what_passes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer_ledger, "ACCOUNT_SHARE", 1)
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
