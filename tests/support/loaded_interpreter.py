"""A program that stands for the interpreter: `python -IS loaded_interpreter.py ADDRESS WORDS...` has a process of
tests/support/loaded.py run the words. It hands on its descriptors, its folder, its environment and signals, and ends as
that process does. It imports next to nothing, so that it costs next to nothing. Where nobody forks any more, it becomes
the interpreter itself.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LENGTH_BYTES = 8


def main(address: str, words: list[str]) -> int:
    """The exit status of the process; the negative number of a signal that ended it."""
    request = marshal.dumps((words, os.getcwd(), dict(os.environ)))  # noqa: PTH109 - pathlib would be imported
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(f"\0{address}")
        socket.send_fds(connection, [len(request).to_bytes(LENGTH_BYTES, "big")], [0, 1, 2])
        connection.sendall(request)
        answers = connection.makefile()
        process = int(answers.readline())
    except (OSError, ValueError):
        os.execv(sys.executable, [sys.executable, *words])
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(process, number))
    return int(answers.readline())


if __name__ == "__main__":
    status = main(sys.argv[1], sys.argv[2:])
    if status < 0:
        if -status in FORWARDED:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
