"""The reference of the command line, generated from the commands that typer knows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from aidre.api.cli.main import app

INTRODUCTION = """# Command line

`aidre COMMAND --help` prints the same. Every command ends with status 0 for success, 1 when documents failed, data are
damaged or a file cannot be read or written, 2 when the call or the configuration is wrong, 70 for an internal error,
and 130 or 143 after an interrupt or SIGTERM. With `--json` a command prints one JSON object a line to standard output;
messages go to standard error.
"""


def commands_page() -> str:
    """The page in Markdown: each command with its usage, its arguments and its options."""
    group: Any = typer.main.get_command(app)
    return INTRODUCTION + "".join(_section(name, command) for name, command in _commands(group))


def _commands(group: Any, path: str = "aidre") -> Iterator[tuple[str, Any]]:
    """Each command that does something, below its groups, in the order of the alphabet."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def _section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *map(_argument, arguments)])
    rows = [(_argument(one), one) for one in arguments] + [(_option(one), one) for one in options]
    table = "".join(f"| `{shown}` | {_meaning(one)} |\n" for shown, one in rows)
    text = inspect.cleandoc(command.help or "")
    return f"\n## {name}\n\n```text\n{usage}\n```\n\n{text}\n\n| argument or option | meaning |\n|---|---|\n{table}"


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    name = name if argument.nargs != -1 or name.endswith("...") else f"{name}..."
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _option(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {option.metavar or option.name.upper()}"


def _meaning(parameter: Any) -> str:
    facts = [" ".join((parameter.help or "").split())]
    if parameter.param_type_name == "option" and parameter.required:
        facts.append("Required.")
    if parameter.envvar:
        facts.append(f"Environment: `{parameter.envvar}`.")
    value = parameter.default
    if isinstance(value, int | float | str) and not isinstance(value, bool) and "default" not in facts[0]:
        facts.append(f"Default: `{value:g}`." if isinstance(value, float) else f"Default: `{value}`.")
    return " ".join(facts).replace("|", "\\|").replace("<", "&lt;")
