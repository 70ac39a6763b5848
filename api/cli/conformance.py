"""`aidre conformance`: tests another server by the conformance kit and prints the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from aidre.api.cli import console
from aidre.api.cli.options import JsonOption
from aidre.engine.errors import ConfigurationError, RequestFailed, not_installed

if TYPE_CHECKING:
    from aidre_conformance import Profile, Verdict

app = typer.Typer()


@app.command()
def conformance(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="Address of the server, such as https://ai.example.com.")
    ] = None,
    profile: Annotated[
        Literal["letter", "compat"],
        typer.Option(
            "--profile", metavar="P", help="letter: the texts of the protocols; compat: what known clients would show."
        ),
    ] = "letter",
    protocol: Annotated[
        list[str] | None,
        typer.Option("--protocol", metavar="NAME", help="Only this protocol, which has to be there; may be repeated."),
    ] = None,
    fixtures: Annotated[
        Path | None,
        typer.Option("--fixtures", metavar="FILE", help="TOML file with what cannot be found over HTTP: keys, ids."),
    ] = None,
    expected: Annotated[
        Path | None,
        typer.Option("--expected", metavar="FILE", help="Ids of checks whose failure is known, one a line, # reason."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write the report as JUnit's XML too.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for an answer.")
    ] = 15.0,
    list_checks: Annotated[bool, typer.Option("--list", help="Print the checks of the profile, and exit.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Test whether a server follows AIDRE, NLWeb, Agentic Intent and Agent Intake.

    Finds what the server speaks, and says for each check whether it passes, fails, or cannot be tested. Requests search
    and ask, retrieve, submit invented intake data and bind offers that came of them. Exit status 0: nothing failed but
    what was expected; 1: a check failed, an expected failure did not come, or the server does not answer. Needs the
    package aidre-conformance.
    """
    if find_spec("aidre_conformance") is None:
        raise not_installed("conformance", "conformance")
    if list_checks:
        return _list(profile, as_json)
    if url is None:
        raise ConfigurationError("conformance: name the address of a server, such as https://ai.example.com")
    return _run(
        url,
        profile,
        protocols=protocol or [],
        fixtures=fixtures,
        expected=expected,
        junit_file=junit,
        timeout=timeout,
        as_json=as_json,
    )


def _list(profile: Profile, as_json: bool) -> int:
    from aidre_conformance import checks_of

    for check in checks_of(profile):
        if as_json:
            facts = {"id": check.id, "level": check.level, "section": check.section, "sentence": check.sentence}
            console.print_json({**facts, "reading": check.reading})
        else:
            console.print_line(f"{check.id}  {check.level}, {check.section}: {check.sentence}")
    return 0


def _run(
    url: str,
    profile: Profile,
    *,
    protocols: Sequence[str],
    fixtures: Path | None,
    expected: Path | None,
    junit_file: Path | None,
    timeout: float,
    as_json: bool,
) -> int:
    from aidre_conformance import junit, read_expected, read_fixtures, run, summary_lines, summary_record

    try:
        report = run(
            url,
            profile=profile,
            fixtures=None if fixtures is None else read_fixtures(fixtures),
            protocols=protocols,
            expected=() if expected is None else read_expected(expected),
            timeout=timeout,
            on_verdict=_printer(as_json),
        )
    except RequestFailed as error:
        console.print_message(str(error))
        return 1
    if junit_file is not None:
        junit_file.write_bytes(junit(report))
    if as_json:
        console.print_json({"event": "done", **summary_record(report)})
    else:
        console.print_lines(map(console.printable, summary_lines(report)))
    return 0 if report.ok else 1


def _printer(as_json: bool) -> Callable[[Verdict], None]:
    """What prints each verdict: all of them as JSON, the failures for people."""
    from aidre_conformance import failure_lines, verdict_record

    def print_verdict(verdict: Verdict) -> None:
        if as_json:
            console.print_json({"event": "check", **verdict_record(verdict)})
        elif verdict.outcome == "fail":
            console.print_lines([*map(console.printable, failure_lines(verdict)), ""])

    return print_verdict
