"""The program that runs tests of a copy of the project: it has imported the libraries, and forks for every run.

It reads a line of JSON for each run, {"arguments", "output", "seconds"}, and answers one: the exit status of pytest, or
null where the time was over. Nothing of the project is imported before the fork.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

LIBRARIES = (
    "asyncio", "cryptography.hazmat.primitives.asymmetric.ed25519", "faiss", "httptools", "httpx", "hypothesis",
    "joserfc.jwt", "jsonschema_rs", "lazy_loader", "numpy.ma", "orjson", "pyarrow", "rich.console",
    "starlette.applications", "starlette.routing", "Stemmer", "typer", "uvicorn.protocols.http.httptools_impl",
    "uvloop", "xxhash", "yaml",
)  # fmt: skip
"""Imported once, which takes most of the time of a short run."""

ELSEWHERE = 99
"""The exit status of a run that imported the project from another place than the current folder."""

MEMORY_BYTES = 8 << 30
"""Of one run: a fault that allocates for ever ends here, before it takes the machine's memory."""


def main() -> None:
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)  # noqa: T201 - its answer


def run(arguments: Sequence[str], output: str, seconds: float) -> int | None:
    """The exit status of a run; a signal counts as its negative number."""
    child = os.fork()
    if not child:
        _run_pytest(arguments, output)
    descriptor = os.pidfd_open(child)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    has_ended = bool(poll.poll(seconds * 1000))
    os.close(descriptor)
    with suppress(ProcessLookupError):  # it, where it hangs, and what it has left running
        os.kill(child, signal.SIGKILL)
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if has_ended else None


def _run_pytest(arguments: Sequence[str], output: str) -> None:
    status = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        null = os.open(os.devnull, os.O_RDONLY)
        told = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for descriptor, own in ((null, 0), (told, 1), (told, 2)):
            os.dup2(descriptor, own)
        status = int(pytest.main(list(arguments)))
        if foreign := _foreign_modules():
            print("not of this copy:", *foreign)  # noqa: T201 - in the output of the run
            status = ELSEWHERE
        sys.stdout.flush()
    finally:
        os._exit(status)


def _foreign_modules() -> list[str]:
    own = Path.cwd().resolve()
    modules = [(name, module.__file__) for name, module in sys.modules.items() if name.startswith("aidre")]
    return sorted(name for name, file in modules if file and not Path(file).resolve().is_relative_to(own))


if __name__ == "__main__":
    main()
