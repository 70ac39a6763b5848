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
from tests.support.loaded import python

pytestmark = [pytest.mark.process, pytest.mark.slow]

PAGES = (
    "README.md",
    "docs/guide.md",
    "docs/operations.md",
    "docs/upgrade.md",
    "docs/index.md",
    "docs/start.md",
    "docs/first-hour.md",
    "docs/rows.md",
    "docs/agents.md",
    "docs/speed.md",
)
"""In the order of a reader: each page continues with the store and the server of the page before."""
NOT_RUN = {
    "docs/access.md": "bash: serves with the key of a partner; tests/integration/test_authorisation.py asks with keys",
    "docs/backends.md": "needs a server of PostgreSQL; tests/backends runs what it shows",
    "docs/benchmarks.md": "runs benchmarks for hours",
    "docs/client.md": "installs a package, and asks a server; packages/client/tests runs both",
    "docs/compose/README.md": "needs Docker; tests/integration/test_compose.py reads the commands",
    "docs/conformance.md": "tests a server of somebody else; packages/conformance/tests runs the kit",
    "docs/distributed.md": "needs a bucket; tests/integration/test_executors.py runs what it shows",
    "docs/frameworks.md": "installs packages; `make integrations` does the same",
    "docs/guide.md": "bash: watches until it is ended, and writes with a key; both have tests of their own",
    "docs/implement.md": "installs packages; packages/conformance/tests runs the program and the kit",
    "docs/install.md": "installs packages, and fetches models; tests/test_installation.py runs its lines",
    "docs/languages.md": "needs a model; tests/integration/test_languages.py runs the steps with a small one",
    "docs/operations.md": "bash: makes a user and a service of this machine, and an image",
    "docs/replicas.md": "needs a bucket; tests/hostile/replicas.py publishes to one and serves from it",
    "docs/website.md": "fetches pages from elsewhere; tests/ingest/sources crawls a site of its own",
}
"""Pages with commands of a shell that do not run here, and why."""
CHANGES_THE_MACHINE = re.compile(
    r"\b(useradd|groupadd|systemctl|sudo|docker|apt(-get)?|pip) |(^|\s)/(etc|opt|var|usr|srv)/"
)
"""The tests may run as root: such commands stand in blocks of bash."""
TIMEOUT_SECONDS = 300
NOTES = {
    "soup.md": "# Soup\n\nA soup of lentils, warm and without meat.\n",
    "sub/b.md": "# Bicycles\n\nMend the tube.\n",
}


def commands(text: str) -> list[str]:
    """Commands of all blocks of shell and Python, without those of make and pip, which install what the tests run in.

    A block of Python, and what a command reads up to a mark, is one command of several lines.
    """
    found: list[str] = []
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        if language == "python":
            found.append(f"python - <<'PYTHON'\n{block}PYTHON")
            continue
        for command in re.findall(r"^(.*<<'(\w+)'.*\n(?:.*\n)*?\2\n)|^(.+)\n", block, flags=re.MULTILINE):
            line = (command[0] or command[2]).rstrip("\n")
            if not line.startswith(("make ", "pip ", "#")):
                found.append(line)
    return found


def script_of(lines: list[str], folder: Path, port: int) -> str:
    """The commands with a store and a port of the test's own; a request that is refused fails the script.

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
    """A reader's home folder, with notes, and the commands `aidre` and `python`, whose modules are loaded already."""
    for name, program in (("aidre", Path(sys.executable).with_name("aidre")), ("python", "")):
        command = tmp_path / "home" / "bin" / name
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(f'#!/bin/sh\nexec {shlex.join(python())} {program} "$@"\n', encoding="utf-8")
        command.chmod(0o700)
    for name, text in NOTES.items():
        path = tmp_path / "home" / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "home"


def run(script: str, home: Path) -> tuple[int, str]:
    """The status and the output of a script that runs in the checkout; ends what it left in the background."""
    path = os.pathsep.join((str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
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
    lines = [line for page in PAGES for line in commands((ROOT / page).read_text(encoding="utf-8"))]
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


def test_every_page_with_commands_is_run_or_says_why_not() -> None:
    pages = [
        path
        for path in sorted(ROOT.glob("docs/**/*.md"))
        if re.search(r"^```(sh|bash)$", path.read_text("utf-8"), re.M)
    ]
    shown = {path.relative_to(ROOT).as_posix() for path in pages}
    assert shown == {*NOT_RUN, *PAGES} - {"README.md"}
    for page in set(PAGES) - set(NOT_RUN):
        assert "```bash" not in (ROOT / page).read_text(encoding="utf-8"), page


def test_no_command_that_runs_changes_the_machine() -> None:
    lines = [line for page in PAGES for line in commands((ROOT / page).read_text(encoding="utf-8"))]
    assert [line for line in lines if CHANGES_THE_MACHINE.search(line)] == []
    assert CHANGES_THE_MACHINE.search("python3 -m venv /opt/x && /opt/x/bin/pip install x")
    assert CHANGES_THE_MACHINE.search("useradd --system x")


def test_commands_of_several_lines_are_one() -> None:
    text = "```sh\ncat > a <<'END'\nb\nEND\nmake demo\naidre status\n```\n```python\nprint(1)\n```\n"
    assert commands(text) == ["cat > a <<'END'\nb\nEND", "aidre status", "python - <<'PYTHON'\nprint(1)\nPYTHON"]
