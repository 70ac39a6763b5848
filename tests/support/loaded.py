"""Python processes that begin with the modules of aidre loaded: forked from one that has imported them.

To start Python and import a server takes three quarters of a second of a processor, to fork one some milliseconds. What
a process imports, and what it does when it is told to in its environment, is tested with processes of their own.
"""

from __future__ import annotations

import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from tests import ROOT
from tests.support.loaded_interpreter import LENGTH_BYTES

MODULES = (
    "aidre.api.app", "aidre.api.cli.commands", "aidre.api.cli.doctor", "aidre.api.cli.ingest",
    "aidre.api.cli.maintenance", "aidre.api.cli.progress", "aidre.api.cli.report", "aidre.api.cli.serve",
    "aidre.ingest.pipeline.ingest", "aidre.library", "aidre_client", "numpy.ma", "typer._adapters",
)  # fmt: skip
OF_A_START = ("PYTHON", "FAISS_", "LD_", "COV", "AIDRE_KERNEL")
"""How names of variables begin that are read when Python or a library is loaded, and whose values tests look at."""
KINDS = ("-c", "-m", "-")
ENDS = 0
"""The descriptor whose end is that of the process that forks."""


@dataclass(frozen=True, slots=True)
class Request:
    words: list[str]
    folder: str
    environment: dict[str, str]
    descriptors: Sequence[int]


@cache
def python() -> tuple[str, ...]:
    """The words of an interpreter that has the modules loaded: `-c`, `-m` or a program follow, as after `python`.

    Its process is another one than that of the words: it gets the signals that they get, and is killed with them.
    """
    if sys.platform != "linux" or any(name.startswith("COV") for name in os.environ):
        return (sys.executable,)
    process = _forking()
    assert process.stdout is not None
    assert process.stdout.readline(), "the process that forks has ended"
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("loaded_interpreter.py")), _address())


@cache
def _forking() -> subprocess.Popen[bytes]:
    """It ends with its standard input: with this process, if not before."""
    command = [sys.executable, "-m", __name__, _address()]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _address() -> str:
    return f"aidre-tests-{os.getpid()}"


def stop_shared() -> None:
    """End the process that forks, if there is one, and what it has forked."""
    if _forking.cache_info().currsize:
        _forking().communicate()


# -- the process that forks ------------------------------------------------------------------------------------------


def serve(address: str) -> Request:
    """Forks a process for each request; returns in each of them, and never here."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{address}")
    listener.listen(64)
    poll = select.poll()
    for descriptor in (ENDS, listener.fileno()):
        poll.register(descriptor, select.POLLIN)
    forks: list[Fork] = []
    os.write(1, b"ready\n")
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == ENDS:
                for fork in forks:
                    os.kill(fork.process, signal.SIGKILL)
                os._exit(0)
            elif descriptor == listener.fileno():
                connection, _ = listener.accept()
                request = received(connection)
                if request is not None and not (process := os.fork()):
                    for opened in (listener, connection, *(fork.connection for fork in forks)):
                        opened.close()
                    return request
                if request is None:
                    connection.close()
                else:
                    forks.append(Fork.of(process, connection, request, poll))
            else:
                for fork in [
                    one for one in forks if descriptor == one.connection.fileno()
                ]:  # who asked for it has ended
                    os.kill(fork.process, signal.SIGKILL)
                    poll.unregister(descriptor)
                for fork in [one for one in forks if descriptor == one.end]:
                    fork.tell(poll)
                    forks.remove(fork)


@dataclass(frozen=True, slots=True)
class Fork:
    process: int
    end: int
    """A descriptor that can be read when the process has ended."""
    connection: socket.socket

    @classmethod
    def of(cls, process: int, connection: socket.socket, request: Request, poll: select.poll) -> Fork:
        for given in request.descriptors:
            os.close(given)
        fork = cls(process, os.pidfd_open(process), connection)
        poll.register(fork.end, select.POLLIN)
        poll.register(connection, select.POLLIN)
        with suppress(OSError):  # its end is seen below
            connection.sendall(f"{process}\n".encode())
        return fork

    def tell(self, poll: select.poll) -> None:
        """Says how it has ended to who asked for it, if that one is there."""
        _, status = os.waitpid(self.process, 0)
        with suppress(OSError):
            self.connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        with suppress(KeyError):
            poll.unregister(self.connection)
        poll.unregister(self.end)
        os.close(self.end)
        self.connection.close()


def received(connection: socket.socket) -> Request | None:
    length, descriptors, _, _ = socket.recv_fds(connection, LENGTH_BYTES, 3)
    with connection.makefile("rb") as file:
        content = file.read(int.from_bytes(length, "big"))
    if not content:
        return None
    words, folder, environment = marshal.loads(content)
    return Request(words, folder, environment, descriptors)


# -- the processes ---------------------------------------------------------------------------------------------------


def become(request: Request) -> None:
    """Takes over what a process gets from the one that starts it; a true start where its environment asks for it."""
    for own, given in enumerate(request.descriptors):
        os.dup2(given, own)
        os.close(given)
    os.chdir(request.folder)
    if (request.words[0].startswith("-") and request.words[0] not in KINDS) or started_by(request.environment):
        os.execve(sys.executable, [sys.executable, *request.words], request.environment)
    os.environ.clear()
    os.environ.update(request.environment)
    # streams of its own: those of the process that forks remember whether theirs could be sought in
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    buffering = 1 if os.environ.get("PYTHONUNBUFFERED") else -1
    sys.stdout = open(1, "w", buffering, "utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115


def started_by(environment: dict[str, str]) -> bool:
    def of_a_start(variables: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if name.startswith(OF_A_START)}

    return of_a_start(environment) != of_a_start(dict(os.environ))


def run(words: list[str]) -> None:
    """As `python WORDS` does."""
    kind, sys.argv = words[0], list(words)
    sys.path[0] = ""
    if kind == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif kind in KINDS:
        code = sys.stdin.read() if kind == "-" else words[1]
        sys.argv = [kind, *words[1 if kind == "-" else 2 :]]
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), module.__dict__)
    else:
        sys.path[0] = str(Path(kind).parent)
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    asked = serve(sys.argv[1])
    become(asked)
    run(asked.words)
