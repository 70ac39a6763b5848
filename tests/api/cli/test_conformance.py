"""`aidre conformance`, `api/cli/conformance.py`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aidre.api.cli import conformance as command
from tests.support.shell import Shell
from tests.wrong_servers.faulty_server import faulty_server, fill_store

WRONG = "aidre.23.1.version"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def sound(store: Path) -> Iterator[str]:
    logging.disable(logging.CRITICAL)
    with faulty_server(store) as url:
        yield url
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def faulty(store: Path) -> Iterator[str]:
    with faulty_server(store, "aidre_discovery_without_version") as url:
        yield url


def test_a_sound_server_passes_and_the_summary_counts(read_only: Shell, sound: str) -> None:
    status, out, err = read_only.run("conformance", sound)
    assert (status, err) == (0, "")
    assert "FAIL" not in out
    assert out.splitlines()[-1].startswith("all")


def test_known_clients_are_a_profile_of_their_own(read_only: Shell, sound: str) -> None:
    status, out, _ = read_only.run("conformance", sound, "--profile", "compat")
    assert status == 0
    assert "compat" in out


def test_a_failure_is_printed_with_its_sentence_and_sets_the_status(read_only: Shell, faulty: str) -> None:
    status, out, _ = read_only.run("conformance", faulty, "--protocol", "aidre")
    assert status == 1
    assert f"FAIL  {WRONG}  MUST, AIDRE 23.1" in out
    assert "The discovery document MUST contain a version member." in out


def test_an_expected_failure_sets_no_status_and_one_that_does_not_come_does(
    read_only: Shell, faulty: str, sound: str, tmp_path: Path
) -> None:
    expected = tmp_path / "expected.txt"
    expected.write_text(f"{WRONG}  # until the next release\n")
    status, out, _ = read_only.run("conformance", faulty, "--protocol", "aidre", "--expected", str(expected))
    assert status == 0
    assert "(expected)" in out
    status, out, _ = read_only.run("conformance", sound, "--protocol", "aidre", "--expected", str(expected))
    assert status == 1
    assert f"{WRONG} is expected to fail, and passes" in out


def test_json_has_one_object_a_check_and_one_for_the_run(read_only: Shell, faulty: str, tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    status, out, _ = read_only.run("conformance", faulty, "--protocol", "aidre", "--json", "--junit", str(junit))
    *checks, done = map(json.loads, out.splitlines())
    assert status == 1
    assert {check["event"] for check in checks} == {"check"}
    assert [check["id"] for check in checks if check["verdict"] == "fail"] == [WRONG]
    assert (done["event"], done["ok"], done["failed"]) == ("done", False, 1)
    assert ElementTree.parse(junit).getroot().find("testsuite/testcase/failure") is not None


def test_fixtures_make_more_testable(read_only: Shell, sound: str, tmp_path: Path) -> None:
    fixtures = tmp_path / "fixtures.toml"
    fixtures.write_text('query = "alpha"\ncollection = "articles"\nsite = "recipes.example"\n')
    _, without, _ = read_only.run("conformance", sound, "--protocol", "nlweb", "--json")
    _, with_them, _ = read_only.run("conformance", sound, "--protocol", "nlweb", "--json", "--fixtures", str(fixtures))
    verdicts = []
    for out in (without, with_them):
        records = map(json.loads, out.splitlines())
        verdicts.append(next(one["verdict"] for one in records if one.get("id") == "nlweb.3.1.site"))
    assert verdicts == ["not testable", "pass"]


def test_the_checks_are_listed(read_only: Shell) -> None:
    status, out, _ = read_only.run("conformance", "--list")
    assert status == 0
    assert len(out.splitlines()) > 150
    _, out, _ = read_only.run("conformance", "--list", "--profile", "compat", "--json")
    assert {"id", "level", "section", "sentence", "reading"} == set(json.loads(out.splitlines()[0]))


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "name the address of a server"),
        (["example.com"], 2, "not an http or https URL"),
        (["http://127.0.0.1:1"], 1, "does not answer"),
        (["http://127.0.0.1:1", "--protocol", "aidr"], 2, "use one of aidre"),
        (["http://127.0.0.1:1", "--profile", "spirit"], 2, "spirit"),
        (["http://127.0.0.1:1", "--fixtures", "no-such-file"], 1, "no-such-file"),
        (["http://127.0.0.1:1", "--expected", "no-such-file"], 1, "no-such-file"),
    ],
)
def test_a_wrong_call_is_one_line(read_only: Shell, arguments: list[str], status: int, said: str) -> None:
    found, out, err = read_only.run("conformance", *arguments)
    assert (found, out) == (status, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_without_the_kit_the_help_is_there_and_a_call_says_what_to_install(
    read_only: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    status, out, _ = read_only.run("conformance", "--help")
    assert (status, "--expected" in out) == (0, True)
    for words in (["--list"], ["http://127.0.0.1:1"]):
        status, out, err = read_only.run("conformance", *words)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "pip install 'aidre[conformance]', or in a checkout: pip install ./packages/conformance" in err
