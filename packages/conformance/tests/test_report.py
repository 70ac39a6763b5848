"""Verdicts as text, JSON and JUnit, `aidre_conformance/report.py`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aidre_conformance import (
    Check,
    Exchange,
    Report,
    Verdict,
    failure_lines,
    junit,
    run,
    summary_lines,
    summary_record,
    verdict_record,
)
from conftest import GIVEN
from tests.wrong_servers.faulty_server import faulty_server


@pytest.fixture(scope="module")
def report(store: Path) -> Report:
    with faulty_server(store, "aidre_discovery_without_version") as url:
        return run(url, fixtures=GIVEN, protocols=("aidre",))


def _failure(report: Report) -> Verdict:
    [verdict] = [one for one in report.verdicts if one.outcome == "fail"]
    return verdict


def test_a_failure_says_the_sentence_what_was_found_and_the_exchange(report: Report) -> None:
    text = "\n".join(failure_lines(_failure(report)))
    assert "FAIL  aidre.23.1.version  MUST, AIDRE 23.1" in text
    assert "The discovery document MUST contain a version member." in text
    assert "Found: version is null" in text
    assert "> GET /.well-known/ai-discovery" in text
    assert "< 200 application/json" in text


def test_the_summary_counts_by_protocol_and_says_what_could_not_be_tested(report: Report) -> None:
    lines = list(summary_lines(report))
    assert any(line.startswith("aidre") and line.split()[2] == "1" for line in lines)
    assert any("vectors are not returned" in line for line in lines)


def test_a_record_has_the_exchange_and_is_json(report: Report) -> None:
    record = json.loads(json.dumps(verdict_record(_failure(report))))
    assert (record["verdict"], record["level"], record["section"]) == ("fail", "MUST", "AIDRE 23.1")
    [exchange] = record["exchanges"]
    assert exchange["request"]["url"].endswith("/.well-known/ai-discovery")
    assert exchange["response"]["status"] == 200
    summary = summary_record(report)
    assert (summary["ok"], summary["failed"]) == (False, 1)


def test_junit_has_a_case_for_each_check(report: Report) -> None:
    root = ElementTree.fromstring(junit(report))
    [suite] = root.findall("testsuite")
    assert suite.get("failures") == "1"
    assert len(suite.findall("testcase")) == len(report.verdicts)
    [failure] = suite.findall("testcase/failure")
    assert failure.get("type") == "MUST"
    assert "MUST contain a version member" in str(failure.text)
    assert len(suite.findall("testcase/skipped")) == report.count("not testable")


def test_what_a_server_sends_cannot_break_the_xml() -> None:
    check = Check("aidre.1.x", "aidre", "MUST", "AIDRE 1", "A sentence.", None, lambda target: None)
    exchange = Exchange("GET", "http://x/", (), b"\x00", 200, (("a", "\x1b"),), b"\x00\xff]]><&", 0.1)
    verdict = Verdict(check, "fail", "\x00 is < nothing", 0.1, (exchange,))
    root = ElementTree.fromstring(junit(Report("http://x", "letter", (verdict,))))
    assert root.findall("testsuite/testcase/failure")
