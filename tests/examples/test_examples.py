"""The commands of each example's README run unchanged, but for the ports, and do what it says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.clocks import WAIT_SECONDS
from tests.support.programs import needs
from tests.test_docs import blocks

pytestmark = [pytest.mark.process, pytest.mark.slow]

EXAMPLES = ROOT / "examples"
SEEN = {
    "static_site": ("3 documents: 3 written", r"http://127\.0\.0\.1:\d+/tides\.html", "High water comes"),
    "watched_folder": ("notes/ferry.md: # The ferry", "leaves at eight", r"0\.\d+ notes/(town|market)\.md"),
    "arrays_to_plots": ("2000 points, of each kind", "500 of 500 true neighbours were found", "neighbours.png"),
    "agent": (
        "Example Notes offers",
        "Repair a puncture, https://example.com/notes/puncture.md",
        "signed: notes/puncture",
    ),
    "stranger": (
        r"the page links to http://127\.0\.0\.1:\d+/\.well-known/api-catalog",
        "press a patch on the glue",
        "from: Repair a puncture, https://example.com/notes/puncture.md",
        r"verified: http://127\.0\.0\.1:\d+ has signed this text",
    ),
    "chat_program": ("tools: ask, await, search, fetch", "Lentil soup"),
    "shop": ("Wool jacket, 129 EUR", "order: POST https://shop.example.com/orders", "'name': 'Wool jacket'"),
    "cluster": (
        "000000-0000-.*\n000001-0000-.*\n000002-0000-.*\n000003-0000-",
        "4 new segments; notes: 200 documents, 200 chunks",
        "000003-0000-",
        "0 new segments; notes: 200 documents, 200 chunks",
        "note number 17 of many",
    ),
    "publisher": (
        "Lentil soup",
        "reported",
        "with another secret: access_denied",
        r"access +partner",
        r"citation +partner",
    ),
}
"""What the reader sees, in this order."""
UNSEEN = {"shop": "Down jacket, 289", "publisher": "kitchen"}
NEEDED = {"arrays_to_plots": ("matplotlib",), "cluster": ("pyspark",)}
PORTS = ("8321", "8322")
MOST_LINES = 80


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def run_as_written(name: str, folder: Path) -> str:
    """The output of the README's commands in a copy of the example; nothing that they began is left running."""
    shutil.copytree(EXAMPLES / name, folder)
    ports = {port: free_port() for port in PORTS}
    for path in folder.rglob("*"):
        if path.suffix in {".md", ".toml", ".xml", ".json"}:
            text = path.read_text(encoding="utf-8")
            path.write_text(re.sub("|".join(ports), lambda found: ports[found[0]], text), encoding="utf-8")
    [commands] = blocks((folder / "README.md").read_text(encoding="utf-8"), "sh")
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": programs, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": ""}
    output = folder.with_suffix(".txt")
    with output.open("wb") as file:  # not a pipe, which a server that is left holds open
        process = subprocess.Popen(
            ["bash", "-e", "-c", commands],
            cwd=folder,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(WAIT_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = output.read_text(encoding="utf-8")
    assert status == 0, said
    return said


@needs("curl")  # the commands wait for servers with it
@pytest.mark.parametrize("name", SEEN)
def test_the_commands_show_what_the_readme_says(name: str, tmp_path: Path) -> None:
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    said = run_as_written(name, tmp_path / name)
    at = 0
    for words in SEEN[name]:
        found = re.compile(words).search(said, at)
        assert found is not None, f"{words!r} is not in {said[at:]}"
        at = found.end()
    assert UNSEEN.get(name, "\0") not in said


def test_every_example_is_listed_and_tested_and_short() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/README.md")}
    assert folders == set(SEEN)
    listed = re.findall(r"\]\((\w+)/README\.md\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(folders)
    for path in EXAMPLES.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, path
