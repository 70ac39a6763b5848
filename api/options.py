"""What several commands share: the options that they all spell alike, and telling what was done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aidre.api import console

if TYPE_CHECKING:
    from aidre.engine.model import Json

StoreOption = Annotated[Path, typer.Option("--store", metavar="DIR", help="The folder of the store.")]
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
