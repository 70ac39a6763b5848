"""Plain option values are converted as typer does it, without its import of pydantic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from aidre.api.cli.coercion import convert_plainly
from tests.support.clocks import WAIT_SECONDS


def _command(seen: list[Any], *, plainly: bool) -> Any:
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    def command(
        text: str,
        many: Annotated[list[str] | None, typer.Argument()] = None,
        count: Annotated[int, typer.Option("-k", min=1, max=1000)] = 10,
        file: Annotated[Path | None, typer.Option("--file")] = None,
        mode: Annotated[Literal["a", "b"] | None, typer.Option("--mode")] = None,
        share: Annotated[float, typer.Option("--share")] = 0.5,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> None:
        seen.append((text, many, count, file, mode, share, flag))

    made = typer.main.get_command(app)
    if plainly:
        convert_plainly(made)
    return made


@pytest.mark.parametrize(
    "words",
    [
        ["soup"],
        ["soup", "a", "b"],
        ["soup", "-k", "3", "--file", "x/y", "--mode", "b", "--flag", "--share", "0.25"],
        ["soup", "-k", "1000", "--file", ""],
        ["7"],
        ["soup", "-k", "0"],
        ["soup", "-k", "1001"],
        ["soup", "-k", "-3"],
        ["soup", "-k", "many"],
        ["soup", "-k", "3.0"],
        ["soup", "-k", " 4"],
        ["soup", "-k", "9" * 30],
        ["soup", "--mode", "c"],
        ["soup", "--share", "much"],
        [],
    ],
    ids=" ".join,
)
def test_values_and_faults_are_those_of_typer(words: list[str]) -> None:
    outcomes = []
    for plainly in (False, True):
        seen: list[Any] = []
        try:
            _command(seen, plainly=plainly).main(list(words), prog_name="x", standalone_mode=False)
            outcomes.append(repr(seen))
        except typer.TyperException as error:
            outcomes.append(error.format_message())
    assert outcomes[0] == outcomes[1]


UNNEEDED_BY_A_SEARCH = {
    "pydantic", "jsonschema_rs", "pyarrow.compute", "rich", "asyncio", "aidre.engine.collection.writer",
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["--help"], {"numpy", "pyarrow", "pydantic", "rich", "asyncio"}),
        (["search", "--help"], {"numpy", "pyarrow", "pydantic", "rich", "asyncio"}),
        (["search", "tea", "-k", "3", "--mode", "lexical"],
         {*UNNEEDED_BY_A_SEARCH, "onnxruntime"}),
        (["search", "tea"],
         {*UNNEEDED_BY_A_SEARCH, "torch"}),
        (["status"], {"pydantic", "rich", "asyncio", "onnxruntime"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_command_loads_only_what_it_needs(words: list[str], unneeded: set[str], filled_folder: Path) -> None:
    program = (
        "import sys\nfrom aidre.api.cli.main import run\n"
        f"status = run({words!r})\n"
        f"print(status, sorted({unneeded!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"AIDRE_STORE": str(filled_folder / "store"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == "0 []"
