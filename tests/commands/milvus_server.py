"""A Milvus server for one command: `python -m tests.commands.milvus_server COMMAND...`; its environment names it.

The server of the wheel `milvus` listens on every interface, and asks nobody who they are. So it runs in a network
namespace that has the loopback interface alone, and the command runs there, too. Nothing is started where there is
another interface.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

VARIABLE = "AIDRE_TEST_MILVUS"
"""Of the environment: the URI of the server."""

PORT = 19_530
_INSIDE = "--inside"
_STARTED_SECONDS = 180
_LINK_UP = 0x8914, 0x1 | 0x40
"""The call SIOCSIFFLAGS, and the flags of an interface that is up and running."""


def main(words: Sequence[str]) -> int:
    if words[:1] == [_INSIDE]:
        return _inside(words[1:])
    own = [sys.executable, "-m", "tests.commands.milvus_server", _INSIDE, *words]
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return subprocess.run(["unshare", "--net", *user, *own], check=False).returncode


def _inside(words: Sequence[str]) -> int:
    _raise_loopback()
    interfaces = [name for _, name in socket.if_nameindex()]
    if interfaces != ["lo"]:
        sys.exit(f"there are other interfaces than lo: {interfaces}; no server is started")
    with running() as uri:
        return subprocess.run(words, env={**os.environ, VARIABLE: uri}, check=False).returncode


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        call, flags = _LINK_UP
        fcntl.ioctl(any_socket, call, struct.pack("16sh14x", b"lo", flags))


@contextmanager
def running() -> Iterator[str]:
    """The URI of a server with an empty folder."""
    folder = Path(tempfile.mkdtemp(prefix="aidre-milvus-"))
    command = [sys.executable, "-c", "import milvus; milvus.main()", "--data", str(folder), "--proxy-port", str(PORT)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as own:
        try:
            _wait_for(own)
            yield f"milvus://127.0.0.1:{PORT}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(own.pid, signal.SIGKILL)
            own.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    from pymilvus import MilvusClient, MilvusException

    deadline = time.monotonic() + _STARTED_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError("the Milvus server ended: is the wheel `milvus` installed?")
        try:
            MilvusClient(f"http://127.0.0.1:{PORT}", timeout=5).list_collections()
            return
        except MilvusException:
            time.sleep(0.5)
    raise TimeoutError("the Milvus server did not start")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
