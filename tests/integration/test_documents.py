"""A shell runs the commands of README.md and of the pages in docs/ as they are written, in the order of a reader."""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from aidre.engine.embedding.cache import cache_folder
from tests import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

PAGES = ("README.md", "docs/guide.md", "docs/operations.md")
"""In the order of a reader: each page continues with the store and the server of the page before."""
TIMEOUT_SECONDS = 300
NOTES = {
    "soup.md": "# Soup\n\nA soup of lentils, warm and without meat.\n",
    "sub/b.md": "# Bicycles\n\nMend the tube.\n",
}


def shell_lines(text: str) -> list[str]:
    """The lines of all shell blocks, without those of make and pip, which install what the tests run in."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith(("make ", "pip "))]


def script_of(lines: list[str], folder: Path, port: int) -> str:
    """The lines with a store and a port of the test's own; a request that is refused fails the script.

    A second `aidre serve` replaces the first, as a reader's would who ended that one with `kill %1`.
    """
    written = []
    for line in lines:
        if line.startswith("aidre serve"):
            written.append('if [ -n "${server:-}" ]; then kill "$server"; wait "$server"; fi')
        written += [f"echo {shlex.quote(f'$ {line}')}", line]
        if line.startswith("aidre serve"):
            written.append("server=$!")
    text = "\n".join(written)
    text = text.replace("/tmp/", f"{folder}/").replace("8321", str(port)).replace(". .venv/bin/activate", ":")
    return "set -eu\n" + re.sub(r"\bcurl -s", "curl --fail-with-body -sS", text) + "\n"


def free_port() -> int:
    """One below the range from which the kernel serves the other tests."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A reader's home folder, with notes."""
    for name, text in NOTES.items():
        path = tmp_path / "home" / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "home"


def run(script: str, home: Path) -> tuple[int, str]:
    """The status and the output of a script that runs in the checkout; ends what it left in the background."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "HOME": str(home), "PATH": path, "AIDRE_CACHE": str(cache_folder())}
    written = home / "output"
    with written.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(TIMEOUT_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status, written.read_text(encoding="utf-8", errors="replace")


def test_the_commands_of_the_documents_do_what_they_say(home: Path, tmp_path: Path) -> None:
    assert shutil.which("curl"), "the documents send their requests with curl"
    lines = [line for page in PAGES for line in shell_lines((ROOT / page).read_text(encoding="utf-8"))]
    assert {line.split()[1] for line in lines if line.startswith("aidre ")} >= {"ingest", "serve", "backup", "verify"}
    status, output = run(script_of(lines, tmp_path, free_port()), home)
    assert status == 0, output
    assert "smoky-lentil-soup" in output
    assert '"status":"ready"' in output
    assert "event: " in output or "data: " in output


def test_a_command_that_fails_is_found(home: Path, tmp_path: Path) -> None:
    lines = ["aidre status --store /tmp/missing", "echo not reached"]
    status, output = run(script_of(lines, tmp_path, free_port()), home)
    assert status == 2 or status == 1
    assert "not reached\n" not in output.replace("$ echo not reached", "")
