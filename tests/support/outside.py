"""Stores for tests that run where the client alone is installed: a Python that has aidre makes and serves them.

`AIDRE_TEST_PYTHON` names it. One process of it does what lines of JSON tell it, and answers each by a line.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests import ROOT


class Outside:
    """A server of a store, as `Served`, in the other process."""

    def __init__(self, store: Path, configuration: str) -> None:
        self.port = int(ask_outside("serve", store, configuration))

    @contextmanager
    def run(self) -> Iterator[None]:
        try:
            yield
        finally:
            ask_outside("stop", self.port)


def ask_outside(verb: str, *words: object) -> Any:
    """`fill FOLDER` makes the store of `tests.support.remote`, `key FILE` a key that signs, `serve STORE CONFIGURATION`
    returns the port of a server, which `stop PORT` ends."""
    process = _process()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([verb, *map(str, words)]) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@cache
def _process() -> subprocess.Popen[str]:
    command = [os.environ["AIDRE_TEST_PYTHON"], "-m", "tests.support.outside"]
    path = os.pathsep.join((str(ROOT), *sorted(str(one) for one in ROOT.glob("packages/*"))))
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdin=-1, stdout=-1, text=True
    )
    atexit.register(process.communicate)  # the end of its input ends it
    return process


def main() -> None:
    from aidre.api.protocols.intake import bind_key
    from aidre.api.protocols.provenance.keys import make_key
    from tests.support.remote import fill_docs
    from tests.support.servers import Served

    bind_key.SCRYPT_COST = 2  # as tests/support/keys.py does
    running: dict[int, AbstractContextManager[None]] = {}

    def serve(store: str, configuration: str) -> int:
        server = Served(Path(store), configuration)
        running[server.port] = server.run()
        running[server.port].__enter__()
        return server.port

    verbs: Mapping[str, Callable[..., Any]] = {
        "fill": lambda folder: fill_docs(Path(folder)),
        "key": lambda path: make_key(Path(path), time.time()),
        "serve": serve,
        "stop": lambda port: running.pop(int(port)).__exit__(None, None, None),
    }
    for line in sys.stdin:
        verb, *words = json.loads(line)
        answer = verbs[verb](*words)
        sys.stdout.write(f"{json.dumps(answer if verb == 'serve' else None)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
