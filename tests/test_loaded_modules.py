"""What a fresh interpreter loads with a part of aidre: nothing heavy before it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

from tests import ROOT
from tests.rules.source_tree import Tree

HERE = Tree(ROOT)


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after it ran the code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY_AT_START = {"torch", "faiss", "pyarrow", "onnxruntime", "sentence_transformers", "numpy", "starlette"}


def test_help_loads_no_heavy_library() -> None:
    loaded = loaded_by(
        "from aidre.api.cli.main import run\nassert run(['--help']) == 0\nassert run(['ingest', '--help']) == 0"
    )
    assert loaded.isdisjoint(HEAVY_AT_START)
    assert "typer" in loaded


def test_the_root_package_and_the_messages_of_a_protocol_load_no_heavy_library() -> None:
    every_room = "\n".join(f"import {room}" for room in sorted(HERE.stubs))
    assert loaded_by(f"import aidre\naidre.StoreLocked, aidre.__version__\n{every_room}").isdisjoint(HEAVY_AT_START)
    assert loaded_by("import aidre\naidre.Document, aidre.Query").isdisjoint(HEAVY_AT_START)
    assert loaded_by("import aidre.engine.ports") & HEAVY_AT_START == {"numpy"}


def test_the_messages_of_a_protocol_load_neither_a_server_nor_an_index() -> None:
    modules = [source.module for source in HERE.product if source.path.endswith("messages.py")]
    assert len(modules) >= 6
    imports = "\n".join(f"import {module}" for module in modules)
    assert loaded_by(imports).isdisjoint(HEAVY_AT_START - {"numpy"})


def test_the_watch_on_loaded_modules_can_fail() -> None:
    assert "pyarrow" in loaded_by("import pyarrow")
