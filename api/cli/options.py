"""Options that several commands share, the output of a result, and termination by signals."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aidre.api.cli import console
from aidre.api.cli.completion import collection_names

if TYPE_CHECKING:
    from aidre.engine.model import Json


def parse_folder(value: str) -> Path:
    """Path("") is the current folder, and an unset shell variable would name it."""
    if not value:
        raise typer.BadParameter("it is empty: name a folder, . is this one.")
    return Path(value)


StoreOption = Annotated[
    Path,
    typer.Option("--store", metavar="DIR", envvar="AIDRE_STORE", parser=parse_folder, help="Folder of the store."),
]


def _collection_option(help: str) -> Any:
    return typer.Option("--collection", metavar="NAME", autocompletion=collection_names, help=help)


NamedCollection = Annotated[str, _collection_option("Name of the collection.")]
AnyCollection = Annotated[str | None, _collection_option("Name of the collection; optional if the store has only one.")]
EveryCollection = Annotated[str | None, _collection_option("Only this collection; default: all collections.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file (aidre.toml); default: the default settings."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def print_result(as_json: bool, text: str, **facts: Json) -> None:
    """Print the facts as one JSON object, or the text that states them."""
    if as_json:
        console.print_json(facts)
    else:
        console.print_line(text)


@contextmanager
def terminable() -> Iterator[None]:
    """Within this context SIGTERM and SIGHUP raise SystemExit, so that temporary files are removed.

    The exit status is the shell's: 143 or 129.
    """
    former = {
        number: signal.signal(number, _exit)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) not in (signal.SIG_IGN, None)  # `nohup` ignores SIGHUP
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the cleaning up
    raise SystemExit(128 + number)
