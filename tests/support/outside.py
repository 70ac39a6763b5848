"""Stores for tests that run where the client alone is installed: a Python that has aidre makes and serves them.

`AIDRE_TEST_PYTHON` names it. The tests start `python -m tests.support.outside fill|key|serve PATH` with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests import ROOT
from tests.support.clocks import WAIT_SECONDS


class Outside:
    """A server of a store, as `Served`, in a process of its own."""

    def __init__(self, store: Path, configuration: str) -> None:
        self._process = subprocess.Popen(
            _command("serve", store), cwd=ROOT, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        line = f"{configuration}\0".encode()
        _pipe(self._process.stdin).write(line)
        _pipe(self._process.stdin).flush()
        self.port = int(_pipe(self._process.stdout).readline())

    @contextmanager
    def run(self) -> Iterator[None]:
        try:
            yield
        finally:
            _pipe(self._process.stdin).close()  # which ends it
            _pipe(self._process.stdout).close()
            self._process.wait(WAIT_SECONDS)


def ask_outside(verb: str, path: Path) -> None:
    """`fill` makes the store of `tests.support.remote`, `key` a key that signs."""
    subprocess.run(_command(verb, path), cwd=ROOT, env=_environment(), check=True, timeout=WAIT_SECONDS)


def _command(verb: str, path: Path) -> list[str]:
    return [os.environ["AIDRE_TEST_PYTHON"], "-m", "tests.support.outside", verb, str(path)]


def _environment() -> dict[str, str]:
    from_here = {str(ROOT), *(str(path) for path in ROOT.glob("packages/*"))}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sorted(from_here))}


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def main(verb: str, path: Path) -> None:
    from aidre.api.protocols.intake import bind_key
    from aidre.api.protocols.provenance.keys import make_key
    from tests.support.remote import fill_docs
    from tests.support.servers import Served

    if verb == "fill":
        fill_docs(path)
    elif verb == "key":
        make_key(path, time.time())
    else:
        bind_key.SCRYPT_COST = 2  # as tests/support/keys.py does
        said = sys.stdin.read(1)
        while not said.endswith("\0"):
            said += sys.stdin.read(1)
        server = Served(path, said[:-1])
        with server.run():
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
