"""The command `aidre-conformance`, for those who have the kit alone; `aidre conformance` does the same."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from aidre_client.errors import AidreError, InvalidInput, RequestFailed
from aidre_conformance.badge import badge
from aidre_conformance.registry import Profile
from aidre_conformance.report import failure_lines, junit, summary_lines, summary_record, verdict_record
from aidre_conformance.runner import Verdict, checks_of, read_expected, run
from aidre_conformance.target import read_fixtures

FAILED, WRONG_CALL = 1, 2
"""Exit statuses."""
PROFILES = (
    "letter: the texts of all protocols; aidre, nlweb, intent, intake: one of them alone; "
    "compat: what known clients would show"
)


@dataclass(frozen=True, slots=True)
class Options:
    """What is tested and where reports go."""

    url: str
    profile: Profile = "letter"
    protocols: Sequence[str] = ()
    checks: Sequence[str] = ()
    fixtures: Path | None = None
    expected: Path | None = None
    junit: Path | None = None
    badge: Path | None = None
    timeout: float = 15.0
    as_json: bool = False


def carry_out(options: Options, say: Callable[[str], None]) -> int:
    """Tests the server, says verdicts and summary line by line and writes the reports; returns the exit status.

    InvalidInput for a wrong option, RequestFailed where nothing answers, OSError for a file that cannot be opened.
    """

    def say_verdict(verdict: Verdict) -> None:
        if options.as_json:
            say(_json_line({"event": "check", **verdict_record(verdict)}))
        elif verdict.outcome == "fail":
            for line in (*failure_lines(verdict), ""):
                say(line)

    report = run(
        options.url,
        profile=options.profile,
        fixtures=None if options.fixtures is None else read_fixtures(options.fixtures),
        protocols=options.protocols,
        checks=options.checks,
        expected=() if options.expected is None else read_expected(options.expected),
        timeout=options.timeout,
        on_verdict=say_verdict,
    )
    if options.junit is not None:
        options.junit.write_bytes(junit(report))
    if options.badge is not None:
        options.badge.write_bytes(badge(report))
    for line in [_json_line({"event": "done", **summary_record(report)})] if options.as_json else summary_lines(report):
        say(line)
    return 0 if report.ok else FAILED


def check_lines(profile: Profile, *, as_json: bool) -> Iterator[str]:
    """The checks of a profile with their sentences."""
    for check in checks_of(profile):
        if as_json:
            facts = {"id": check.id, "level": check.level, "section": check.section, "sentence": check.sentence}
            yield _json_line({**facts, "reading": check.reading})
        else:
            yield f"{check.id}  {check.level}, {check.section}: {check.sentence}"


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command with the words of the command line."""
    arguments = _parser().parse_args(words)
    try:
        if arguments.list:
            for line in check_lines(arguments.profile, as_json=arguments.json):
                _print(line)
            return 0
        if arguments.url is None:
            raise InvalidInput("name the address of a server, such as https://ai.example.com")
        return carry_out(_options(arguments), _print)
    except RequestFailed as error:
        return _complain(error.message, FAILED)
    except (AidreError, OSError) as error:
        return _complain(str(error), WRONG_CALL)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aidre-conformance",
        description="Test whether a server follows AIDRE, NLWeb, Agentic Intent and Agent Intake. Exit status 0: "
        "nothing failed but what was expected; 1: a check failed or the server does not answer; 2: a wrong call.",
    )
    parser.add_argument("url", metavar="URL", nargs="?", help="address of the server, such as https://ai.example.com")
    parser.add_argument("--profile", choices=get_args(Profile), default="letter", help=PROFILES)
    parser.add_argument(
        "--protocol", action="append", default=[], metavar="NAME", help="only this protocol; may be repeated"
    )
    parser.add_argument("--check", action="append", default=[], metavar="ID", help="only this check; may be repeated")
    for name, meaning in (
        ("fixtures", "TOML file with what cannot be found over HTTP"),
        ("expected", "ids of checks whose failure is known, one a line"),
        ("junit", "write the report as JUnit's XML"),
        ("badge", "write a badge as an SVG picture"),
    ):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=meaning)
    parser.add_argument("--timeout", type=float, default=15.0, metavar="SECONDS", help="of an answer; 15 by default")
    parser.add_argument("--list", action="store_true", help="print the checks of the profile, and send nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--version", action="version", version=version("aidre-conformance"))
    return parser


def _options(arguments: argparse.Namespace) -> Options:
    if arguments.timeout <= 0:
        raise InvalidInput("--timeout must be greater than 0")
    return Options(
        arguments.url,
        arguments.profile,
        arguments.protocol,
        arguments.check,
        arguments.fixtures,
        arguments.expected,
        arguments.junit,
        arguments.badge,
        arguments.timeout,
        arguments.json,
    )


def _json_line(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _print(line: str) -> None:
    """What a server sent cannot steer the terminal."""
    sys.stdout.write("".join(char if char.isprintable() else " " for char in line) + "\n")
    sys.stdout.flush()


def _complain(message: str, status: int) -> int:
    sys.stderr.write(f"aidre-conformance: {message}\n")
    return status
