"""Verdicts as text, as JSON objects and as JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

from aidre_conformance.exchange import Exchange
from aidre_conformance.judging import shortened
from aidre_conformance.runner import Report, Verdict

MAX_EXCHANGES = 4
"""That are shown of a verdict: the last ones, which the judgement is about."""
MAX_SHOWN_CHARS, MAX_RECORDED_CHARS = 160, 4_000
"""Of a body, on a terminal and in a record."""


def failure_lines(verdict: Verdict) -> Iterator[str]:
    """A failure as a person reads it: the sentence, what was found, and the exchange."""
    check = verdict.check
    note = "  (expected)" if verdict.expected else ""
    yield f"FAIL  {check.id}  {check.level}, {check.section}{note}"
    yield f"      {check.sentence}"
    if check.reading is not None:
        yield f"      Read as: {check.reading}"
    yield f"      Found: {verdict.reason}"
    for exchange in verdict.exchanges[-1:]:
        yield f"      > {_request_line(exchange)}"
        yield f"      < {exchange.status} {exchange.media_type} {shortened(_text(exchange.body, MAX_SHOWN_CHARS))}"


def summary_lines(report: Report) -> Iterator[str]:
    """Counts by protocol, why checks were not testable, and expected failures that did not come."""
    reasons: dict[str, list[str]] = {}
    for verdict in report.verdicts:
        if verdict.outcome == "not testable":
            reasons.setdefault(str(verdict.reason), []).append(verdict.check.id)
    if reasons:
        yield "Not testable:"
        for reason, ids in reasons.items():
            yield f"  {reason}: {ids[0]}" + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")
        yield ""
    yield f"{'protocol':<10}{'passed':>8}{'failed: MUST':>14}{'SHOULD':>8}{'not testable':>14}"
    for protocol in dict.fromkeys(verdict.check.protocol for verdict in report.verdicts):
        yield _count_line(protocol, [verdict for verdict in report.verdicts if verdict.check.protocol == protocol])
    yield _count_line("all", list(report.verdicts))
    for name in report.unmet:
        yield f"{name} is expected to fail, and passes: remove it from the list"
    for name in report.untested:
        yield f"{name} was asked for, and nothing of it could be tested"


def _count_line(name: str, verdicts: list[Verdict]) -> str:
    def failed(level: str) -> int:
        return sum(verdict.outcome == "fail" and verdict.check.level == level for verdict in verdicts)

    passed = sum(verdict.outcome == "pass" for verdict in verdicts)
    untested = sum(verdict.outcome == "not testable" for verdict in verdicts)
    return f"{name:<10}{passed:>8}{failed('MUST'):>14}{failed('SHOULD'):>8}{untested:>14}"


# -- records ---------------------------------------------------------------------------------------------------------


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its sentence and what was exchanged, for JSON."""
    check = verdict.check
    return {
        "id": check.id,
        "protocol": check.protocol,
        "level": check.level,
        "section": check.section,
        "sentence": check.sentence,
        "reading": check.reading,
        "verdict": verdict.outcome,
        "reason": verdict.reason,
        "expected": verdict.expected,
        "seconds": round(verdict.seconds, 3),
        "exchanges": [exchange_record(exchange) for exchange in verdict.exchanges[-MAX_EXCHANGES:]],
    }


def exchange_record(exchange: Exchange) -> dict[str, Any]:
    """A request and its answer. Bodies are cut; secrets were never kept."""
    return {
        "request": {
            "method": exchange.method,
            "url": exchange.url,
            "headers": dict(exchange.request_fields),
            "body": _text(exchange.request_body, MAX_RECORDED_CHARS),
        },
        "response": {
            "status": exchange.status,
            "headers": dict(exchange.fields),
            "body": _text(exchange.body, MAX_RECORDED_CHARS),
            "problem": exchange.problem,
        },
    }


def summary_record(report: Report) -> dict[str, Any]:
    """The counts of a run."""
    return {
        "url": report.url,
        "profile": report.profile,
        "ok": report.ok,
        "passed": report.count("pass"),
        "failed": report.count("fail"),
        "expected": sum(verdict.expected for verdict in report.verdicts),
        "not_testable": report.count("not testable"),
        "unmet": list(report.unmet),
        "untested": list(report.untested),
        "seconds": round(report.seconds, 3),
    }


def junit(report: Report) -> bytes:
    """The report as JUnit's XML: a suite for each protocol, a case for each check. Expected failures are skipped."""
    root = ElementTree.Element("testsuites", name=f"aidre conformance {report.profile}", time=f"{report.seconds:.3f}")
    for protocol in dict.fromkeys(verdict.check.protocol for verdict in report.verdicts):
        verdicts = [verdict for verdict in report.verdicts if verdict.check.protocol == protocol]
        failed = sum(verdict.outcome == "fail" and not verdict.expected for verdict in verdicts)
        skipped = sum(verdict.outcome == "not testable" or verdict.expected for verdict in verdicts)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=protocol,
            hostname=report.url,
            tests=str(len(verdicts)),
            failures=str(failed),
            skipped=str(skipped),
            errors="0",
            time=f"{sum(verdict.seconds for verdict in verdicts):.3f}",
        )
        for verdict in verdicts:
            _add_case(suite, verdict)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_case(suite: ElementTree.Element, verdict: Verdict) -> None:
    check = verdict.check
    case = ElementTree.SubElement(
        suite, "testcase", name=check.id, classname=check.protocol, time=f"{verdict.seconds:.3f}"
    )
    reason = _printable(verdict.reason or "")
    if verdict.outcome == "not testable" or verdict.expected:
        ElementTree.SubElement(case, "skipped", message=f"{'expected: ' if verdict.expected else ''}{reason}")
    elif verdict.outcome == "fail":
        failure = ElementTree.SubElement(case, "failure", type=check.level, message=reason)
        failure.text = f"{check.section}: {check.sentence}"
    if verdict.outcome == "fail":
        shown = "\n".join(_exchange_text(exchange) for exchange in verdict.exchanges[-MAX_EXCHANGES:])
        ElementTree.SubElement(case, "system-out").text = _printable(shown)


def _exchange_text(exchange: Exchange) -> str:
    fields = "".join(f"< {name}: {value}\n" for name, value in exchange.fields)
    return f"> {_request_line(exchange)}\n< {exchange.status}\n{fields}{_text(exchange.body, MAX_RECORDED_CHARS)}\n"


def _request_line(exchange: Exchange) -> str:
    parts = urlsplit(exchange.url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    line = f"{exchange.method} {target} {shortened(_text(exchange.request_body, MAX_SHOWN_CHARS))}"
    return line.rstrip()


def _text(body: bytes, most: int) -> str:
    text = body[: 4 * most].decode("utf-8", errors="replace")
    return text if len(text) <= most else f"{text[:most]}…"


def _printable(text: str) -> str:
    """What XML may hold."""
    return "".join(char if char in "\n\t" or char.isprintable() else "�" for char in text)
