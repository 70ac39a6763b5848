"""The child's program: what it has of its parent, what it may use, and which libraries its parsers bring."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aidre.ingest.sandbox.child import KINDS
from aidre.ingest.sandbox.parent import Sandbox
from tests.ingest.sandbox.sandboxes import reason


def test_what_a_library_prints_goes_nowhere(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    sandbox.close()  # the next child begins with the standard output of this test
    assert sandbox.parse("talk", b"") == ""
    assert sandbox.parse("echo", b"next")["text"] == "next"
    assert capfd.readouterr() == ("", "")


def test_the_child_has_no_secrets_and_little_it_could_use(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIDRE_SECRET", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    with (tmp_path / "open").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        sandbox.close()  # the next child begins with this environment and this open file
        found = sandbox.parse("surroundings", b"")
    assert "AIDRE_SECRET" not in found["environment"]
    assert found["environment"]["LANG"] == "C.UTF-8"
    assert found["limits"] == {
        "RLIMIT_AS": [1 << 30, 1 << 30],
        "RLIMIT_CORE": [0, 0],
        "RLIMIT_FSIZE": [0, 0],
        "RLIMIT_NOFILE": [16, 16],
        "RLIMIT_NPROC": [0, 0],
    }
    assert 60 <= found["processor"] <= 70
    assert found["session"]
    assert not found["bytecode"]
    assert found["files"] <= 6
    refused = "PermissionError|" + os.strerror(errno.EFBIG)
    assert re.search(refused, reason(sandbox, "write", path=str(tmp_path / "new")))
    assert "Too many open files" in reason(sandbox, "open_many")


READS_ARROW = ("parquet", "parquet schema")


@pytest.mark.process
def test_no_parser_in_the_child_but_that_of_parquet_brings_arrow_faiss_or_numpy() -> None:
    """They take more room than the child has."""
    modules = sorted({place.partition(":")[0] for kind, place in KINDS.items() if kind not in READS_ARROW})
    program = f"import sys, {', '.join(modules)}; print({{'pyarrow', 'faiss', 'numpy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
