"""What a parser that was taken over can do: every try of `tests.hostile.breakout`, in a child of the sandbox.

    python -m tests.hostile.walls [bare]

prints the outcome of every try as JSON: null where it succeeded, else why not. With "bare" the child has no walls.
"""

from __future__ import annotations

import ctypes
import json
import socket
import sys
import tempfile
from pathlib import Path

from aidre.engine.errors import InvalidDocument
from aidre.ingest.sandbox.parent import Sandbox, SandboxLimits
from tests import ROOT
from tests.hostile.breakout import TRIES

PROGRAM = str(ROOT / "tests" / "hostile" / "breakout.py")
SECRET = ctypes.create_string_buffer(b"a secret of the parent")


def run(*arguments: str) -> dict[str, str | None]:
    """The outcome of every try by its name."""
    return {name: attempt(name, *arguments) for name in TRIES}


def attempt(name: str, *arguments: str) -> str | None:
    """Why one try fails in a new child that has a folder and a server to attack; None if it succeeds."""
    with (
        tempfile.TemporaryDirectory() as made,
        socket.create_server(("127.0.0.1", 0)) as server,
        Sandbox(SandboxLimits(seconds=20), (PROGRAM, *arguments)) as sandbox,
    ):
        folder = Path(made)
        (folder / "empty").mkdir()
        for file in ("secret", "victim"):
            (folder / file).write_text("secret")
        (folder / "link").symlink_to(folder / "secret")
        options = {
            "folder": made,
            "secret": str(folder / "secret"),
            "home": str(Path.home()),
            "port": server.getsockname()[1],
            "address": ctypes.addressof(SECRET),
        }
        try:
            sandbox.parse("try", name.encode(), options)
        except InvalidDocument as error:
            return error.message
        return None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(*sys.argv[1:])))
