"""A checkout: a second one beside that of the environment, imports beside the clone, and what an editor finds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from aidre.engine.checkout import checkout_root, child_environment, missing_kernel
from tests import ROOT
from tests.support.clocks import WAIT_SECONDS
from tests.support.tools import install_npm

NOT_COPIED = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "*.so", "tests", "benchmarks")
WHERE = """
import sys
from aidre.engine.checkout import checkout_root, search_path
sys.path[:0] = search_path(checkout_root())
import aidre.engine.storage, aidre.library.collection, aidre.api.cli.main
from aidre.ingest.sandbox.parent import Sandbox, SandboxLimits
ours = {name: module.__file__ for name, module in sys.modules.items() if name.startswith(("aidre.", "aidre_"))}
print(*sorted({path[: path.rindex("/" + name.replace(".", "/"))] for name, path in ours.items()}))
"""
"""Prints the folders that code of aidre was loaded from, with the path of `python -m aidre`."""


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "AIDRE_KERNEL"}}


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=WAIT_SECONDS
    )


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second checkout, in which nothing was built."""
    folder = tmp_path_factory.mktemp("second") / "aidre"
    return Path(shutil.copytree(ROOT, folder, symlinks=True, ignore=NOT_COPIED))


def test_a_checkout_is_told_from_an_installed_package_by_its_links(tmp_path: Path, second: Path) -> None:
    (tmp_path / "aidre" / "engine").mkdir(parents=True)
    assert checkout_root(tmp_path / "aidre") is None
    assert checkout_root(second / "aidre") == second


def test_children_run_the_code_of_this_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [str(ROOT), *(str(path.parent) for path in sorted(ROOT.glob("packages/*/pyproject.toml")))]
    assert str(ROOT / "packages" / "postgres") in own
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert child_environment()["PYTHONPATH"].split(os.pathsep) == [*own, "/elsewhere"]
    monkeypatch.delenv("PYTHONPATH")
    assert child_environment()["PYTHONPATH"].split(os.pathsep) == own


def test_a_kernel_that_is_not_wanted_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIDRE_KERNEL", "faiss")
    assert missing_kernel() is None


@pytest.mark.process
@pytest.mark.slow
def test_a_second_checkout_runs_its_own_code_and_says_that_its_kernel_is_not_built(second: Path) -> None:
    done = run(sys.executable, "-c", WHERE, folder=second)
    assert done.stdout.split() == [str(second), str(second / "packages" / "client")], done.stderr
    (second / "notes").mkdir()
    # HTML is parsed in a child process: a parser that this checkout alone has must be the one that reads.
    (second / "notes" / "soup.html").write_text("<p>A soup of lentils, simmered for an hour.</p>", encoding="utf-8")
    parser = second / "ingest" / "formats" / "html_parser.py"
    text = parser.read_text("utf-8")
    parser.write_text(text + "\nraise SystemExit(1)\n", encoding="utf-8")
    ingest = ("-m", "aidre", "ingest", "notes", "--store", "store", "--collection", "notes")
    broken = run(sys.executable, *ingest, folder=second)
    assert broken.returncode == 1 and "soup.html" in broken.stderr, "the child ran the code of another checkout"
    parser.write_text(text, encoding="utf-8")
    done = run(sys.executable, *ingest, folder=second)
    assert done.returncode == 0, done.stderr
    assert f"aidre: the C kernel of {second} is not built" in done.stderr
    assert "python setup.py build_ext --inplace" in done.stderr


@pytest.mark.process
def test_aidre_is_imported_where_a_folder_of_its_name_is_a_clone(tmp_path: Path) -> None:
    """A folder without `__init__.py` must not hide the installed package."""
    (tmp_path / "aidre").mkdir()
    (tmp_path / "aidre" / "engine").symlink_to(ROOT / "engine")
    (tmp_path / "try.py").write_text("import aidre, aidre.engine.storage\nprint(aidre.open)\n", encoding="utf-8")
    done = run(sys.executable, "try.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "function open" in done.stdout


# -- an editor -------------------------------------------------------------------------------------------------------


class Editor:
    """A client of a language server over its standard streams."""

    def __init__(self, to: IO[bytes], answers: IO[bytes]) -> None:
        self._to, self._from, self._number = to, answers, 0

    def notify(self, method: str, parameters: object) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def ask(self, method: str, parameters: object) -> Any:
        """The result of a request."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})
        while (message := self._receive()).get("id") != self._number or "method" in message:
            pass
        assert "error" not in message, message
        return message["result"]

    def wait_for_log(self, said: str) -> None:
        while said not in str((self._receive().get("params") or {}).get("message")):
            pass

    def _send(self, message: object) -> None:
        body = json.dumps(message).encode()
        self._to.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._to.flush()

    def _receive(self) -> Any:
        length = 0
        while line := self._from.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server has ended"
        message = json.loads(self._from.read(length))
        if "method" in message and "id" in message:  # a request of the server, such as for settings: there are none
            items = (message.get("params") or {}).get("items", [])
            self._send({"jsonrpc": "2.0", "id": message["id"], "result": [None] * len(items)})
        return message


@contextmanager
def opened(folder: Path, root: Path) -> Iterator[Editor]:
    """An editor that has opened a folder."""
    command = ["node", str(folder / "node_modules" / "pyright" / "langserver.index.js"), "--stdio"]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        editor = Editor(server.stdin, server.stdout)
        where = {"uri": root.as_uri(), "name": root.name}
        editor.ask(
            "initialize", {"processId": None, "rootUri": where["uri"], "capabilities": {}, "workspaceFolders": [where]}
        )
        editor.notify("initialized", {})
        try:
            yield editor
        finally:
            server.kill()


@pytest.mark.network
@pytest.mark.process
@pytest.mark.slow
def test_an_editor_finds_the_references_of_a_function(second: Path, tmp_path: Path) -> None:
    tools = install_npm(tmp_path, {"pyright": "1.1.414"})
    path = second / "aidre" / "engine" / "segment" / "view.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    [line] = [number for number, text in enumerate(lines) if text.startswith("def merge_top_k(")]
    with opened(tools, second) as editor:
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": "\n".join(lines)}
        editor.notify("textDocument/didOpen", {"textDocument": document})
        editor.wait_for_log("source files")
        found = editor.ask(
            "textDocument/references",
            {
                "textDocument": {"uri": path.as_uri()},
                "position": {"line": line, "character": len("def m")},
                "context": {"includeDeclaration": False},
            },
        )
    calls = [place["uri"] for place in found if text_at(place) == "merge_top_k("]
    files = sorted({uri.removeprefix(f"{second.as_uri()}/aidre/engine/search/") for uri in calls})
    assert files == ["bm25.py", "codes.py", "dense.py", "hybrid.py"]
    assert len(calls) == 9


def text_at(place: Any) -> str:
    """What follows a reference: its name and the next character."""
    path = Path(place["uri"].removeprefix("file://"))
    begin, end = place["range"]["start"], place["range"]["end"]
    line: str = path.read_text(encoding="utf-8").splitlines()[begin["line"]]
    return line[begin["character"] : end["character"] + 1]
