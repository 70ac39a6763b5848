"""What several commands share: the options that they all spell alike, telling what was done, and a clean end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from aidre.api import console

if TYPE_CHECKING:
    from aidre.engine.model import Json


def _folder(value: str) -> Path:
    """Path takes an empty string, as of a variable that is not set, for the folder we happen to be in."""
    if not value:
        raise typer.BadParameter("it is empty: name a folder, . is this one.")
    return Path(value)


StoreOption = Annotated[Path, typer.Option("--store", metavar="DIR", parser=_folder, help="The folder of the store.")]
NamedCollection = Annotated[str, typer.Option("--collection", metavar="NAME", help="The collection.")]
AnyCollection = Annotated[
    str | None, typer.Option("--collection", metavar="NAME", help="May be left out where the store has one.")
]
EveryCollection = Annotated[
    str | None, typer.Option("--collection", metavar="NAME", help="Only this collection; otherwise all of them.")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="aidre.toml; without it every key has its default.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")]


def tell(as_json: bool, text: str, **facts: Json) -> None:
    """One object with the facts, or the text that says them."""
    if as_json:
        console.emit(facts)
    else:
        console.show(text)


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP end what runs within as an error does: nothing temporary is left. The exit status is that of a
    shell, 143 or 129."""
    former = {
        number: signal.signal(number, _end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL  # `nohup` ignores the one
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough, what is put away now shall be
    raise SystemExit(128 + number)
