"""Completion of commands, options, collections and spaces by the shell.

Each Tab starts the command, so names are read from the files of the store without the engine, whose import takes half a
second. A store that cannot be read completes to nothing.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import typer

from aidre.api.cli import console

_REQUEST: Final = "_AIDRE_COMPLETE"
"""The variable in which the script of the shell asks for completions."""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def prepare() -> None:
    """Let the command answer the shell, if that is what it was started for."""
    if _REQUEST in os.environ:
        _scripts().completion_init()


def collection_names(context: typer.Context, incomplete: str) -> list[str]:
    """The collections of the store that the command names."""
    store = context.params.get("store")
    if not isinstance(store, Path):
        return []
    with suppress(OSError):
        return sorted(file.parent.name for file in store.glob(f"{_escape(incomplete)}*/CURRENT"))
    return []


def space_ids(context: typer.Context, incomplete: str) -> list[str]:
    """The spaces of the collections of the store, or of the one that the command names."""
    named = context.params.get("collection")
    names = [named] if isinstance(named, str) else collection_names(context, "")
    found: set[str] = set()
    for name in names:
        with suppress(OSError, ValueError, KeyError, TypeError):
            folder = context.params["store"] / name
            number = int((folder / "CURRENT").read_text(encoding="ascii"))
            manifest = json.loads((folder / "manifests" / f"{number:06d}.json").read_bytes())
            found |= {space["id"] for space in manifest["body"]["spaces"]}
    return sorted(space for space in found if space.startswith(incomplete))


def show(shell: Shell | None) -> None:
    """Print the script that makes a shell complete `aidre`, and end."""
    if shell is not None:
        console.print_line(_scripts().get_completion_script(prog_name="aidre", complete_var=_REQUEST, shell=shell))
        raise typer.Exit


def install(shell: Shell | None) -> None:
    """Write that script into the folder of the shell's configuration, and end."""
    if shell is not None:
        _, file = _scripts().install(shell=shell.value, prog_name="aidre", complete_var=_REQUEST)
        console.print_line(f"completion for {shell.value} is in {file}: it works in new shells")
        raise typer.Exit


def _scripts() -> Any:
    """The module of typer, which does not declare these names as exported."""
    import typer.completion

    return typer.completion


def _escape(incomplete: str) -> str:
    """The beginning of a name, without what has a meaning in a pattern of file names; no name has such characters."""
    return "".join(letter for letter in incomplete if letter.isalnum() or letter in "._-") or "[a-z0-9]"
