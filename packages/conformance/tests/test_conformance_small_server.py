"""The kit against a small right server, the same with each of many faults, and servers of NLWeb 0.54."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import pytest

import aidre_client
from aidre_conformance import Fixtures, Report, run
from tests import ROOT
from tests.wrong_servers.faults import Fault
from tests.wrong_servers.small_faults import AIDRE_PLANTED, Planted
from tests.wrong_servers.small_faults_nlweb import NLWEB_PLANTED
from tests.wrong_servers.small_server import PAGE, QUERY, SITE, SmallServer, published_program

GIVEN = Fixtures(query=QUERY, site=SITE, promise={"prefer": {"respond-async": True}})
PLANTED: dict[str, Planted] = {one[0]: one for one in (*AIDRE_PLANTED, *NLWEB_PLANTED)}
BREAKING = [name for name, (_, check, _) in PLANTED.items() if check is not None]
MOST_LINES = 80


@pytest.fixture(scope="module")
def small() -> Iterator[SmallServer]:
    logging.disable(logging.CRITICAL)
    server = SmallServer()
    with server.run():
        yield server
    logging.disable(logging.NOTSET)


def planted(small: SmallServer, name: str) -> str | None:
    """Plants the fault and returns the id of the check that has to find it."""
    _, check, transform = PLANTED[name]
    small.fault = Fault(name, "aidre", "MUST", "", "", transform)
    return check


def failed(report: Report) -> dict[str, str | None]:
    return {verdict.check.id: verdict.reason for verdict in report.verdicts if verdict.outcome == "fail"}


def untestable(report: Report) -> set[str]:
    return {verdict.check.id for verdict in report.verdicts if verdict.outcome == "not testable"}


@pytest.mark.slow
def test_the_right_server_fails_nothing_in_any_profile_that_it_speaks(small: SmallServer) -> None:
    small.fault = None
    for given in (GIVEN, None):
        for report in (run(small.url, profile="aidre", fixtures=given), run(small.url, fixtures=given)):
            assert failed(report) == {}
            assert report.ok


def test_the_published_program_is_short_and_passes_what_it_can(small: SmallServer) -> None:
    lines = [line for line in published_program().splitlines() if line.strip()]
    assert len(lines) <= MOST_LINES and f"in {MOST_LINES} lines" in " ".join(PAGE.split())
    small.fault = None
    report = run(small.url, profile="aidre")
    assert failed(report) == {}
    assert untestable(report) == {
        "aidre.11.6.discovery-names-nothing-private",
        "aidre.11.6.private-collection",
        "aidre.11.6.private-collection-with-a-key",
        "aidre.11.6.1.challenge",
        "aidre.18.2.pages",
        "aidre.18.2.forged-cursor",
        "aidre.19.3.distance-of-returned-vectors",
        "aidre.21.2.rate-limit-fields",
    }
    assert f"aidre           {report.count('pass')}             0       0             8" in PAGE


def test_a_client_reads_the_published_program(small: SmallServer) -> None:
    small.fault = None
    with aidre_client.connect(small.url) as client:
        hits = client.collection("docs").search("rotate a key")
        assert hits[0].id == "guides/keys#1"
        assert client.collection("docs").chunk("guides/keys#1").text == hits[0].text


def test_more_than_sixty_faults_break_a_sentence() -> None:
    assert len(PLANTED) == len(AIDRE_PLANTED) + len(NLWEB_PLANTED), "two faults have one name"
    assert len(BREAKING) >= 61
    page = (ROOT / "docs/conformance.md").read_text(encoding="utf-8")
    assert f"of {len(BREAKING)} faults planted in it" in page


@pytest.mark.parametrize("name", BREAKING)
def test_a_planted_fault_is_found_by_the_check_of_its_sentence(small: SmallServer, name: str) -> None:
    check = planted(small, name)
    assert check is not None
    protocol = check.partition(".")[0]
    report = run(small.url, fixtures=GIVEN, protocols=[protocol], checks=[check])
    assert failed(report).keys() == {check}
    assert not report.ok


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PLANTED if name not in BREAKING])
def test_what_breaks_no_sentence_is_not_accused(small: SmallServer, name: str) -> None:
    assert planted(small, name) is None
    assert failed(run(small.url, fixtures=GIVEN)) == {}


# -- what fixtures say -----------------------------------------------------------------------------------------------


def test_a_server_that_finds_nothing_fails_only_where_the_fixtures_say_that_there_are_results(
    small: SmallServer,
) -> None:
    for name, check in (("nothing_is_found", "aidre.5.2.text-query"), ("nothing_is_ever_found", "nlweb.7.1.ask")):
        planted(small, name)
        report = run(small.url, fixtures=GIVEN, checks=[check])
        assert "nothing is found for the fixture" in str(failed(report)[check])
        assert failed(run(small.url, checks=[check])) == {}


def test_all_best_results_may_be_of_the_site_that_was_asked_for(small: SmallServer) -> None:
    small.fault = None
    report = run(small.url, fixtures=Fixtures(query="expire", site=SITE), checks=["nlweb.3.1.site"])
    assert [verdict.outcome for verdict in report.verdicts] == ["pass"]
    planted(small, "site_ignored")
    other = Fixtures(query="expire", site="bakery.example")
    assert failed(run(small.url, fixtures=other, checks=["nlweb.3.1.site"])).keys() == {"nlweb.3.1.site"}


# -- other versions of NLWeb -----------------------------------------------------------------------------------------

Serve: TypeAlias = Callable[[Callable[[Any, bytes], tuple[int, dict[str, str], bytes]]], AbstractContextManager[str]]
JSON_OF_0_54 = b'{"_meta": {"response_type": "Answer", "version": "0.54"}, "results": [{"name": "Expiry"}]}'
STREAM_OF_0_54 = (
    b'data: {"_meta": {"response_type": "Answer", "version": "0.54"}}\n\ndata: {"results": [{"name": "Expiry"}]}\n\n'
)
LEGACY = b'data: {"message_type": "result_batch", "results": []}\n\ndata: {"message_type": "complete"}\n\n'
WRONG = b'{"_meta": {"response_type": "Answer", "version": "0.55"}, "results": []}'


def answered(serve: Serve, body: bytes) -> Report:
    kind = "text/event-stream" if body.startswith(b"data:") else "application/json"
    found = (200, {"content-type": kind}, body)
    missing = (404, {"content-type": "application/json"}, b"{}")
    with serve(lambda scope, _: found if scope["path"] == "/ask" else missing) as url:
        return run(url, profile="nlweb")


@pytest.mark.parametrize(
    ("body", "spoken"),
    [(JSON_OF_0_54, "NLWeb 0.54"), (STREAM_OF_0_54, "NLWeb 0.54"), (LEGACY, "NLWeb before 0.54")],
)
def test_a_server_of_an_earlier_version_is_named_and_not_accused(serve: Serve, body: bytes, spoken: str) -> None:
    report = answered(serve, body)
    assert failed(report) == {}
    assert not report.ok and report.untested == ("nlweb",)
    reasons = {verdict.reason for verdict in report.verdicts if verdict.check.protocol == "nlweb"}
    assert any(f"the server speaks {spoken}, and these checks are of NLWeb 0.55" in str(reason) for reason in reasons)


def test_a_server_of_0_55_with_the_words_of_0_54_is_accused(serve: Serve) -> None:
    assert failed(answered(serve, WRONG)).keys() >= {"nlweb.7.1.ask", "nlweb.4.envelope"}
