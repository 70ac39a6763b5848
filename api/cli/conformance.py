"""The checks of a server and of a checkout: `aidre conformance` and the benchmarks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from aidre.api.cli import console
from aidre.api.cli.options import JsonOption
from aidre.engine.errors import ConfigurationError, RequestFailed, not_installed

app = typer.Typer()


@app.command()
def conformance(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="Address of the server, such as https://ai.example.com.")
    ] = None,
    profile: Annotated[
        Literal["letter", "aidre", "nlweb", "intent", "intake", "compat"],
        typer.Option(
            "--profile",
            metavar="P",
            help="letter: the texts of all protocols; aidre, nlweb, intent, intake: one of them alone; "
            "compat: what known clients would show.",
        ),
    ] = "letter",
    protocol: Annotated[
        list[str] | None,
        typer.Option("--protocol", metavar="NAME", help="Only this protocol, which has to be there; may be repeated."),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option("--check", metavar="ID", help="Only this check; may be repeated.")
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
    badge: Annotated[
        Path | None, typer.Option("--badge", metavar="FILE", help="Write a badge as an SVG picture.")
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
    from aidre_conformance import Options, carry_out, check_lines

    if list_checks:
        console.print_lines(check_lines(profile, as_json=as_json))
        return 0
    if url is None:
        raise ConfigurationError("conformance: name the address of a server, such as https://ai.example.com")
    options = Options(url, profile, protocol or (), check or (), fixtures, expected, junit, badge, timeout, as_json)
    try:
        return carry_out(options, _print)
    except RequestFailed as error:
        console.print_message(str(error))
        return 1


def _print(line: str) -> None:
    console.print_line(console.printable(line))


CHECKOUT: Final = Path(__file__).resolve().parents[2]


def run_benchmarks(arguments: Sequence[str], checkout: Path = CHECKOUT) -> int:
    """Run `python -m benchmarks ARGUMENTS`; returns its exit status. Raises ConfigurationError without a checkout, for
    the benchmarks are part of no wheel."""
    if not (checkout / "benchmarks" / "__main__.py").is_file():
        raise ConfigurationError(
            "bench: the benchmarks are not part of the installed package: run `make bench` in a clone of the repository"
        )
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=checkout, check=False).returncode
